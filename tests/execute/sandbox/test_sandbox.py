"""The sandbox itself: bubblewrap's arguments word for word, where a program's path leads outside, the proof's
judgement.

The safety of the sandbox depends on these arguments. A change here changes what untrusted code may do: read
docs/decisions/010-sandbox.md before you make one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rota.execute.keeper import launch, spawn
from rota.execute.keeper.launch import NotStarted
from rota.execute.processes import sandbox_proof
from rota.execute.sandbox.bubblewrap import (
    MOST_VARIABLES,
    Host,
    Mount,
    Sandbox,
    arguments,
    command_line,
    environment_arguments,
    handed,
    survey,
)
from rota.execute.sandbox.path_lookup import outside

HOST = Host(
    bwrap="/usr/bin/bwrap",
    folders=("/usr",),
    links=(("/bin", "usr/bin"), ("/lib64", "usr/lib64")),
    files=("/etc/ld.so.cache", "/etc/ssl/certs", "/etc/hosts", "/etc/resolv.conf"),
    accounts=("/srv/data/sandbox/passwd", "/srv/data/sandbox/group"),
    reachable_as=(("/srv/data/work", "/run/rota-1/0"), ("/srv/data/sandbox", "/run/rota-1/1")),
)
BEFORE_NETWORK = """
--unshare-user --uid 1000 --gid 1000 --disable-userns --unshare-pid --unshare-ipc --unshare-uts
--unshare-cgroup --hostname rota
"""
AFTER_NETWORK = """
--cap-drop ALL --die-with-parent --new-session --seccomp 9 --ro-bind /usr /usr --symlink usr/bin /bin
--symlink usr/lib64 /lib64 --ro-bind /etc/ld.so.cache /etc/ld.so.cache --ro-bind /etc/ssl/certs /etc/ssl/certs
"""
NAMES = "--ro-bind /etc/hosts /etc/hosts --ro-bind /etc/resolv.conf /etc/resolv.conf"
ACCOUNTS = "--ro-bind /run/rota-1/1/passwd /etc/passwd --ro-bind /run/rota-1/1/group /etc/group"
PLACES = """
--proc /proc --size 4096 --tmpfs /proc/1 --remount-ro /proc/1 --dev /dev --size 67108864 --tmpfs /tmp --size 67108864 --tmpfs /dev/shm --dir /run --dir /var/tmp
"""
END = "--bind /run/rota-1/0/7-1 /task --chdir /task --remount-ro /"
DEV = "--remount-ro /dev"


def words(*parts: str) -> list[str]:
    return " ".join(parts).split()


def sandbox(sandbox: Sandbox) -> list[str]:
    return arguments(HOST, sandbox, folder="/srv/data/work/7-1", seccomp=9)


def test_the_arguments_of_an_ordinary_sandbox_word_for_word() -> None:
    expected = words(BEFORE_NETWORK, "--unshare-net", AFTER_NETWORK, ACCOUNTS, PLACES, DEV, END)
    assert sandbox(Sandbox()) == expected


def test_the_arguments_with_everything_granted_word_for_word() -> None:
    everything = Sandbox(
        network=True,
        mounts=(Mount("/srv/team", "/srv/team"), Mount("/srv/data/work/x", "/scratch", writable=True)),
        devices=("/dev/nvidia0", "/dev/nvidiactl"),
    )
    devices = "--dev-bind /dev/nvidia0 /dev/nvidia0 --dev-bind /dev/nvidiactl /dev/nvidiactl"
    mounts = "--ro-bind /srv/team /srv/team --bind /run/rota-1/0/x /scratch"
    expected = words(BEFORE_NETWORK, AFTER_NETWORK, NAMES, ACCOUNTS, PLACES, devices, DEV, mounts, END)
    assert sandbox(everything) == expected


def test_the_machine_is_read_once_and_only_what_is_there_is_visible() -> None:
    links = {"/bin": "usr/bin"}
    there = {"/usr", "/bin", "/etc/ssl/certs", "/etc/resolv.conf", "/etc/shadow", "/home"}
    host = survey("/usr/bin/bwrap", link_of=links.get, exists=there.__contains__)
    assert (host.folders, host.links) == (("/usr",), (("/bin", "usr/bin"),))
    assert host.files == ("/etc/ssl/certs", "/etc/resolv.conf")


def test_a_private_folder_is_reached_by_its_other_path_and_its_namesake_is_not() -> None:
    assert HOST.reachable("/srv/data/work") == "/run/rota-1/0"
    assert HOST.reachable("/srv/data/work/7-1/file") == "/run/rota-1/0/7-1/file"
    assert HOST.reachable("/srv/data/workshop") == "/srv/data/workshop"


def test_the_environment_is_passed_as_arguments_between_zeros() -> None:
    assert environment_arguments({}) == ["--clearenv"]
    words = environment_arguments({"A": "", "LD_PRELOAD": "/x y=z"})
    assert handed(words) == b"--clearenv\0--setenv\0A\0\0--setenv\0LD_PRELOAD\0/x y=z\0"
    with pytest.raises(ValueError, match="null byte"):
        handed(["--bind", "/a\0/", "/b"])


def test_the_command_line_tells_nothing_of_the_machine() -> None:
    """Everybody there can read it."""
    assert command_line(8) == ["bwrap", "--args", "8", "--"]


@pytest.mark.parametrize(
    "env",
    [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0--bind"}, dict.fromkeys(map(str, range(MOST_VARIABLES + 1)), "")],
)
def test_what_can_not_be_an_environment_is_refused(env: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="variable"):
        environment_arguments(env)


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/task/run", "/srv/data/work/7-1/run"),
        ("/task", "/srv/data/work/7-1"),
        ("/workshop/run", ""),
        ("/srv/team/run", "/other/team/run"),
        ("/srv/team/inner/run", "/inner/run"),
        ("/usr/bin/env", "/usr/bin/env"),
        ("/bin/sh", "/bin/sh"),
        ("/etc/ssl/certs/one", "/etc/ssl/certs/one"),
        ("/etc/shadow", ""),
        ("/root/.ssh/id", ""),
        ("/tmp/x", ""),
    ],
)
def test_a_path_inside_is_looked_up_outside_only_where_it_can_be_seen(path: str, where: str) -> None:
    mounts = (Mount("/other/team", "/srv/team"), Mount("/inner", "/srv/team/inner"))
    assert outside(HOST, Sandbox(mounts=mounts), path, folder="/srv/data/work/7-1") == where


def test_a_link_that_leads_out_of_a_mount_is_not_followed_outside(tmp_path: Path) -> None:
    team = tmp_path / "team"
    team.mkdir()
    (team / "tool").write_text("")
    (team / "near").symlink_to("tool")
    (team / "root").symlink_to("/root")
    mounts = (Mount(str(team), "/srv/team", writable=True),)

    def locate(path: str) -> str | None:
        return outside(HOST, Sandbox(mounts=mounts), path, folder="/srv/data/work/7-1")

    assert locate("/srv/team/near") == f"{team}/near"
    assert locate("/srv/team/root/.bashrc") is None, "else who may write there could ask us what is where"


@pytest.mark.parametrize(
    ("program", "slug", "message"),
    [
        (
            "/nonexistent",
            "no-such-program",
            "there is no program /nonexistent in the sandbox; a folder of the node is visible there only as a mount that the task asks for",
        ),
        ("/usr/bin/no-such", "no-such-program", "there is no program /usr/bin/no-such on this node"),
        ("/usr/share", "not-executable", "/usr/share is a folder"),
        ("/etc/services", "not-executable", "/etc/services may not be executed"),
    ],
)
def test_a_program_that_can_not_be_run_is_refused_by_name_not_by_bubblewrap(
    tmp_path: Path, program: str, slug: str, message: str
) -> None:
    services = tmp_path / "services"
    services.write_text("ssh 22/tcp")
    places = {"/nonexistent": "", "/etc/services": str(services)}
    with pytest.raises(NotStarted) as refused:
        launch.command([program], search="/usr/bin", folder="/task", locate=lambda path: places.get(path, path))
    assert (refused.value.slug, refused.value.message) == (slug, message)


def test_a_program_is_found_on_the_path_by_what_the_sandbox_shows() -> None:
    locate = {"/usr/bin/env": "/usr/bin/env", "/hidden/env": None}.get
    found = launch.command(["env", "x"], search="/hidden:/usr/bin", folder="/task", locate=locate)
    assert found == ["/usr/bin/env", "x"]
    with pytest.raises(NotStarted, match="there is no program env"):
        launch.command(["env"], search="/hidden", folder="/task", locate=locate)


def test_a_file_that_may_not_be_looked_at_is_left_to_the_sandbox() -> None:
    assert launch.file("/task/run", None, ["x"], lambda path: None) == ["/task/run", "x"]
    assert launch.file("/task/run", ["python3"], [], lambda path: None) == ["python3", "/task/run"]


def test_units_of_two_agents_have_different_user_numbers_and_all_are_below_two_to_the_31() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives user ids away")
    numbers = [spawn.own_uid(number, agent) for agent in ("/a/work", "/b/work") for number in (1, 2, 999_999)]
    assert len(set(numbers)) == 6
    assert all(number is not None and spawn.FIRST_UID <= number < 2**31 for number in numbers)


HOLDS = {
    "uid": "1000",
    "folder": "/task",
    "CapEff": "0000000000000000",
    "CapBnd": "0000000000000000",
    "NoNewPrivs": "1",
    "Seccomp": "2",
    "interface": "lo",
    "processes": "4",
    "end": "",
}


def test_a_sandbox_that_holds_has_nothing_wrong() -> None:
    assert sandbox_proof.judge("".join(f"{key}:{value}\n" for key, value in HOLDS.items())) == []


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"uid": "0"}, "the user number inside is 0, not 1000"),
        ({"folder": "/"}, "the folder a task begins in is /, not /task"),
        ({"NoNewPrivs": "0"}, "the ban on new privileges is 0, not 1"),
        ({"Seccomp": None}, "the system-call filter is missing, not 2"),
        ({"CapEff": "00000000a80425fb"}, "it keeps capabilities (CapEff 00000000a80425fb)"),
        ({"CapBnd": None}, "it keeps capabilities (CapBnd missing)"),
        ({"sees": "/etc/shadow"}, "it sees /etc/shadow"),
        ({"writes": "/usr"}, "it can write to /usr"),
        ({"writes-not": "/tmp"}, "it can't write to /tmp"),
        ({"interface": "eth0"}, "it has the network interface eth0"),
        ({"descriptor": "7"}, "it inherits descriptor 7"),
        ({"processes": "212"}, "it sees the machine's processes"),
        ({"end": None}, "its script did not come to its end"),
    ],
)
def test_a_sandbox_that_does_not_hold_is_reported_with_what_is_wrong(
    changes: dict[str, str | None], wrong: str
) -> None:
    shown: dict[str, str | None] = {**HOLDS, **changes}
    lines = "".join(f"{key}:{value}\n" for key, value in shown.items() if value is not None)
    assert sandbox_proof.judge(lines) == [wrong]
