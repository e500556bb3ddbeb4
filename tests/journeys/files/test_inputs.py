"""The inputs of a task: programs, files and archives, sandboxed and not."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.harness.archives import tar_of
from tests.harness.cluster import Cluster

from rota.client._async.client import AsyncClient
from rota.client._sync.client import Client
from rota.client.errors import Refused
from rota.model.answers.tasks import TaskDocument

Ended = Callable[..., TaskDocument]


def _log(client: Client, task: TaskDocument) -> str:
    return client.log(task.id).decode()


def test_an_uploaded_script_runs_by_its_first_line_sandboxed_and_not(
    untrusted: Client, trusted: Client, ended: Ended
) -> None:
    script = b'#!/bin/sh\necho "$1 $2 in $(pwd)"; cat data/input.txt; exit 3\n'
    for client in (untrusted, trusted):
        task = ended(client, upload=script, args=["a b", 2], files={"data/input.txt": b"hello\n"})
        assert (task.exit_code, task.state) == (3, "failed"), task
        first, second = _log(client, task).splitlines()
        assert (first.startswith("a b 2 in /"), second) == (True, "hello")


def test_an_uploaded_program_runs_as_it_is_and_text_by_its_interpreter(
    untrusted: Client, ended: Ended, tmp_path: Path
) -> None:
    source = tmp_path / "tiny.c"
    source.write_text('#include <stdio.h>\nint main(int n, char **w) { printf("%d %s\\n", n, w[1]); return 7; }\n')
    subprocess.run(["gcc", "-o", str(tmp_path / "tiny"), str(source)], check=True, timeout=60)
    binary = ended(untrusted, upload=tmp_path / "tiny", args=["x"])
    assert (binary.exit_code, _log(untrusted, binary), binary.name) == (7, "2 x\n", "tiny")
    text = ended(untrusted, upload=b"import sys; print(sys.argv[1:])", interpreter=["python3"], args=["y"])
    assert (text.state, _log(untrusted, text)) == ("done", "['y']\n")
    bare = ended(untrusted, upload=b"echo bare $1", args=["z"])
    assert (bare.state, _log(untrusted, bare)) == ("done", "bare z\n")


def test_a_program_for_another_machine_is_refused_as_such_sandboxed_and_not(
    untrusted: Client, trusted: Client, ended: Ended
) -> None:
    for client in (untrusted, trusted):
        for content in (b"MZ\x90\0" + bytes(200), Path("/bin/true").read_bytes()[:1000]):
            task = ended(client, upload=content)
            assert task.failure is not None
            assert task.failure.type == "not-executable"
            assert task.failure.message == f"the uploaded file is not a program for this machine ({os.uname().machine})"
            assert _log(client, task) == "", "no shell was made to read it"


def test_an_archive_is_unpacked_before_the_start_and_files_come_on_top(
    untrusted: Client, trusted: Client, ended: Ended
) -> None:
    archive = tar_of(
        ("src/run.sh", b"#!/bin/sh\ncat src/a.txt b.txt; touch src/mine && echo may write\n"),
        ("src/a.txt", b"from the archive\n"),
        mode=0o755,
    )
    for client in (untrusted, trusted):
        task = ended(client, ["./src/run.sh"], archive=archive, files={"b.txt": b"a file\n", "src/c": b""})
        assert (task.state, _log(client, task)) == ("done", "from the archive\na file\nmay write\n"), task


def test_a_program_that_is_missing_or_may_not_be_run_is_refused_by_name_sandboxed_and_not(
    untrusted: Client, trusted: Client, ended: Ended
) -> None:
    archive = tar_of(("run.sh", b"#!/bin/sh\n"), mode=0o644)
    for client in (untrusted, trusted):
        missing = ended(client, ["./none.sh"], archive=archive)
        unmarked = ended(client, ["./run.sh"], archive=archive)
        assert missing.failure is not None
        assert unmarked.failure is not None
        assert missing.failure.type == "no-such-program"
        assert missing.failure.message == "there is no program ./none.sh in its work folder"
        assert unmarked.failure.type == "not-executable"
        assert unmarked.failure.message == "./run.sh may not be executed"
        assert (_log(client, missing), _log(client, unmarked)) == ("", ""), "not bubblewrap's words"


@pytest.mark.parametrize(
    ("archive", "sentence"),
    [
        (tar_of(("../../etc/cron.d/x", b"x")), "archive: '../../etc/cron.d/x': leads out of the folder"),
        (tar_of(("link", "/etc/passwd")), "archive: 'link': is a symbolic link; only files and folders are unpacked"),
        (tar_of(("checkpoint/x", b"x")), "archive: 'checkpoint/x': 'checkpoint' is a reserved name"),
        (tar_of(("./.rota-result", b"7")), "archive: './.rota-result': '.rota-result' is a reserved name"),
        (b"no archive at all", "archive: the archive is damaged or not an archive (truncated header)"),
        (tar_of(("input", b"x")), "archive: already has a file at input"),
    ],
    ids=["leads-out", "link", "checkpoint", "own-name", "nonsense", "same-name"],
)
def test_a_bad_archive_is_refused_by_name_in_the_sandbox(
    untrusted: Client, ended: Ended, archive: bytes, sentence: str
) -> None:
    task = ended(untrusted, ["cat", "input"], archive=archive, files={"input": b""}, disk="20M")
    assert task.failure is not None
    assert (task.state, task.failure.type, task.failure.message) == ("failed", "bad-archive", sentence)


def test_an_archive_that_does_not_fit_into_the_grant_is_told_with_what_is_granted_and_needed(
    untrusted: Client, ended: Ended
) -> None:
    bomb = tar_of(("small", b"x"), ("big", b"\0" * 30_000_000))
    task = ended(untrusted, ["true"], archive=bomb, files={"input": b"x" * 999_999}, disk="20M")
    assert task.failure is not None
    assert (task.outcome, task.failure.type, task.failure.message) == (
        "refused",
        "disk-limit",
        "archive: unpacked it goes over the disk space: 20M granted, 31M needed",
    )


def test_files_that_do_not_fit_into_the_grant_are_refused(untrusted: Client, ended: Ended) -> None:
    task = ended(untrusted, ["true"], files={"big": b"x" * 3_000_000}, disk="1M")
    assert task.failure is not None
    assert (task.outcome, task.failure.type) == ("refused", "disk-limit"), task


def test_what_is_not_there_or_another_tenants_is_refused_at_the_door(untrusted: Client, trusted: Client) -> None:
    foreign = trusted.artifacts.upload(b"of the others").id
    for work in ({"upload": foreign}, {"upload": "sha256:" + "0" * 64}, {"upload": "nonsense"}):
        with pytest.raises(Refused) as refusal:
            untrusted.submit(**work)  # type: ignore[arg-type]
        assert [(fault.pointer, fault.code) for fault in refusal.value.faults] == [("/upload", "unknown-artifact")]
    mine = untrusted.artifacts.upload(b"mine").id
    bad = {
        "/abs": mine,
        "../up": mine,
        ".rota-script": mine,
        "ok": foreign,
        "a": mine,
        "a/b": mine,
        "checkpoint": mine,
        "checkpoint/x": mine,
        "checkpoints": mine,
        "my/checkpoint/x": mine,
    }
    with pytest.raises(Refused) as refusal:
        untrusted.submit(["true"], files=bad, archive=foreign, outputs=["/etc/*", "a/../b", "a**"])
    found = {(fault.pointer, fault.code) for fault in refusal.value.faults}
    assert found == {
        ("/files/~1abs", "invalid-path"),
        ("/files/..~1up", "invalid-path"),
        ("/files/.rota-script", "invalid-path"),
        ("/files/ok", "unknown-artifact"),
        ("/files/a~1b", "invalid-path"),
        ("/archive", "unknown-artifact"),
        ("/files/checkpoint", "invalid-path"),
        ("/files/checkpoint~1x", "invalid-path"),
        ("/outputs/0", "invalid-path"),
        ("/outputs/1", "invalid-path"),
        ("/outputs/2", "invalid-path"),
    }


async def test_the_awaited_client_uploads_first_too_and_a_preview_uploads_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "it").write_bytes(b"from a file\n")
    async with AsyncClient(server=cluster.urls[0], token=cluster.tokens.admin) as client:
        preview = await client.preview(upload=tmp_path / "it")
        assert preview.accepted
        digest = preview.uploads[0].sha256
        assert digest == hashlib.sha256(b"from a file\n").hexdigest()
        assert [one for one in (await client.artifacts.list()).artifacts if one.sha256 == digest] == []
        same = {"command": ["cat", "it"], "files": {"it": tmp_path / "it"}}
        tasks = await client.submit_many([same, same])  # type: ignore[list-item]
        assert [(await task.wait(60)).state for task in tasks] == ["done", "done"]
        assert await tasks[1].log() == "from a file\n"


def test_a_function_brings_no_files(trusted: Client) -> None:
    with pytest.raises(Refused) as refusal:
        trusted.submit(function="os:getpid", files={"a": b"x"}, outputs=["b"])
    assert {fault.pointer for fault in refusal.value.faults} == {"/files", "/outputs"}


def test_the_first_digits_are_enough_and_the_artifact_stays_while_the_task_lives(untrusted: Client) -> None:
    made = untrusted.artifacts.upload(b"#!/bin/sh\ntrue\n")
    handle = untrusted.submit(upload=made.sha256[:8], delay="1h")
    with pytest.raises(Refused, match=f"task {handle.id}"):
        untrusted.artifacts.remove(made.id)
    handle.cancel()
    assert handle.wait(60).spec["upload"] == made.id
    untrusted.artifacts.remove(made.id)
    with pytest.raises(Refused, match="there is no artifact"):
        untrusted.submit(upload=made.id)


def test_removing_an_artifact_and_naming_it_in_a_task_never_both_succeed(untrusted: Client) -> None:
    """Invariant: a task that has not ended names only artifacts that are there."""

    def removed(artifact: str) -> bool:
        try:
            untrusted.artifacts.remove(artifact)
        except Refused:
            return False
        return True

    # The task is cancelled only after both have answered: until then the removal must be refused.
    handles = []
    with ThreadPoolExecutor(2) as both:
        for number in range(10):
            made = untrusted.artifacts.upload(b"raced for %d" % number).id
            submitting = both.submit(untrusted.submit, ["true"], files={"a": made}, delay="1h")
            removing = both.submit(removed, made)
            refused = submitting.exception(timeout=60)
            assert (refused is None) != removing.result(timeout=60)
            if refused is None:
                handles.append(submitting.result().id)
            else:
                assert isinstance(refused, Refused)
                assert [fault.code for fault in refused.faults] == ["unknown-artifact"]
    if handles:
        untrusted.cancel(handles)


def test_a_second_run_on_the_node_has_it_from_the_cache(cluster: Cluster, untrusted: Client, ended: Ended) -> None:
    data = b"cached\n" * 1000
    made = untrusted.artifacts.upload(data)
    assert ended(untrusted, ["cat", "it"], files={"it": made.id}).state == "done"
    [kept] = (cluster.folder / "node-0" / "artifacts").glob(f"*/{made.sha256}")
    before = kept.stat()
    for lost in (cluster.folder / "objects").rglob("*"):  # the store loses it: only the cache has it still
        if lost.is_file() and lost.read_bytes() == data:
            lost.unlink()
    again = ended(untrusted, ["cat", "it"], files={"it": made.id})
    assert (again.state, _log(untrusted, again), kept.stat().st_ino) == ("done", data.decode(), before.st_ino)
