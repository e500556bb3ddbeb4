"""Which calls may share a process, which replies are accepted, which folders are visible: the pure parts."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.execute.attempts.sharing import PLAIN, ProcessKey, limits_of, terms_of
from rota.execute.child.code_changes import Sources
from rota.execute.functions.replies import BadReply, checked, receive
from rota.execute.functions.visible_folders import find_visible
from rota.execute.keeper.relimit import relimit
from rota.execute.linux.cgroup_limits import Leaf, Limits
from rota.execute.messages import calls, packets
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.task import Kind
from rota.wire import Run
from tests.execute.stub_server import run_of

LIMIT = 1000


def run(tenant: int = 1, **spec: object) -> Run:
    return msgspec.structs.replace(run_of(1, Kind.FUNCTION, {"function": "m:f", **spec}), tenant=tenant)


def test_trusted_functions_share_with_those_of_their_tenant_alone() -> None:
    assert terms_of(run(1)) is terms_of(run(1, args=['"isolation"', {"isolation": "sandbox"}]))
    assert terms_of(run(1)).process_key == ProcessKey(tenant=1)
    marks = {terms_of(one).mark for one in (run(1), run(2), run(1, processes=7), run(2, processes=7))}
    assert len(marks) == 4


def test_only_calls_of_one_tenant_with_equal_sandboxes_share() -> None:
    base = terms_of(run(1, isolation="sandbox", mounts=["b", "a"]))
    assert base.process_key == ProcessKey("sandbox", 1, False, ("a", "b"))
    assert terms_of(run(1, isolation="sandbox", mounts=["a", "b", "a"])) == base
    others = [
        run(2, isolation="sandbox", mounts=["a", "b"]),
        run(1, isolation="sandbox", mounts=["a"]),
        run(1, isolation="sandbox", mounts=["a", "b"], network=True),
        run(1, isolation="sandbox", mounts=["a", "b"], processes=7),
        run(1, isolation="container", mounts=["a", "b"]),
        run(1),
    ]
    marks = {terms_of(one).mark for one in others}
    assert len(marks) == len(others)
    assert base.mark not in marks


def test_a_spec_that_can_not_be_read_is_nobodys_trusted_one() -> None:
    broken = msgspec.structs.replace(run(), spec=b'{"isolation": 7, "function": "m:f"}')
    assert terms_of(broken).process_key.isolation == "sandbox"


def test_a_grant_becomes_limits_and_the_sandboxes_own_processes_are_not_counted() -> None:
    grant = Resources(cpu_milli=500, memory_bytes=7, disk_bytes=9, iops=3)
    terms = terms_of(run(isolation="sandbox", processes=10))
    limits = limits_of(grant, terms.processes, terms.process_key.isolation)
    assert (limits.memory_bytes, limits.pids, limits.cpu_milli, limits.iops, limits.disk_bytes) == (7, 12, 500, 3, 9)
    assert not limits.cpu_burst
    trusted = terms_of(run(processes=10))
    assert limits_of(grant, trusted.processes, trusted.process_key.isolation).pids == 10
    assert limits_of(grant, PLAIN.processes, PLAIN.process_key.isolation).pids == 1024


def test_calls_that_may_burst_and_calls_with_a_quota_are_not_queued_in_one_grant() -> None:
    kinds = {
        (isolation, limit): terms_of(run(isolation=isolation, **({"cpu_limit": limit} if limit else {})))
        for isolation in ("none", "sandbox")
        for limit in ("", "burst", "quota")
    }
    assert {kind: terms.cpu_burst for kind, terms in kinds.items()} == {
        ("none", ""): True,
        ("none", "burst"): True,
        ("none", "quota"): False,
        ("sandbox", ""): False,
        ("sandbox", "burst"): True,
        ("sandbox", "quota"): False,
    }
    assert len({terms.mark for terms in kinds.values()}) == 4
    assert len({terms.process_key for terms in kinds.values()}) == 2, "they may still have the same process, one by one"


# ---- replies -----------------------------------------------------------------------------------------------------

GOOD = calls.Reply(1, Outcome.OK, 5, False, False, b'{"a":[1]}', None, 4, 3)


def test_a_sound_reply_is_accepted_unchanged() -> None:
    assert checked(GOOD, LIMIT) is GOOD
    failed = msgspec.structs.replace(GOOD, outcome=Outcome.ERROR, result=None, failure=("E", "why", "trace"))
    assert checked(failed, LIMIT) is failed


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": Outcome.CRASHED},
        {"outcome": 77},
        {"result": b"{"},
        {"result": b'"\xff"'},
        {"result": b"[" * 900},
        {"result": b"NaN"},
        {"result": b"1" * (LIMIT + 1)},
        {"run_us": -1},
        {"cpu_us": 2**63},
        {"peak_memory_bytes": -5},
        {"failure": ("E", "both", "")},
    ],
)
def test_what_no_sound_child_sends_is_a_bad_reply(change: dict[str, object]) -> None:
    with pytest.raises(BadReply):
        checked(msgspec.structs.replace(GOOD, **change), LIMIT)


def test_long_texts_are_cut() -> None:
    failed = msgspec.structs.replace(
        GOOD, outcome=Outcome.ERROR, result=None, failure=("E" * 999, "m" * 9**5, "t" * 9**6)
    )
    kind, message, trace = checked(failed, LIMIT).failure or ("", "", "")
    assert (len(kind), len(message), len(trace)) == (200, 4_000, 64 * 1024)


@given(st.binary(max_size=200))
def test_whatever_bytes_arrive_are_a_reply_or_a_bad_reply(data: bytes) -> None:
    """Nothing a child writes raises anything else in the agent, and no descriptor is left open."""
    ours, theirs = packets.pair()
    with ours, theirs:
        ours.setblocking(False)
        assert receive(ours, LIMIT) is None
        theirs.send(data)
        before = len(os.listdir("/proc/self/fd"))
        with contextlib.suppress(BadReply):
            assert isinstance(receive(ours, LIMIT), calls.Reply)
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_large_result_is_read_and_a_larger_one_is_not() -> None:
    ours, theirs = packets.pair()
    with ours, theirs:
        ours.setblocking(False)
        result = b'"' + b"x" * 200_000 + b'"'
        packets.send(theirs, msgspec.msgpack.encode(msgspec.structs.replace(GOOD, result=result)))
        reply = receive(ours, 300_000)
        assert reply is not None
        assert reply.result == result
        packets.send(theirs, msgspec.msgpack.encode(msgspec.structs.replace(GOOD, result=result * 5)))
        with pytest.raises(BadReply):
            receive(ours, 300_000)


# ---- other limits for a group in use, on cgroup v2 (`test_sandboxed_functions` runs on v1) --------------------------


def test_limits_are_changed_lifted_and_refused_when_more_is_in_use(tmp_path: Path) -> None:
    for name in ("memory.max", "memory.oom.group", "memory.swap.max", "pids.max", "cpu.max", "cpu.weight"):
        (tmp_path / name).write_text("")
    (tmp_path / "memory.stat").write_text("anon 600\nfile 9000\nshmem 100\n")
    leaf = Leaf(True, dict.fromkeys(("memory", "pids", "cpu", "kill"), str(tmp_path)))
    before = Limits(memory_bytes=1000, pids=10, cpu_milli=500)

    def told(*names: str) -> list[str]:
        found = [(tmp_path / name).read_text() for name in names]
        for name in names:
            (tmp_path / name).write_text("")  # writing to a group's file replaces what is in it
        return found

    assert relimit(leaf, before, Limits(memory_bytes=700, pids=20, cpu_milli=1500))
    assert told("memory.max", "pids.max", "cpu.max") == ["700", "20", "150000 100000"]
    assert not relimit(leaf, before, Limits(memory_bytes=699, pids=30))
    assert told("memory.max", "pids.max") == ["", ""]
    assert relimit(leaf, before, Limits(pids=40))
    assert told("memory.max", "pids.max", "cpu.max", "cpu.weight") == ["max", "40", "max 100000", "100"]
    held, free = Limits(cpu_milli=500), Limits(cpu_milli=250, cpu_burst=True)
    assert relimit(leaf, held, free)
    assert told("cpu.max", "cpu.weight") == ["max 100000", "25"]
    assert relimit(leaf, free, held)
    assert told("cpu.max", "cpu.weight") == ["50000 100000", "50"]


# ---- visible folders, watched code ---------------------------------------------------------------------------------


def test_a_folder_with_homes_or_of_one_user_alone_is_not_shown(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    work, home, closed = tmp_path / "work", tmp_path / "people" / "ann", tmp_path / "closed"
    for folder in (work, home, closed):
        folder.mkdir(parents=True)
    closed.chmod(0o700)
    path = f"{home.parent}:{home}:{closed}:relative:/no/such:{home}/code"
    seen = find_visible(work, path, str(home))
    withheld = {str(home.parent), str(home)} | ({str(closed)} if os.geteuid() == 0 else set())
    assert set(seen.withheld) == withheld
    assert seen.path[0] == str(work)
    assert not withheld & set(seen.folders)
    assert sys.prefix in seen.folders
    assert find_visible(Path("/"), "", str(home)).withheld == ("/",)


def test_data_and_keys_inside_a_shown_folder_are_hidden(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "rota-tokens").mkdir()
    data = tmp_path / "data"
    data.mkdir()
    mounts = find_visible(tmp_path, "", "/nobody").mounts(data)
    empty = str(data / "sandbox" / "empty")
    assert mounts[-2:] == ((empty, str(data), False), (empty, str(tmp_path / "rota-tokens"), False))
    assert not any(writable for _, _, writable in mounts)
    assert os.listdir(empty) == []


def test_changed_replaced_and_removed_sources_are_noticed_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source = tmp_path / "watched_module.py"
    source.write_text("answer = 1")
    __import__("watched_module")
    sources = Sources()
    sources.note()
    second = 1_000_000_000
    assert not sources.have_changed(1 * second)
    source.write_text("answer = 22")
    assert not sources.have_changed(1 * second + 5)
    assert sources.have_changed(2 * second)
    source.unlink()
    assert sources.have_changed(3 * second)
    monkeypatch.delitem(sys.modules, "watched_module")
