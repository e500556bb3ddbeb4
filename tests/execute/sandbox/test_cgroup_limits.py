"""Control groups without a kernel: where they are on machines of several kinds, and which files get which numbers.

`test_limits.py` shows their effect on this machine's own layout.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.execute.linux import cgroup_limits
from rota.execute.linux.cgroup_limits import CPU, IO, KILL, MEMORY, PIDS, Counters, Leaf, Limits, Trees

PURE_V2 = (
    "25 30 0:22 / /proc rw,nosuid - proc proc rw\n"
    "29 25 0:25 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
    "0::/system.slice/rota-worker.service\n",
)
HYBRID = (
    "31 23 0:28 / /sys/fs/cgroup ro,nosuid shared:8 - tmpfs tmpfs ro,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    "33 31 0:30 / /sys/fs/cgroup/systemd rw,nosuid shared:10 - cgroup cgroup rw,xattr,name=systemd\n"
    "34 31 0:31 / /sys/fs/cgroup/memory rw,nosuid shared:11 - cgroup cgroup rw,memory\n"
    "35 31 0:32 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:12 - cgroup cgroup rw,cpu,cpuacct\n"
    "36 31 0:33 / /sys/fs/cgroup/pids rw,nosuid shared:13 - cgroup cgroup rw,pids\n",
    "5:pids:/user.slice\n4:cpu,cpuacct:/\n3:memory:/user.slice/worker\n1:name=systemd:/user.slice\n0::/user.slice\n",
)
CONTAINER = (
    "700 690 0:29 /docker/abc /sys/fs/cgroup/memory ro,nosuid master:15 - cgroup cgroup rw,memory\n"
    "701 690 0:30 /docker/abc /sys/fs/cgroup/blkio ro,nosuid master:16 - cgroup cgroup rw,blkio\n"
    "702 690 0:31 /docker/abc /sys/fs/cgroup/my\\040pids ro,nosuid - cgroup cgroup rw,pids\n",
    "4:blkio:/docker/abc/inner\n3:memory:/docker/abc\n2:pids:/elsewhere\n",
)


def test_a_machine_with_one_tree() -> None:
    mountinfo, listing = PURE_V2
    assert cgroup_limits.mounts_of(mountinfo) == ("/sys/fs/cgroup", {})
    assert cgroup_limits.own_groups(listing) == {"": "/system.slice/rota-worker.service"}
    assert cgroup_limits.find_v1(mountinfo, listing) == {}


def test_a_machine_with_a_tree_per_controller_and_one_beside_them() -> None:
    mountinfo, listing = HYBRID
    v2, v1 = cgroup_limits.mounts_of(mountinfo)
    assert v2 == "/sys/fs/cgroup/unified"
    assert v1["cpu"] == v1["cpuacct"] == ("/sys/fs/cgroup/cpu,cpuacct", "/")
    assert cgroup_limits.own_groups(listing)[""] == "/user.slice"
    assert cgroup_limits.find_v1(mountinfo, listing) == {
        MEMORY: "/sys/fs/cgroup/memory/user.slice/worker",
        PIDS: "/sys/fs/cgroup/pids/user.slice",
        CPU: "/sys/fs/cgroup/cpu,cpuacct",
    }


def test_inside_a_container_only_its_own_part_is_mounted() -> None:
    mountinfo, listing = CONTAINER
    assert cgroup_limits.find_v1(mountinfo, listing) == {
        MEMORY: "/sys/fs/cgroup/memory",
        IO: "/sys/fs/cgroup/blkio/inner",
        PIDS: "/sys/fs/cgroup/my pids/elsewhere",
    }


def test_a_machine_without_any() -> None:
    assert cgroup_limits.mounts_of("25 30 0:22 / /proc rw - proc proc rw\nnot a line\n") == (None, {})
    assert cgroup_limits.find_v1("", "") == {}


ALL = Limits(memory_bytes=1000, pids=20, cpu_milli=1500, iops=50, device="8:0")


def test_the_settings_of_one_tree() -> None:
    assert cgroup_limits._v2_settings(ALL) == {
        MEMORY: [("memory.oom.group", "1", False), ("memory.swap.max", "0", False), ("memory.max", "1000", True)],
        PIDS: [("pids.max", "20", True)],
        CPU: [("cpu.weight", "150", True), ("cpu.max", "150000 100000", True)],
        IO: [("io.max", "8:0 riops=50 wiops=50", True)],
    }


def test_the_settings_of_a_tree_per_controller() -> None:
    assert cgroup_limits._v1_settings(ALL) == {
        MEMORY: [("memory.limit_in_bytes", "1000", True), ("memory.memsw.limit_in_bytes", "1000", False)],
        PIDS: [("pids.max", "20", True)],
        CPU: [
            ("cpu.shares", "1536", True),
            ("cpu.cfs_period_us", "100000", True),
            ("cpu.cfs_quota_us", "150000", True),
        ],
        IO: [
            ("blkio.throttle.read_iops_device", "8:0 50", True),
            ("blkio.throttle.write_iops_device", "8:0 50", True),
        ],
    }


def test_a_task_that_may_burst_has_the_same_weight_and_no_quota() -> None:
    """Also after a quota: the file is written, not left as it is."""
    burst = Limits(cpu_milli=250, cpu_burst=True)
    assert cgroup_limits._v2_settings(burst) == {CPU: [("cpu.weight", "25", True), ("cpu.max", "max 100000", True)]}
    assert cgroup_limits._v1_settings(burst) == {
        CPU: [("cpu.shares", "256", True), ("cpu.cfs_period_us", "100000", True), ("cpu.cfs_quota_us", "-1", True)]
    }
    held = Limits(cpu_milli=250)
    assert cgroup_limits._v2_settings(held)[CPU][0] == ("cpu.weight", "25", True)
    assert cgroup_limits._v1_settings(held)[CPU][0] == ("cpu.shares", "256", True)


@pytest.mark.parametrize("settings", [cgroup_limits._v1_settings, cgroup_limits._v2_settings])
def test_a_limit_that_is_not_given_is_not_set(settings: object) -> None:
    assert callable(settings)
    assert settings(Limits()) == {}
    assert settings(Limits(iops=50)) == {}, "no disk to count on"


def test_the_smallest_and_the_largest_share_are_within_what_the_kernel_takes() -> None:
    assert cgroup_limits._v2_settings(Limits(cpu_milli=1))[CPU] == [
        ("cpu.weight", "1", True),
        ("cpu.max", "1000 100000", True),
    ]
    assert cgroup_limits._v2_settings(Limits(cpu_milli=500_000))[CPU][0] == ("cpu.weight", "10000", True)
    assert cgroup_limits._v1_settings(Limits(cpu_milli=1))[CPU][0] == ("cpu.shares", "2", True)


def test_a_limit_is_written_where_its_controller_is_and_only_the_necessary_ones_must_be_taken(tmp_path: Path) -> None:
    leaf = Trees(True, {KILL: str(tmp_path), MEMORY: str(tmp_path)}).leaf("unit-1")
    leaf.make()
    folder = tmp_path / "unit-1"
    (folder / "memory.max").touch()
    leaf.limit(ALL)  # neither swap nor whole groups at once: this kernel has no such files
    assert (folder / "memory.max").read_text() == "1000"
    (folder / "memory.max").unlink()
    with pytest.raises(FileNotFoundError):
        leaf.limit(ALL)


def test_counters_are_read_in_both_layouts(tmp_path: Path) -> None:
    files = {
        "memory.events": "low 0\noom 1\noom_kill 2\n",
        "memory.peak": "4096\n",
        "pids.events": "max 3\n",
        "cpu.stat": "usage_usec 77\nuser_usec 1\n",
        "memory.oom_control": "oom_kill_disable 0\noom_kill 5\n",
        "memory.max_usage_in_bytes": "8192\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    paths = dict.fromkeys((MEMORY, PIDS, KILL), str(tmp_path))
    assert Leaf(True, paths).counters() == Counters(2, 3, 4096, 77)
    assert Leaf(False, paths).counters() == Counters(5, 3, 8192, 77)
    assert Leaf(True, {MEMORY: str(tmp_path / "gone")}).counters() == Counters()


def test_a_tree_that_can_not_be_written_is_not_promised(tmp_path: Path) -> None:
    plain = {MEMORY: str(tmp_path / "memory"), PIDS: str(tmp_path / "pids")}
    assert cgroup_limits.prove(Trees(False, plain), device="").parents == {}
