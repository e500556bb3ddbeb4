from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

# The stub server and its documents are shared with the client's tests.
from rota.cli.main import run
from tests.client.stub_server import StubServer


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Rota = Callable[..., Ran]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StubServer]:
    stub = StubServer()
    monkeypatch.setenv("ROTA_SERVER", stub.url)
    monkeypatch.setenv("ROTA_TOKEN", "key")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("ROTA_PROFILE", raising=False)
    yield stub
    stub.close()


@pytest.fixture
def rota(server: StubServer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Rota:
    """Runs one command line in this process: exit code, stdout, stderr."""
    # This process goes on to other tests: its logs must not go to a file that is closed with this one.
    for module in ("worker_node", "server_node"):
        monkeypatch.setattr(f"rota.cli.operate.{module}.configure_logging", lambda: None)

    def ran(*arguments: str) -> Ran:
        capfd.readouterr()
        code = run(list(arguments))
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return ran
