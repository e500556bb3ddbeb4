"""What agents read and store for their attempts: their own only, whole or not at all, over whichever server answers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
import pytest

from rota.execute.files import save_requests
from rota.execute.files.artifact_cache import ArtifactCache, copy_into
from rota.execute.files.transfer import Owner, TransferFailed, TransferRefused, Transfers
from rota.execute.identity import WorkerToken
from rota.model.artifact import Purpose
from rota.model.stage import StageDone
from tests.api.served import Said, Served, problem
from tests.harness.cluster import free_port
from tests.harness.cutter import cutting


@dataclass(frozen=True)
class Held:
    """A running attempt, as the queue has it, and the boot number of the agent that holds it."""

    task: int
    boot: int
    tenant: int

    @property
    def owner(self) -> Owner:
        return Owner(self.task, 1, self.tenant)


def running(served: Served, *artifacts: str, token: str = "") -> Held:
    task = served.submit(token, cap="1h")
    boot = secrets.randbits(62)
    served.ask(
        """update queue set state = 4, attempt = 1, version = version + 1, node = 1, boot = $2, epoch = 1,
            grace_ms = 600000, started_at = now() where id = $1 returning 1""",
        task, boot,
    )  # fmt: skip
    digests = [bytes.fromhex(sha) for sha in artifacts]
    served.ask("update tasks set artifacts = $2 where id = $1 returning 1", task, digests or None)
    return Held(task, boot, served.ask("select tenant from queue where id = $1", task)[0][0])


def upload(served: Served, data: bytes, token: str = "") -> str:
    return str(served.send("POST", "/v1/artifacts", data, token=token).json()["sha256"])


def ask(
    served: Served, held: Held, path: str, body: bytes | None = None, *, method: str = "GET", **more: object
) -> httpx.Response:
    boot = more.get("boot", held.boot)
    address = f"/v1/worker/attempts/{more.get('task', held.task)}/{more.get('attempt', 1)}/{path}"
    return served.send(method, address, body, token=served.tokens["worker"], headers={"x-rota-boot": str(boot)})


@contextlib.asynccontextmanager
async def agent(
    served: Served, held: Held, folder: Path, *servers: str, limit_bytes: int = 10**9, patience_seconds: float = 20
) -> AsyncIterator[Transfers]:
    cache = ArtifactCache(folder / "cache", limit_bytes=limit_bytes)
    cache.open()
    transfers = Transfers(
        servers=servers or (served.url,), credential=WorkerToken(served.tokens["worker"]), boot=held.boot, cache=cache,
        patience_seconds=patience_seconds,
    )  # fmt: skip
    try:
        yield transfers
    finally:
        await transfers.close()


def content(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


@contextlib.contextmanager
def opened(folder: Path, data: bytes) -> AsyncIterator[int]:  # type: ignore[misc]
    path = folder / secrets.token_hex(4)
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# ---- who may ----------------------------------------------------------------------------------------------------------


def test_an_attempt_reads_what_its_task_names_and_nothing_else(served: Served) -> None:
    named, other, foreign = (upload(served, os.urandom(50), token) for token in ("", "", served.stranger))
    held = running(served, named, foreign)  # a task that names another tenant's, as no admission would let it
    assert ask(served, held, f"artifacts/{named}").status_code == 200
    for sha in (other, foreign, named[:12], "0" * 64, "nonsense"):
        assert problem(ask(served, held, f"artifacts/{sha}")) == Said(404, "not-found")


@pytest.mark.parametrize(
    "wrong",
    [{"boot": 4711}, {"boot": ""}, {"boot": -1}, {"boot": 2**70}, {"attempt": 2}, {"attempt": 0}, {"attempt": 2**40},
     {"task": 999_999_999}, {"task": "x"}, {"task": 2**80}],
    ids=str,
)  # fmt: skip
def test_who_does_not_hold_the_attempt_gets_nothing_and_stores_nothing(
    served: Served, wrong: dict[str, object]
) -> None:
    named = upload(served, b"x" * 60)
    held = running(served, named)
    before = served.ask("select count(*) from attempt_objects")
    for method, path in (
        ("GET", f"artifacts/{named}"), ("PUT", "objects/output?name=a"), ("GET", "objects"), ("GET", "objects/1/content"),
    ):  # fmt: skip
        body = b"x" if method == "PUT" else None
        assert problem(ask(served, held, path, body, method=method, **wrong)) == Said(404, "not-found")
    assert served.ask("select count(*) from attempt_objects") == before


def test_an_attempt_that_has_ended_reads_and_stores_no_more(served: Served) -> None:
    named = upload(served, b"y" * 60)
    held = running(served, named)
    served.ask("update queue set state = 3, version = version + 1 where id = $1 returning 1", held.task)
    assert problem(ask(served, held, f"artifacts/{named}")) == Said(404, "not-found")
    assert problem(ask(served, held, "objects/log?name=a", b"x", method="PUT")) == Said(404, "not-found")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a%00", "a%5Cb", "x" * 2000])
def test_an_object_has_a_good_relative_name(served: Served, name: str) -> None:
    held = running(served)
    answer = ask(served, held, f"objects/output?name={name}", b"x", method="PUT")
    assert problem(answer) == Said(422, "invalid-path", (("/name", "invalid-path"),))
    assert problem(ask(served, held, "objects/loot?name=a", b"x", method="PUT")).slug == "out-of-range"


# ---- storing ----------------------------------------------------------------------------------------------------------


async def test_an_output_becomes_an_artifact_of_its_tenant(served: Served, tmp_path: Path) -> None:
    held = running(served)
    data = os.urandom(2_500_000)
    async with agent(served, held, tmp_path) as transfers:
        with opened(tmp_path, data) as descriptor:
            stored = await transfers.store(
                held.owner, purpose=Purpose.OUTPUT, name="out/model.bin", descriptor=descriptor
            )
            again = await transfers.store(
                held.owner, purpose=Purpose.OUTPUT, name="out/model.bin", descriptor=descriptor
            )
        listed = await transfers.stored(held.owner, Purpose.OUTPUT)
    sha = hashlib.sha256(data).hexdigest()
    assert (stored.artifact, stored.size_bytes, stored.name) == (f"sha256:{sha}", len(data), "out/model.bin")
    assert (again.id, [one.id for one in listed]) == (stored.id, [stored.id])
    document = served.send("GET", f"/v1/artifacts/{sha}").json()
    assert (document["name"], document["created_by"]) == ("model.bin", "member-user")
    assert served.send("GET", f"/v1/artifacts/{sha}/content").content == data


async def test_checkpoints_are_kept_for_the_next_attempt_the_last_two_of_them(served: Served, tmp_path: Path) -> None:
    held = running(served)
    states = [os.urandom(1000) for _ in range(4)]
    async with agent(served, held, tmp_path) as transfers:
        for number, state in enumerate(states):
            with opened(tmp_path, state) as descriptor:
                await transfers.store(held.owner, purpose=Purpose.CHECKPOINT, name=f"{number}", descriptor=descriptor)
    # The next attempt runs on another agent.
    served.ask("update queue set attempt = 2, boot = 99, version = version + 1 where id = $1 returning 1", held.task)
    later = Owner(held.task, 2, held.tenant)
    async with agent(served, Held(held.task, 99, held.tenant), tmp_path) as transfers:
        found = await transfers.stored(later, Purpose.CHECKPOINT)
        assert [(one.name, one.attempt, one.artifact) for one in found] == [("3", 1, None), ("2", 1, None)]
        for one, state in zip(found, (states[3], states[2]), strict=True):
            with (tmp_path / f"restored-{one.id}").open("w+b") as file:
                await transfers.fetch_object(later, one, file.fileno())
                assert Path(file.name).read_bytes() == state
        with pytest.raises(TransferRefused) as refused:
            await transfers.stored(held.owner, Purpose.CHECKPOINT)
        assert refused.value.slug == "not-found", "the first attempt is over"
    kept = served.ask("select object_key from attempt_objects where task = $1", held.task)
    folder = served.cluster.folder / "objects"
    assert [(folder / key).exists() for (key,) in kept] == [True, True]
    assert served.ask("select count(*) from loose_objects") == [(0,)]
    assert served.send("GET", "/v1/artifacts").text.count(hashlib.sha256(states[3]).hexdigest()) == 0


async def test_only_regular_files_are_stored(served: Served, tmp_path: Path) -> None:
    held = running(served)
    os.mkfifo(tmp_path / "pipe")
    async with agent(served, held, tmp_path) as transfers:
        for path in (tmp_path / "pipe", tmp_path):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            with pytest.raises(TransferRefused, match="regular"):
                await transfers.store(held.owner, purpose=Purpose.OUTPUT, name="x", descriptor=descriptor)
            os.close(descriptor)


# ---- fetching ---------------------------------------------------------------------------------------------------------


async def test_a_fetched_artifact_is_read_only_and_stays_on_the_node(served: Served, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    sha = upload(served, data)
    held = running(served, sha)
    async with agent(served, held, tmp_path) as transfers:
        assert content(await transfers.fetch(held.owner, sha)) == data
    kept = tmp_path / "cache" / str(held.tenant) / sha
    assert kept.stat().st_mode & 0o777 == 0o444
    nobody = f"http://127.0.0.1:{free_port()}"
    async with agent(served, held, tmp_path, nobody, patience_seconds=0.1) as transfers:  # a restarted agent, cut off
        descriptor = await transfers.fetch(held.owner, f"sha256:{sha}")
        folder = os.open(tmp_path, os.O_RDONLY)
        copy_into(descriptor, folder, "program", executable=True)
        with pytest.raises(FileExistsError):
            copy_into(descriptor, folder, "program")
        os.close(folder)
        assert content(descriptor) == data
        assert (tmp_path / "program").read_bytes() == data
        assert os.access(tmp_path / "program", os.X_OK)
        with pytest.raises(TransferFailed):
            await transfers.fetch(Owner(held.task, 1, held.tenant + 1), sha)  # not another tenant's


async def test_many_who_want_one_artifact_share_one_download(served: Served, tmp_path: Path) -> None:
    data = os.urandom(2_000_000)
    sha = upload(served, data)
    held = running(served, sha)
    with cutting(served.url, after_bytes=0, times=0) as relay:
        async with agent(served, held, tmp_path, relay.url) as transfers:
            found = await asyncio.gather(*(transfers.fetch(held.owner, sha) for _ in range(20)))
            assert [content(one) for one in found] == [data] * 20
        assert relay.connections == 1


async def test_who_is_refused_does_not_take_others_down(served: Served, tmp_path: Path) -> None:
    data = os.urandom(1000)
    sha = upload(served, data)
    held = running(served, sha)
    gone = Owner(held.task, 7, held.tenant)
    async with agent(served, held, tmp_path) as transfers:
        first = asyncio.create_task(transfers.fetch(gone, sha))
        while not transfers._under_way and not first.done():
            await asyncio.sleep(0)  # the refused one asks; only then does the other join
        refused, found = await asyncio.gather(first, transfers.fetch(held.owner, sha), return_exceptions=True)
        assert isinstance(refused, TransferRefused)
        assert isinstance(found, int)
        assert content(found) == data
        with pytest.raises(TransferRefused, match="whole digest"):
            await transfers.fetch(held.owner, "../../etc/passwd")


async def test_a_cut_download_goes_on_at_another_server(served: Served, tmp_path: Path) -> None:
    data = os.urandom(4_000_000)
    sha = upload(served, data)
    held = running(served, sha)
    nobody = f"http://127.0.0.1:{free_port()}"
    with cutting(served.url, after_bytes=1_500_000, times=2) as relay:
        async with agent(served, held, tmp_path, nobody, relay.url) as transfers:
            assert content(await transfers.fetch(held.owner, sha)) == data
        assert relay.cuts_left == 0


async def test_a_store_whose_answer_is_lost_is_sent_again(served: Served, tmp_path: Path) -> None:
    held = running(served)
    with cutting(served.url, after_bytes=10, times=1) as relay:
        async with agent(served, held, tmp_path, relay.url) as transfers:
            with opened(tmp_path, b"z" * 100_000) as descriptor:
                stored = await transfers.store(held.owner, purpose=Purpose.LOG, name="stdout", descriptor=descriptor)
        assert relay.cuts_left == 0
    assert served.ask("select id from attempt_objects where task = $1", held.task) == [(stored.id,)]
    assert served.ask("select count(*) from loose_objects") == [(0,)]


async def test_a_finished_stage_whose_answer_is_lost_is_told_again_and_is_one_event(
    served: Served, tmp_path: Path
) -> None:
    held = running(served)
    with cutting(served.url, after_bytes=10, times=1) as relay:
        async with agent(served, held, tmp_path, relay.url) as transfers:
            for number, name in enumerate(("fetch", "train"), start=1):
                await transfers.tell_stage(held.owner, StageDone(name=name, number=number, count=3))
        assert relay.cuts_left == 0
    told = served.ask("select kind, numbers, details->>'name' from events where tasks = array[$1::bigint]", held.task)
    assert told == [(6, [1], "fetch"), (6, [1], "train")]
    assert served.ask("select attempt, stage, message from progress where task = $1", held.task) == [
        (1, 2, "stage 2/3 train done")
    ]


@pytest.mark.parametrize(
    "stage",
    [
        {"name": "a b", "number": 1, "count": 2},
        {"name": "a", "number": 0, "count": 2},
        {"name": "a", "number": 3, "count": 2},
        {"name": "a", "number": 1, "count": 101},
    ],
)
def test_a_stage_that_can_not_be_is_refused(served: Served, stage: dict[str, object]) -> None:
    answer = ask(served, running(served), "stages", msgspec.json.encode(stage), method="POST")
    assert problem(answer).status == 422, answer.text


@pytest.mark.parametrize(
    "line", [b"", b"stage 1/2", b"stage 2/1 a\n", b"stage 1/2 ../x\n", b"stage 1/2 a\nmore", b"\xff"]
)
def test_a_wish_that_tells_of_no_stage_is_a_wish_all_the_same(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / ".save").write_bytes(line)
    save_request = save_requests.find(str(tmp_path))
    assert save_request is not None
    assert save_request.stage is None


async def test_a_damaged_artifact_is_refused_by_name_and_not_kept(served: Served, tmp_path: Path) -> None:
    data = os.urandom(9_000_000)
    sha = upload(served, data)
    held = running(served, sha)
    key = served.ask("select object_key from artifacts where sha256 = $1", bytes.fromhex(sha))[0][0]
    (served.cluster.folder / "objects" / key).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    async with agent(served, held, tmp_path) as transfers:
        with pytest.raises(TransferRefused) as refused:
            await transfers.fetch(held.owner, sha)
    assert refused.value.slug == "artifact-damaged"
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


async def test_the_cache_keeps_what_was_used_last_within_its_limit(served: Served, tmp_path: Path) -> None:
    pieces = [os.urandom(1000) for _ in range(3)]
    shas = [upload(served, piece) for piece in pieces]
    held = running(served, *shas)
    folder = tmp_path / "cache" / str(held.tenant)
    async with agent(served, held, tmp_path, limit_bytes=2500) as transfers:
        for sha in (shas[0], shas[1], shas[0]):
            os.close(await transfers.fetch(held.owner, sha))
        reading = await transfers.fetch(held.owner, shas[1])
        os.close(await transfers.fetch(held.owner, shas[0]))
        os.close(await transfers.fetch(held.owner, shas[2]))
    assert {path.name for path in folder.iterdir()} == {shas[0], shas[2]}
    assert content(reading) == pieces[1], "whoever had it open goes on reading"
    smaller = ArtifactCache(tmp_path / "cache", limit_bytes=1500)
    (tmp_path / "cache" / "incoming" / "half").write_bytes(b"x")
    smaller.open()
    assert {path.name for path in folder.iterdir()} == {shas[2]}
    assert (smaller.size_bytes, list((tmp_path / "cache" / "incoming").iterdir())) == (1000, [])
