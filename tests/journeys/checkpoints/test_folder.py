"""The checkpoint folder of an attempt is restored for the next one on any node; a damaged checkpoint falls back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from tests.harness.cluster import Cluster
from tests.journeys.checkpoints.conftest import PATIENCE_SECONDS, eventually

from rota.client._sync.client import Client
from rota.client._sync.handle import TaskHandle
from rota.client.calls import cluster_calls

Script = Callable[[str], list[str]]

COUNT = """
n=$(cat $ROTA_CHECKPOINT/count 2>/dev/null || echo 0)
echo "began at $n"
n=$((n + 1)); mkdir -p $ROTA_CHECKPOINT/deep; echo $n > $ROTA_CHECKPOINT/count; echo $n > $ROTA_CHECKPOINT/deep/copy
"""
SAVE = """
touch $ROTA_CHECKPOINT/.save
while [ -e $ROTA_CHECKPOINT/.save ]; do sleep 0.05; done
"""


def test_a_failed_attempt_leaves_its_folder_to_the_next(client: Client, script: Script) -> None:
    left_out = "ln -sf /etc/passwd $ROTA_CHECKPOINT/link; mkfifo $ROTA_CHECKPOINT/pipe 2>/dev/null"
    handle = client.submit(
        script(f"{COUNT}{left_out}\n[ $n -ge 3 ] && [ $(cat $ROTA_CHECKPOINT/deep/copy) = 3 ]"),
        attempts=3,
        backoff=0.01,
    )
    assert handle.wait(PATIENCE_SECONDS).state == "done"
    logs = [handle.log(attempt=number) for number in (1, 2, 3)]
    assert [line for log in logs for line in log.splitlines() if line.startswith("began")] == [
        "began at 0",
        "began at 1",
        "began at 2",
    ]
    assert "rota: 2 links or other things that are no plain files are not in the checkpoint" in logs[0]


@pytest.mark.parametrize(
    "emptied", ["rm $ROTA_CHECKPOINT/a", "rm -r $ROTA_CHECKPOINT", "rm $ROTA_CHECKPOINT/a; touch b"]
)
def test_a_folder_that_was_emptied_is_empty_for_the_next_attempt(client: Client, script: Script, emptied: str) -> None:
    text = f"""
    echo "found $(ls $ROTA_CHECKPOINT)"
    case $ROTA_ATTEMPT in 1) touch $ROTA_CHECKPOINT/a; exit 1;; 2) {emptied}; exit 1;; esac"""
    handle = client.submit(script(text), attempts=3, backoff=0.01)
    assert handle.wait(PATIENCE_SECONDS).state == "done"
    assert [handle.log(attempt=number) for number in (1, 2, 3)] == ["found \n", "found a\n", "found \n"]


def test_a_paused_task_goes_on_from_what_it_saved_in_a_sandbox_too(untrusted: Client) -> None:
    saving = 'trap "echo saved > $ROTA_CHECKPOINT/state; exit 1" TERM; echo up; while :; do sleep 0.05; done'
    handle = untrusted.submit(
        ["bash", "-c", f"[ -e $ROTA_CHECKPOINT/state ] && echo $ROTA_CHECKPOINT && exit 0; {saving}"], memory="256M"
    )
    eventually(lambda: "up" in handle.log())
    handle.pause()
    eventually(lambda: handle.state == "paused")
    handle.resume()
    assert handle.wait(PATIENCE_SECONDS).state == "done"
    assert handle.log(attempt=2) == "/task/checkpoint\n"
    assert [attempt.outcome for attempt in handle.attempts()] == ["disrupted", "ok"]


def test_what_runs_at_a_drains_deadline_saves_and_goes_on_later_without_using_up_its_only_attempt(
    client: Client, script: Script
) -> None:
    saving = 'trap "echo saved > $ROTA_CHECKPOINT/state; exit 1" TERM; echo up; while :; do sleep 0.05; done'
    handle = client.submit(script(f"[ -e $ROTA_CHECKPOINT/state ] && exit 0; {saving}"), attempts=1)
    eventually(lambda: "up" in handle.log())
    node = client.perform(cluster_calls.drain("node-0", deadline="1s"))
    assert (node.state, node.drain_by is not None) == ("draining", True)
    eventually(lambda: handle.state == "ready")
    client.perform(cluster_calls.undrain("node-0"))
    assert handle.wait(PATIENCE_SECONDS).state == "done"
    assert [attempt.outcome for attempt in handle.attempts()] == ["disrupted", "ok"]


def test_an_agent_that_is_killed_leaves_what_was_saved_while_it_ran_and_another_node_goes_on(
    cluster: Cluster, client: Client, script: Script, tmp_path: Path
) -> None:
    doomed = cluster.add_worker(options=("--label", "spare=yes"))
    text = f"{COUNT}{SAVE}echo lost > $ROTA_CHECKPOINT/count; touch $MEET/$n; [ $n -ge 2 ] || sleep 600"
    handle = client.submit(script(text), require={"spare": "yes"}, cap="1h")
    eventually(lambda: (tmp_path / "1").exists())
    doomed.kill()
    other = cluster.add_worker(options=("--label", "spare=yes"))
    assert handle.wait(PATIENCE_SECONDS).state == "done"
    assert "began at 1" in handle.log(attempt=2)
    first, second = handle.attempts()
    assert first.outcome == "lost"
    assert first.node != second.node
    other.stop()


def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    cluster: Cluster, client: Client, script: Script, tmp_path: Path
) -> None:
    text = f"{COUNT}{SAVE}[ -e $MEET/enough ] || exit 1"
    handle = client.submit(script(text), attempts=9, backoff="1h")

    eventually(lambda: _ended(handle) == 1)
    _damage(cluster, handle.id)  # there was one only
    assert "rota: no undamaged checkpoint is left; it starts from the beginning\nbegan at 0\n" in _next_attempt(
        cluster, handle
    )
    assert _next_attempt(cluster, handle) == "began at 1\n"
    _damage(cluster, handle.id)
    (tmp_path / "enough").touch()
    said = _next_attempt(cluster, handle)
    assert said.startswith("rota: the checkpoint of attempt 3 is damaged: its object has other bytes than it had\n")
    assert said.endswith("rota: it continues from an older checkpoint, of attempt 2\nbegan at 1\n")
    assert handle.wait(PATIENCE_SECONDS).state == "done"


def test_a_damaged_checkpoint_takes_no_good_ones_place(cluster: Cluster, client: Client, script: Script) -> None:
    handle = client.submit(script(f"{COUNT}exit 1"), attempts=9, backoff="1h")
    eventually(lambda: _ended(handle) == 1)
    assert "began at 1\n" in _next_attempt(cluster, handle)
    _damage(cluster, handle.id)
    assert "from an older checkpoint, of attempt 1\nbegan at 1\n" in _next_attempt(cluster, handle)
    _damage(cluster, handle.id)  # of attempt 3; that of attempt 1 must still be there
    assert "from an older checkpoint, of attempt 1\nbegan at 1\n" in _next_attempt(cluster, handle)
    assert "began at 2\n" in _next_attempt(cluster, handle)
    handle.cancel()


def test_too_much_is_not_kept_and_said_so(client: Client, script: Script) -> None:
    text = f"""{COUNT}
    [ $n = 1 ] || exit 0
    {SAVE}
    head -c 2000000 /dev/zero > $ROTA_CHECKPOINT/large; touch $ROTA_CHECKPOINT/.save
    while [ ! -e $ROTA_CHECKPOINT/.save-failed ]; do sleep 0.05; done; exit 1"""
    handle = client.submit(script(text), attempts=2, backoff=0.01)
    assert handle.wait(PATIENCE_SECONDS).state == "done"
    assert "rota: the checkpoint was not stored: it is larger than 1.05M\n" in handle.log(attempt=1)
    assert "began at 1" in handle.log(attempt=2)  # from the one before


def _ended(handle: TaskHandle) -> int:
    return sum(attempt.outcome is not None for attempt in handle.attempts())


def _next_attempt(cluster: Cluster, handle: TaskHandle) -> str:
    """What it said."""
    number = _ended(handle) + 1
    _hurry(cluster, handle.id)
    eventually(lambda: _ended(handle) == number)
    return handle.log(attempt=number)


def _damage(cluster: Cluster, task: int) -> None:
    async def newest() -> str:
        connection = await asyncpg.connect(cluster.database)
        try:
            return str(
                await connection.fetchval(
                    "select object_key from attempt_objects where task = $1 order by created_at desc, id desc limit 1",
                    task,
                )
            )
        finally:
            await connection.close()

    file = cluster.folder / "objects" / asyncio.run(newest())
    content = bytearray(file.read_bytes())
    content[600] ^= 255
    file.write_bytes(content)


def _hurry(cluster: Cluster, task: int) -> None:
    """Its backing off is over."""

    async def edit() -> None:
        connection = await asyncpg.connect(cluster.database)
        await connection.execute("update queue set wake_at = now(), version = version + 1 where id = $1", task)
        await connection.close()

    asyncio.run(edit())
