"""A process takes the same steps compiled and forked: groups, limits, mount view, user number; or names the failed one."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.execute.keeper import confined_exec
from rota.execute.keeper.confined_exec import Order, SpawnFailed
from rota.execute.linux import cgroup_limits, cgroups, mount_calls

ENVIRONMENT = {"A": "ö", "LC_CTYPE": "C.UTF-8"}  # the second is what Python would add by itself
TELL = """
import json, os, resource, signal
print(json.dumps({
    "name": open("/proc/self/cmdline").read().split("\\0")[0], "ids": [*os.getresuid(), *os.getresgid()], "groups": os.getgroups(), "folder": os.getcwd(),
    "leads": os.getsid(0) == os.getpid(), "environment": dict(os.environ),
    "core": resource.getrlimit(resource.RLIMIT_CORE), "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "ignored": [int(each) for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) == signal.SIG_IGN],
    "open": sorted(int(each) for each in os.listdir("/proc/self/fd")), "view": os.readlink("/proc/self/ns/mnt"),
    "oom": open("/proc/self/oom_score_adj").read().strip(), "place": open("/proc/self/cgroup").read(),
}))
"""


@pytest.fixture(params=["compiled", "forked"], autouse=True)
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "forked":
        monkeypatch.setattr(confined_exec, "is_compiled", False)
    assert confined_exec.is_compiled == (request.param == "compiled"), "the compiled part is missing: make install"
    return str(request.param)


@pytest.fixture
def group() -> Iterator[str]:
    mounted, _ = cgroup_limits.mounts_of(Path("/proc/self/mountinfo").read_text())
    assert mounted is not None, "this machine has no v2 tree"
    folder = f"{mounted}/rota-spawn-test-{os.getpid()}"
    os.mkdir(folder)
    yield folder
    assert cgroups.sweep(folder)


@contextlib.contextmanager
def _descriptors() -> Iterator[tuple[int, int, int]]:
    """Nothing, and a pipe; all with numbers that no target has."""
    ends = [os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), *os.pipe2(os.O_CLOEXEC)]
    high = [os.dup(end) for end in ends]
    while min(high) < confined_exec.LOW_DESCRIPTORS:
        ends += high
        high = [os.dup(end) for end in high]
    try:
        yield high[0], high[1], high[2]
    finally:
        for end in (*ends, *high):
            with contextlib.suppress(OSError):
                os.close(end)


def _tell(**how: object) -> dict[str, object]:
    """The facts that a process spawned with this order reports of itself."""
    with _descriptors() as (null, read, write):
        order = Order(
            program=sys.executable,
            argv=["named", "-I", "-S", "-c", TELL],
            env=ENVIRONMENT,
            descriptors=[(null, 0), (write, 1), (null, 2)],
            **how,
        )  # type: ignore[arg-type]
        process = confined_exec.spawn(order)
        os.close(write)
        for end in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                if int(end.name) != read and os.readlink(end) == os.readlink(f"/proc/self/fd/{read}"):
                    os.close(int(end.name))
        with open(os.dup(read)) as told:
            found: dict[str, object] = json.load(told)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    return found


def _children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def _is_inheritable(descriptor: int) -> bool:
    with contextlib.suppress(OSError):  # the listing's own
        return os.get_inheritable(descriptor)
    return False


def _order(*argv: str, **how: object) -> Order:
    return Order(program=argv[0], argv=list(argv), env={}, descriptors=[], **how)  # type: ignore[arg-type]


def test_it_begins_afresh_whatever_its_parent_was() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        found = _tell()
        assert signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        signal.signal(signal.SIGINT, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    assert found["leads"] is True
    assert found["name"] == "named"
    assert found["folder"] == "/"
    assert found["environment"] == ENVIRONMENT
    assert found["ignored"] == found["blocked"] == []
    handed_down = {int(each.name) for each in Path("/proc/self/fd").iterdir() if _is_inheritable(int(each.name))}
    assert set(found["open"]) - handed_down <= {0, 1, 2, 3}  # type: ignore[call-overload]  # the last is the listing
    assert signal.getsignal(signal.SIGINT) == before


def test_its_number_and_its_limits_are_its_own_and_ours_stay(group: str) -> None:
    ours = resource.getrlimit(resource.RLIMIT_CORE)
    own = _tell(
        unified=group,
        writes=[("/proc/self/oom_score_adj", "700")],
        limits=[(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 1_000_000_000)],
    )
    assert own["core"] == [0, 0]
    assert own["files"] == [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2  # never more than was allowed
    assert own["oom"] == "700"
    assert os.path.basename(group) in str(own["place"])
    assert resource.getrlimit(resource.RLIMIT_CORE) == ours
    assert Path("/proc/self/oom_score_adj").read_text().strip() != "700"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives user ids and mount views away")
def test_it_keeps_nothing_of_root() -> None:
    with _descriptors() as (null, read, write):
        process = confined_exec.spawn(
            Order(
                program="/bin/sh",
                argv=["sh", "-c", "cat /proc/self/status"],
                env={"PATH": "/bin:/usr/bin"},
                descriptors=[(null, 0), (write, 1), (null, 2)],
                uid=2_000_000_123,
            )
        )
        os.waitpid(process, 0)
        told = os.read(read, 65536).decode()
    lines = dict(line.split(":\t", 1) for line in told.splitlines() if ":\t" in line)
    assert lines["Uid"].split() == lines["Gid"].split() == ["2000000123"] * 4
    assert lines["Groups"].strip() == ""
    assert int(lines["CapEff"], 16) == int(lines["CapPrm"], 16) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives user ids and mount views away")
def test_it_enters_the_mount_view_it_is_given_and_we_stay_in_ours() -> None:
    other = os.fork()
    if other == 0:
        mount_calls.leave()
        signal.pause()
    try:
        ours = os.readlink("/proc/self/ns/mnt")
        while (there := os.readlink(f"/proc/{other}/ns/mnt")) == ours:
            os.sched_yield()
        view = os.open(f"/proc/{other}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            assert _tell(view=view)["view"] == there
        finally:
            os.close(view)
        assert os.readlink("/proc/self/ns/mnt") == ours
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)


def test_it_is_our_own_child_and_in_its_group_from_the_first_moment(group: str) -> None:
    process = confined_exec.spawn(_order("/bin/sleep", "60", unified=group))
    assert str(process) in _children().split()
    assert cgroups.members(group) == [process]
    os.kill(process, signal.SIGKILL)
    assert os.waitpid(process, 0)[0] == process


@pytest.mark.parametrize(
    ("how_it_fails", "step", "number"),
    [
        ({"program": "/no/such/program"}, "", 2),
        ({"descriptors": [(9_999, 1)]}, "its descriptors", 9),
        ({"writes": [("/no/such/group/tasks", "0")]}, "the control groups", 2),
        ({"limits": [(9_999, 1)]}, "the limits", 22),
        ({"view": 0}, "the mount view", 22),
    ],
)
def test_one_that_fails_says_at_which_step_and_leaves_nothing(
    how_it_fails: dict[str, object], step: str, number: int
) -> None:
    before = _children()
    order = {"program": "/bin/true", "argv": ["true"], "env": {}, "descriptors": []} | how_it_fails
    with pytest.raises(SpawnFailed) as refusal:
        confined_exec.spawn(Order(**order))  # type: ignore[arg-type]
    assert (refusal.value.step, refusal.value.number) == (step, number)
    assert _children() == before


def test_many_at_once_and_many_in_a_row_all_end_as_themselves() -> None:
    living = [confined_exec.spawn(_order("/bin/sh", "-c", f"exit {number}")) for number in range(100)]
    ends = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in living]
    assert ends == list(range(100))


def test_a_kernel_without_clone3_is_no_trouble(group: str, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    real = confined_exec._spawn

    def first_refused(order: Order, into: int, *more: tuple[str, str]) -> tuple[int, int, int]:
        return (0, 0, 38) if into >= 0 else real(order, into, *more)

    if how == "forked":
        monkeypatch.setattr(confined_exec, "_SYS_CLONE3", 9_999)  # as a system-call filter answers an unknown call
    else:
        monkeypatch.setattr(confined_exec, "_spawn", first_refused)
    assert os.path.basename(group) in str(_tell(unified=group)["place"])


def test_a_folder_that_is_no_group_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SpawnFailed, match="the spawn: Bad file descriptor"):
        confined_exec.spawn(_order("/bin/true", unified=str(tmp_path)))


def test_arguments_with_a_zero_inside_are_refused_before_anything_is_spawned() -> None:
    before = _children()
    with pytest.raises(ValueError, match="null"):
        confined_exec.spawn(_order("/bin/echo", "a\0b"))
    assert _children() == before
