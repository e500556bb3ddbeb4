"""The mount view that sandboxes are built from has the mounts they may need, and none of the machine's others."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rota.execute.keeper import mount_view, reachable_folders

MAKE_ONE = """
import json, os, subprocess
from pathlib import Path
from rota.execute.keeper import mount_view

own = Path("/proc/self/mountinfo")
before = own.read_text()
made = mount_view.make(["/usr"])
assert made is not None
assert not os.get_inheritable(made)
inside = subprocess.run(
    ["nsenter", f"--mount=/proc/self/fd/{made}", "cat", own], pass_fds=[made], capture_output=True, text=True, check=True
).stdout
os.close(made)
print(json.dumps([before, inside, own.read_text()]))
"""
LISTING = """\
22 28 0:21 / /sys rw,relatime shared:7 - sysfs sysfs rw
23 28 0:5 / /proc rw - proc proc rw
24 28 0:6 / /dev rw - devtmpfs udev rw
25 24 0:22 / /dev/pts rw - devpts devpts rw
26 24 0:23 / /dev/shm rw - tmpfs tmpfs rw
27 24 0:40 / /dev/nvidia0 rw - devtmpfs udev rw
28 1 8:1 / / rw - ext4 /dev/sda1 rw
29 22 0:24 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
30 28 0:25 / /run rw - tmpfs tmpfs rw
31 30 0:26 / /run/lock rw - tmpfs tmpfs rw
32 28 8:2 / /srv rw - ext4 /dev/sdb1 rw
33 32 8:3 / /srv/team\\040one rw - ext4 /dev/sdc1 rw
34 33 8:4 / /srv/team\\040one/deep rw - ext4 /dev/sdd1 rw
35 28 7:1 / /usr/share/big ro - squashfs /dev/loop0 ro
36 28 0:50 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
37 28 8:5 / /srvx rw - ext4 /dev/sde1 rw
"""


def test_what_is_needed_stays_with_all_it_lies_on_and_all_that_lies_on_it() -> None:
    needed = ["/usr", "/run/systemd/resolve/stub-resolv.conf", "/srv/team one"]
    assert mount_view.superfluous(LISTING, needed) == [
        "/srvx",
        "/var/lib/docker/overlay2/x/merged",
        "/run/lock",
        "/sys/fs/cgroup",
        "/dev/shm",
        "/dev/pts",
        "/sys",
    ]


def test_with_nothing_needed_only_what_bubblewrap_itself_needs_is_left() -> None:
    gone = mount_view.superfluous(LISTING, [])
    assert {"/", "/proc", "/dev", "/dev/nvidia0"}.isdisjoint(gone)
    assert gone.index("/srv/team one/deep") < gone.index("/srv/team one") < gone.index("/srv")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes mount views")
def test_a_real_mount_view_has_fewer_mounts_and_ours_stays_as_it_was() -> None:
    # In a namespace of its own, where what other tests mount meanwhile is not seen.
    alone = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", MAKE_ONE]
    before, inside, after = json.loads(subprocess.run(alone, capture_output=True, text=True, check=True).stdout)
    assert after == before
    places = [line.split()[4] for line in inside.splitlines()]
    assert "/" in places
    assert "/proc" in places
    assert mount_view.superfluous(inside, ["/usr"]) == []
    assert len(places) < len(before.splitlines())


def test_only_folders_that_others_can_not_reach_are_bound_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> None:
    top = tmp_path_factory.mktemp("stage")
    closed, inner = top / "closed", top / "closed" / "inner"
    inner.mkdir(parents=True)
    inner.chmod(0o755)
    closed.chmod(0o700)
    (top / "link").symlink_to("/usr")
    assert reachable_folders._is_open("/usr/lib")
    assert not reachable_folders._is_open(str(inner)), "nobody gets past the folder above it"
    assert not reachable_folders._is_open(str(top / "link")), "where a link leads may change"
