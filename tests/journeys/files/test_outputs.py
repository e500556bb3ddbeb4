"""The outputs of a task become artifacts, or fail the attempt by name (F31); file transfers can be stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster
from tests.journeys.files.stalling import Relay

from rota.client._sync.client import Client
from rota.execute.files.find_outputs import BadOutput, Found, Limits, Output, find, open_output
from rota.model.answers.tasks import TaskDocument

Ended = Callable[..., TaskDocument]
LIMITS = Limits(files=50, size_bytes=10_000, looked_at=500)
PATIENCE_SECONDS = 60.0
EXAMPLE = Path(__file__).parents[3] / "examples/files/submit.py"


def _nothing_left(cluster: Cluster) -> list[str]:
    """Of attempts; packages stay on purpose."""
    found = (path for node in cluster.folder.glob("node-*/work") for path in node.iterdir())
    return [str(path) for path in found if not path.name.startswith(("package-", "child-"))]


# ---- a whole task --------------------------------------------------------------------------------------------------


def test_outputs_become_artifacts_that_are_listed_and_fetched(
    cluster: Cluster, untrusted: Client, trusted: Client, ended: Ended, tmp_path: Path
) -> None:
    script = (
        "mkdir -p out/deep && echo 1 > out/a.txt && echo 2 > out/deep/b.txt && echo 3 > .hidden && echo log > x.log"
    )
    for client in (untrusted, trusted):
        task = ended(client, script=script, outputs=["out/**", "*.log", "none/*.txt"])
        assert task.state == "done", task
        assert [output.name for output in task.outputs] == ["out/a.txt", "out/deep/b.txt", "x.log"]
        assert client.artifacts.read(task.outputs[1].artifact) == b"2\n"
    environment = {**os.environ, "ROTA_SERVER": cluster.urls[0], "ROTA_TOKEN": cluster.tokens.admin}

    def rota(*words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "rota.cli", *words]
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60, cwd=tmp_path)

    listed = rota("outputs", str(task.id), "--download", "results")
    assert (listed.returncode, (tmp_path / "results/out/deep/b.txt").read_text()) == (0, "2\n"), listed
    assert rota("outputs", str(task.id), "--download", "results").returncode == 2  # nothing is overwritten
    (tmp_path / "job.sh").write_text("#!/bin/sh\ncat in/it; echo $1 > made\n")
    ran = rota("run", "--upload", "job.sh", "--bring", "in/it=job.sh", "--keep", "made", "--", "word")
    assert (ran.returncode, ran.stdout) == (0, "#!/bin/sh\ncat in/it; echo $1 > made\n"), ran
    assert "made" in rota("show", str(max(one.id for one in trusted.list(limit=1)))).stdout
    example = subprocess.run(
        [sys.executable, str(EXAMPLE)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert "5\twords\n" in example.stdout, example
    bad = rota("submit", "--upload", "no-such-file")
    assert (bad.returncode, "neither a file here nor an artifact" in bad.stderr) == (2, True), bad


def test_what_is_not_a_plain_file_fails_the_attempt_by_name(cluster: Cluster, untrusted: Client) -> None:
    cases = {
        "ln -s /etc/passwd out": "out: is a symbolic link; only plain files are taken",
        "mkfifo out": "out: is a FIFO; only plain files are taken",
        "echo x > y; ln y out": "out: is a hard link: it has another name somewhere",
        "mkdir out": "out: is a folder; write out/** for all in it",
        "true": "out: the task left no such file",
    }
    handles = [untrusted.submit(script=script, outputs=["out"]) for script in cases]
    for handle, sentence in zip(handles, cases.values(), strict=True):
        task = handle.wait(PATIENCE_SECONDS)
        assert task.failure is not None
        assert (task.state, task.failure.type, task.failure.message) == ("failed", "bad-output", sentence)
    failed = untrusted.submit(script="echo x > out; exit 4", outputs=["out"]).wait(PATIENCE_SECONDS)
    assert (failed.exit_code, failed.outputs) == (4, [])
    assert _nothing_left(cluster) == []


def test_a_task_is_cancelled_or_timed_out_while_files_are_on_the_way_to_it_or_from_it(
    cluster: Cluster, trusted: Client, untrusted: Client, relay: Relay
) -> None:
    stalled = {"require": {"stalls": "yes"}, "memory": "256M"}
    cancelled = trusted.submit(upload=b"#!/bin/sh\necho never\n", **stalled)  # type: ignore[arg-type]
    assert relay.stalled.acquire(timeout=PATIENCE_SECONDS)
    assert cancelled.state == "running"
    cancelled.cancel()
    assert cancelled.wait(PATIENCE_SECONDS).outcome == "cancelled"
    late = untrusted.submit(["true"], files={"a": b"never comes"}, cap="1s", **stalled)  # type: ignore[arg-type]
    assert late.wait(PATIENCE_SECONDS).outcome == "timeout"
    storing = untrusted.submit(script="echo x > out", outputs=["out"], **stalled)  # type: ignore[arg-type]
    for _ in range(2):  # that of the one before, and its own
        assert relay.stalled.acquire(timeout=PATIENCE_SECONDS)
    assert storing.state == "running"
    storing.cancel()
    assert storing.wait(PATIENCE_SECONDS).outcome == "cancelled"
    free = trusted.submit(["true"], cpu=4, **stalled).wait(PATIENCE_SECONDS)  # type: ignore[arg-type]
    assert free.state == "done", "the room of all three is free again"
    assert _nothing_left(cluster) == []


# ---- the search ----------------------------------------------------------------------------------------------------


def _refusal(folder: Path, *patterns: str, limits: Limits = LIMITS) -> str:
    with pytest.raises(BadOutput) as refusal:
        find(str(folder), patterns, limits)
    return str(refusal.value)


def test_patterns_match_as_a_shell_would(tmp_path: Path) -> None:
    for path in ("a.txt", "b.bin", "d/a.txt", "d/e/a.txt", ".h/a.txt", "d/.x", "[1].txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)

    def names(*patterns: str) -> list[str]:
        return [output.path for output in find(str(tmp_path), patterns, LIMITS).outputs]

    assert names("*.txt", "a.txt") == ["[1].txt", "a.txt"]
    assert names("**/a.txt") == ["a.txt", "d/a.txt", "d/e/a.txt"]
    assert names("d/**") == ["d/a.txt", "d/e/a.txt"]
    assert names("*/a.*", "?.bin", "d/.*", ".h/a.txt") == [".h/a.txt", "b.bin", "d/.x", "d/a.txt"]
    assert names("[[]1].txt", "*/*/*/*") == ["[1].txt"]
    assert find(str(tmp_path / "gone"), ["*"], LIMITS) == Found([], [])


def test_links_are_never_followed_wherever_they_are_in_a_path(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("x")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    assert _refusal(folder, "link/key") == "link: is a symbolic link or no folder; links are not followed"
    assert _refusal(folder, "link") == "link: is a symbolic link; only plain files are taken"
    skipped = ["link: is a symbolic link; only plain files are taken"]
    assert find(str(folder), ["**"], LIMITS) == Found([], skipped)
    assert find(str(folder), ["*/key", "**/key"], LIMITS) == Found([], [])
    (folder / "sub").mkdir()
    (folder / "sub/out").write_text("x")
    [output] = find(str(folder), ["sub/out"], LIMITS).outputs
    (folder / "sub/out").unlink()
    (folder / "sub/out").symlink_to(tmp_path / "secret/key")
    with pytest.raises(BadOutput, match="sub/out"):
        open_output(str(folder), output)


def test_sockets_devices_and_odd_names_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert _refusal(tmp_path, "s") == "s: is a socket; only plain files are taken"
    if os.geteuid() == 0:
        os.mknod(tmp_path / "d", 0o20600, os.makedev(1, 3))
        assert _refusal(tmp_path, "d") == "d: is a device; only plain files are taken"
    (tmp_path / "esc\x1b[2J").write_text("")
    assert "'esc\\x1b[2J'" in _refusal(tmp_path, "esc*")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")).write_text("")
    assert "udcff" in _refusal(tmp_path, "*.txt")


def test_what_is_no_plain_file_is_skipped_where_only_a_wildcard_matches_it(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("x")
    (tmp_path / "twice").write_text("x")
    os.link(tmp_path / "twice", tmp_path / "again")
    (tmp_path / "link").symlink_to("good")
    os.mkfifo(tmp_path / "pipe")
    special = ["pipe: is a FIFO; only plain files are taken"]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        special.append("sock: is a socket; only plain files are taken")
        if os.geteuid() == 0:
            os.mknod(tmp_path / "null", 0o20600, os.makedev(1, 3))
            special.insert(0, "null: is a device; only plain files are taken")
        hard = [f"{name}: is a hard link: it has another name somewhere" for name in ("again", "twice")]
        found = find(str(tmp_path), ["*", "**"], LIMITS)
    link = "link: is a symbolic link; only plain files are taken"
    assert found == Found([Output("good", 1)], [hard[0], link, *special, hard[1]])


def test_a_link_among_the_outputs_of_a_good_task_is_left_out_and_its_output_says_so(untrusted: Client) -> None:
    task = untrusted.submit(script="echo x > good; ln -s good link; mkfifo pipe; echo done", outputs=["*"])
    ended = task.wait(PATIENCE_SECONDS)
    assert (ended.state, [output.name for output in ended.outputs or ()]) == ("done", ["good"])
    told = task.log(stream="stderr")
    assert told == (
        "rota: not kept: link: is a symbolic link; only plain files are taken\n"
        "rota: not kept: pipe: is a FIFO; only plain files are taken\n"
    )


def test_too_many_too_large_and_too_deep_are_refused(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{number:02}").write_text("")
    assert "one more than the 50 outputs" in _refusal(tmp_path, "*")
    assert "there are more than 40 names" in _refusal(tmp_path, "*.x", limits=Limits(size_bytes=1, looked_at=40))
    assert find(str(tmp_path), ["07"], Limits(size_bytes=1, looked_at=1)) == Found(
        [Output("07", 0)], []
    )  # named: no search
    with (tmp_path / "huge").open("wb") as sparse:
        sparse.truncate(10**12)
    assert _refusal(tmp_path, "huge") == "huge: with it the outputs have more than 10000 bytes"
    deep = tmp_path / "deep"
    os.mkdir(deep)
    here = os.open(deep, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert "is deeper than 64 folders" in _refusal(tmp_path, "deep/**")
