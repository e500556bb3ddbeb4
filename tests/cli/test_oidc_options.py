"""`rota serve`, `rota up` and `rota doctor` read the settings of single sign-on, and name what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.cli.operate import server_node
from rota.settings import Settings
from tests.cli.conftest import Rota
from tests.ui.oidc.providers import Hostile

TABLE = '[oidc]\nissuer = "https://login.example.org"\nclient_id = "rota"\n'
SERVE = ("serve", "--database", "postgresql://nowhere/rota")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("ISSUER", "CLIENT_ID", "CLIENT_SECRET", "CLIENT_SECRET_FILE", "NAME"):
        monkeypatch.delenv(f"ROTA_OIDC_{name}", raising=False)
    return tmp_path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of server nodes that would have run."""
    found: list[Settings] = []

    def remember(settings: Settings, _: Path) -> int:
        found.append(settings)
        return 0

    monkeypatch.setattr(server_node, "run_server", remember)
    return found


def secret(folder: Path, text: str = "hunter2\n", mode: int = 0o600) -> str:
    path = folder / "client.secret"
    path.write_text(text)
    path.chmod(mode)
    return f"client_secret_file = {json.dumps(str(path))}\n"


def test_a_server_without_a_table_has_no_provider(rota: Rota, served: list[Settings]) -> None:
    assert rota(*SERVE).code == 0
    assert served[0].oidc is None


def test_a_server_reads_the_table_and_the_secret(rota: Rota, served: list[Settings], folder: Path) -> None:
    (folder / "rota.toml").write_text(TABLE + secret(folder))
    assert rota(*SERVE).code == 0
    oidc = served[0].oidc
    assert oidc is not None
    assert (oidc.issuer, oidc.client_secret) == ("https://login.example.org", "hunter2")
    assert "hunter2" not in repr(served[0])


def test_the_environment_wins_over_the_file(
    rota: Rota, served: list[Settings], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "rota.toml").write_text(TABLE + secret(folder))
    monkeypatch.setenv("ROTA_OIDC_ISSUER", "https://other.example.org")
    monkeypatch.setenv("ROTA_OIDC_CLIENT_SECRET", "from the environment")
    assert rota(*SERVE).code == 0
    oidc = served[0].oidc
    assert oidc is not None
    assert (oidc.issuer, oidc.client_secret) == ("https://other.example.org", "from the environment")


@pytest.mark.parametrize("command", [SERVE, ("up", "--data", "d")])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[oidc]\nclient_id = "rota"\n', "[oidc] issuer: it is missing"),
        (TABLE + 'jit = "no"\n', "[oidc] jit: it must be true or false"),
        (TABLE + 'map = {"ml" = "boss@acme"}\n', "'boss@acme' is not a role at a place"),
        (TABLE + 'secret = "hunter2"\n', "[oidc] secret: there is no such setting"),
        (TABLE + "client_secret_file = 5\n", "[oidc] client_secret_file: it must be the path"),
        (TABLE + 'client_secret_file = "nowhere"\n', "[oidc] client_secret_file: nowhere: No such file"),
        ("oidc = 5\n", "oidc must be a table"),
    ],
)
def test_a_wrong_table_is_told_before_anything_starts(
    rota: Rota, folder: Path, command: tuple[str, ...], text: str, said: str
) -> None:
    (folder / "rota.toml").write_text(text)
    ran = rota(*command)
    assert (ran.code, ran.out) == (2, "")
    assert said in " ".join(ran.err.split())
    assert "hunter2" not in ran.err


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("hunter2\n", 0o644, "is open to every user of this machine"),
        ("", 0o600, "it must hold the client secret on one line"),
        ("hunter2\nhunter3\n", 0o600, "it must hold the client secret on one line"),
        ("hunter2 " * 1000, 0o600, "it must hold the client secret on one line"),
    ],
)
def test_a_file_that_holds_no_secret_or_is_open_to_all_is_refused(
    rota: Rota, folder: Path, text: str, mode: int, said: str
) -> None:
    (folder / "rota.toml").write_text(TABLE + secret(folder, text, mode))
    ran = rota(*SERVE)
    assert (ran.code, said in " ".join(ran.err.split())) == (2, True), ran.err
    assert "hunter" not in ran.err


def test_a_wrong_variable_is_named(rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_OIDC_ISSUER", "http://login.example.org")
    ran = rota(*SERVE)
    assert (ran.code, "ROTA_OIDC_ISSUER" in ran.err, "must begin with https://" in " ".join(ran.err.split())) == (
        2,
        True,
        True,
    )


# ---- rota doctor -------------------------------------------------------------------------------------------------------


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    provider = Hostile()
    yield provider
    provider.stop()


def found(rota: Rota) -> list[tuple[str, str]]:
    document: dict[str, Any] = json.loads(rota("doctor", "-o", "json").out)
    return [(one["state"], one["detail"]) for one in document["findings"] if one["what"] == "single sign-on"]


def test_doctor_asks_the_provider(rota: Rota, hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(rota) == []
    monkeypatch.setenv("ROTA_OIDC_ISSUER", hostile.issuer)
    monkeypatch.setenv("ROTA_OIDC_CLIENT_ID", "rota")
    monkeypatch.setenv("ROTA_OIDC_CLIENT_SECRET", "hunter2")
    assert found(rota) == [("ok", f"{hostile.issuer} answers, with 1 keys for signatures")]
    hostile.discovery = {"code_challenge_methods_supported": ["plain"]}
    assert [state for state, _ in found(rota)] == ["ok", "missing"]
    hostile.published = []
    assert [state for state, _ in found(rota)] == ["broken", "missing"]
    hostile.discovery = {"issuer": "https://login.example.org"}
    [(state, detail)] = found(rota)
    assert (state, "calls itself 'https://login.example.org'" in detail) == ("broken", True)
    monkeypatch.setenv("ROTA_OIDC_ISSUER", "http://127.0.0.1:1")
    [(state, detail)] = found(rota)
    assert (state, "can't be reached" in detail) == ("broken", True)
    monkeypatch.setenv("ROTA_OIDC_ISSUER", "login.example.org")
    [(state, detail)] = found(rota)
    assert (state, "is not an address" in detail) == ("broken", True)
