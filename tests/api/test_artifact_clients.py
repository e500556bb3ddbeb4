"""The two clients and the command line, against a real server: up, down, listed, removed, and sent again when cut off."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rota import AsyncClient, Client, NotFound, RotaError
from rota.cli.main import run
from tests.api.served import Served
from tests.harness.cutter import cutting


def test_the_blocking_client_uploads_lists_downloads_and_removes(served: Served, tmp_path: Path) -> None:
    data = os.urandom(1_500_000)
    (tmp_path / "data.bin").write_bytes(data)
    seen: list[tuple[int, int | None]] = []
    with Client(served.url, served.tokens["member"]) as client:
        made = client.artifacts.upload(tmp_path / "data.bin", progress=lambda *far: seen.append(far))
        assert (made.sha256, made.name) == (hashlib.sha256(data).hexdigest(), "data.bin")
        assert seen[-1] == (len(data), len(data))
        assert client.artifacts.upload(data, name="again").id == made.id
        assert client.artifacts.upload(io.BytesIO(data)).name == "again"
        assert made.id in [one.id for one in client.artifacts.list(limit=5).artifacts]
        assert client.artifacts.get(made.short_id).size_bytes == len(data)
        assert client.artifacts.download(made.short_id, tmp_path / "copy").read_bytes() == data
        assert client.artifacts.read(made.sha256[:8]) == data
        with pytest.raises(RotaError, match="/dev/zero is not a regular file"):
            client.artifacts.upload("/dev/zero")
        client.artifacts.remove(made.id)
        with pytest.raises(NotFound):
            client.artifacts.get(made.id)
        with pytest.raises(NotFound):
            client.artifacts.download(made.id, tmp_path / "nothing")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data.bin"]


async def test_the_awaited_client_does_the_same(served: Served, tmp_path: Path) -> None:
    data = os.urandom(700_000)
    (tmp_path / "data.bin").write_bytes(data)
    async with AsyncClient(served.url, served.tokens["member"]) as client:
        made = await client.artifacts.upload(tmp_path / "data.bin")
        assert (await client.artifacts.upload(data)).id == made.id
        assert (await client.artifacts.download(made.id, tmp_path / "copy")).read_bytes() == data
        assert await client.artifacts.read(made.short_id) == data
        assert made.id in [one.id for one in (await client.artifacts.list(limit=5)).artifacts]
        await client.artifacts.remove(made.sha256)
        with pytest.raises(NotFound):
            await client.artifacts.get(made.id)


def test_a_damaged_artifact_never_lands_in_a_file(served: Served, tmp_path: Path) -> None:
    data = os.urandom(5_000_000)
    with Client(served.url, served.tokens["member"], retry_seconds=0.2) as client:
        made = client.artifacts.upload(data)
        key = served.ask("select object_key from artifacts where sha256 = $1", bytes.fromhex(made.sha256))[0][0]
        path = served.cluster.folder / "objects" / key
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        with pytest.raises(RotaError, match="damaged"):
            client.artifacts.download(made.id, tmp_path / "copy")
        client.artifacts.remove(made.id)
    assert list(tmp_path.iterdir()) == []


def test_a_download_goes_on_where_it_was_cut_off(served: Served, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    with Client(served.url, served.tokens["member"]) as client:
        made = client.artifacts.upload(data)
    with cutting(served.url, after_bytes=1_200_000, times=2) as cutter:
        with Client(cutter.url, served.tokens["member"]) as client:
            assert client.artifacts.download(made.id, tmp_path / "copy").read_bytes() == data
        assert (cutter.cuts_left, cutter.connections >= 3) == (0, True)


def test_an_upload_whose_answer_is_lost_is_sent_again_and_is_still_one_artifact(served: Served) -> None:
    with cutting(served.url, after_bytes=10, times=1) as cutter:
        with Client(cutter.url, served.tokens["member"]) as client:
            made = client.artifacts.upload(os.urandom(1000))
        assert cutter.cuts_left == 0
    assert served.ask("select count(*) from artifacts where sha256 = $1", bytes.fromhex(made.sha256)) == [(1,)]


# ---- the command line -----------------------------------------------------------------------------------------------

Ran = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rota(served: Served, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Ran:
    monkeypatch.setenv("ROTA_SERVER", served.url)
    monkeypatch.setenv("ROTA_TOKEN", served.tokens["member"])
    monkeypatch.chdir(tmp_path)

    def ran(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(list(words))
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return ran


def test_upload_prints_a_short_id_that_every_command_takes(rota: Ran, tmp_path: Path) -> None:
    data = os.urandom(1000)
    sha = hashlib.sha256(data).hexdigest()
    (tmp_path / "thing").write_bytes(data)
    code, out, err = rota("upload", "thing")
    assert (code, out, err) == (0, f"sha256:{sha[:12]}\n", "")
    short = out.strip()
    assert json.loads(rota("upload", "thing", "--name", "other", "-o", "json")[1])["name"] == "other"
    assert short in rota("artifact", "list")[1]
    assert json.loads(rota("artifact", "list", "-o", "json")[1])["artifacts"][0]["sha256"] == sha
    code, out, _ = rota("artifact", "show", short)
    assert (code, f"sha256:{sha}" in out, "other" in out, "forever" in out) == (0, True, True, True)
    assert rota("artifact", "download", short)[0] == 0
    assert (tmp_path / "other").read_bytes() == data
    code, _, err = rota("artifact", "download", short)
    assert (code, "exists; name another" in err) == (2, True)
    assert rota("artifact", "download", short, "thing", "--force")[0] == 0
    (tmp_path / "folder").mkdir()
    assert rota("artifact", "download", short, "folder")[0] == 0
    assert (tmp_path / "folder" / "other").read_bytes() == data
    assert rota("artifact", "remove", short)[:2] == (0, "removed\n")
    assert rota("artifact", "show", short)[0] == 3


def test_a_pipe_can_be_uploaded_and_an_artifact_piped(served: Served) -> None:
    environment = {**os.environ, "ROTA_SERVER": served.url, "ROTA_TOKEN": served.tokens["member"]}
    command = [sys.executable, "-m", "rota.cli"]
    data = os.urandom(400_000)
    sent = subprocess.run([*command, "upload", "-"], input=data, capture_output=True, env=environment, timeout=60)
    assert sent.stdout.decode() == f"sha256:{hashlib.sha256(data).hexdigest()[:12]}\n", sent.stderr
    words = [*command, "artifact", "download", sent.stdout.decode().strip(), "-"]
    got = subprocess.run(words, capture_output=True, env=environment, timeout=60)
    assert got.stdout == data


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("upload", "missing"), 2, "missing: No such file"),
        (("upload", "."), 2, "is a folder"),
        (("artifact", "show", "1234567"), 2, "8 to 64"),
        (("artifact", "show", "nonsense"), 2, "8 to 64"),
        (("artifact", "show", "0" * 64), 3, "no such artifact"),
        (("artifact", "remove", "0" * 8), 3, "no such artifact"),
    ],
)
def test_what_can_not_be_is_said_in_one_line(rota: Ran, words: tuple[str, ...], code: int, said: str) -> None:
    got, out, err = rota(*words)
    assert (got, out, err.count("\n")) == (code, "", 1)
    assert said in err
