"""Whom connections trust while files change, what running tasks are told, and which links the operator is warned about."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from rota import tls
from rota.cli.operate import authority
from rota.cli.operate.database_findings import findings_of
from rota.execute.connection import ControlConnection, Introduction
from rota.execute.identity import WorkerToken
from rota.model.answers.cluster import DatabaseCheck
from rota.server.links import links_in_clear
from rota.settings import Settings
from rota.store.database_hosts import unverified_hosts


def made(folder: Path) -> Path:
    authority.init(folder, ("a",), days=30, now=datetime.now(UTC), replace=False)
    return folder


@pytest.mark.parametrize(
    ("url", "clear"),
    [
        ("http://127.0.0.1:7070", False),
        ("http://127.9.9.9", False),
        ("http://localhost:7070", False),
        ("http://ui.localhost", False),
        ("http://[::1]:7070", False),
        ("http://[::ffff:127.0.0.1]", False),
        ("http+unix:/run/rota/server", False),
        ("https://a", False),
        ("http://a", True),
        ("http://localhost.example", True),
        ("http://10.0.0.7:7070", True),
        ("http://127.0.0.1.example", True),
        ("http://[fe80::1]:7070", True),
        ("http://0.0.0.0:7070", True),
    ],
)
def test_only_what_leaves_the_machine_is_in_clear(url: str, clear: bool) -> None:
    assert tls.is_clear(url) is clear
    assert (tls.clear_fault([url], {}) is not None) is clear
    assert tls.clear_fault([url], {"ROTA_INSECURE_HTTP": "1"}) is None


# ---- the file of authorities -------------------------------------------------------------------------------------


def accepts(trusting: ssl.SSLContext, server: Path) -> bool:
    """A handshake over a real connection, as each new connection of a worker makes one."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server / "server.pem", server / "server.key")
    here, there = socket.socketpair()
    with here, there, ThreadPoolExecutor(1) as others:
        other = others.submit(_serve, serving, there)
        try:
            trusting.wrap_socket(here, server_hostname="a")
        except ssl.SSLCertVerificationError:
            return False
        finally:
            here.close()
            other.result(60)
    return True


def _serve(context: ssl.SSLContext, plug: socket.socket) -> None:
    try:
        context.wrap_socket(plug, server_side=True)
    except OSError:
        plug.close()


def test_a_changed_file_of_authorities_holds_for_the_next_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = made(tmp_path / "old"), made(tmp_path / "new")
    file = tmp_path / "ca.pem"
    file.write_bytes((old / "ca.pem").read_bytes())
    trusting = tls.trusted(str(file))
    assert (accepts(trusting, old), accepts(trusting, new)) == (True, False)
    file.write_bytes((old / "ca.pem").read_bytes() + (new / "ca.pem").read_bytes())
    assert (accepts(trusting, old), accepts(trusting, new)) == (True, True)
    file.write_text("half of a fi")
    assert (accepts(trusting, old), accepts(trusting, new)) == (True, True)
    file.unlink()
    assert (accepts(trusting, old), accepts(trusting, new)) == (True, True)
    file.write_bytes((new / "ca.pem").read_bytes())
    assert (accepts(trusting, old), accepts(trusting, new)) == (False, True)
    said = [record.getMessage() for record in caplog.records]
    assert [text.partition(": ")[2].split(" ")[0] for text in said] == ["there", "No"], said


def test_a_process_starts_before_its_file_of_authorities_is_there(tmp_path: Path) -> None:
    server, file = made(tmp_path / "x"), tmp_path / "ca.pem"
    trusting = tls.trusted(str(file))
    with pytest.raises(tls.BadAuthorities, match=r"ca\.pem: No such file"):
        accepts(trusting, server)
    file.write_bytes((server / "ca.pem").read_bytes())
    assert accepts(trusting, server)


def test_nothing_is_read_before_the_first_connection_and_nothing_else_is_trusted(tmp_path: Path) -> None:
    """An authority of the machine does not make up for a missing one in the file."""
    folder = made(tmp_path / "x")
    trusting = tls.trusted(str(folder / "ca.pem"))
    assert accepts(trusting, folder)
    ours = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    assert len(ours.get_ca_certs()) == 1
    assert trusting._now().get_ca_certs() == ours.get_ca_certs()  # type: ignore[attr-defined]


# ---- running tasks -----------------------------------------------------------------------------------------------


def test_a_running_task_is_given_the_authorities_themselves_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    file = tmp_path / "ca.pem"
    file.write_bytes(b"\xe4 comment\n" + (one / "ca.pem").read_bytes() + b"\n" + (two / "ca.pem").read_bytes())
    monkeypatch.setenv("ROTA_CA", str(file))
    monkeypatch.delenv("ROTA_INSECURE_HTTP", raising=False)
    given = tls.for_tasks(["https://a", "https://b"])
    assert set(given) == {"ROTA_CA"}
    assert given["ROTA_CA"].isascii()
    assert given["ROTA_CA"].isprintable()
    for folder in (one, two):
        assert accepts(tls.trusted(given["ROTA_CA"]), folder)
    assert not accepts(tls.trusted(given["ROTA_CA"]), made(tmp_path / "three"))


def test_a_running_task_is_given_nothing_that_it_does_not_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path / "x")
    monkeypatch.setenv("ROTA_CA", str(folder / "ca.pem"))
    assert tls.for_tasks(["http://127.0.0.1:7070"]) == {}
    assert tls.for_tasks(["http://10.0.0.7:7070"]) == {"ROTA_INSECURE_HTTP": "1"}
    many = tmp_path / "many.pem"
    many.write_bytes((folder / "ca.pem").read_bytes() * 200)
    monkeypatch.setenv("ROTA_CA", str(many))
    assert tls.for_tasks(["https://a"]) == {}, "more than a variable may have"
    monkeypatch.setenv("ROTA_CA", "")
    assert tls.for_tasks(["https://a"]) == {}


# ---- a leader that does not encrypt ------------------------------------------------------------------------------


@pytest.mark.parametrize(("allowed", "used"), [("", False), ("1", True)])
async def test_a_worker_does_not_send_its_token_to_a_leader_in_clear(
    allowed: str, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_INSECURE_HTTP", allowed)
    introduction = Introduction(servers=("https://a",), credential=WorkerToken("t"), pool="default", hello=None)  # type: ignore[arg-type]
    agent = ControlConnection(introduction=introduction, workbench=None, outbox=None)  # type: ignore[arg-type]

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"url": "http://10.0.0.7:7070", "epoch": 1})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        with capture_logs() as lines:
            leader = await agent._find_leader(client)
    assert (leader is not None) is used
    assert [line["event"] for line in lines] == ([] if used else ["the leader can't be used"])


# ---- warnings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql:///rota", ()),
        ("postgresql://rota@/rota?host=/var/run/postgresql", ()),
        ("postgresql://rota@%2Fvar%2Frun/rota", ()),
        ("postgresql://rota@localhost:5432,127.0.0.1,[::1]:5433/rota", ()),
        ("postgresql://rota:pass%40word@db1,db2:5433/rota", ("db1", "db2")),
        ("postgresql://rota@localhost,db2/rota", ("db2",)),
        ("postgresql://rota@[2001:db8::7]:5432/rota", ("2001:db8::7",)),
        ("postgresql://rota@db1/rota?sslmode=require", ("db1",)),
        ("postgresql://rota@db1/rota?sslmode=prefer", ("db1",)),
        ("postgresql://rota@db1/rota?sslmode=verify-full", ()),
        ("postgresql://rota@db1,db2/rota?target_session_attrs=read-write&sslmode=verify-ca", ()),
        ("postgresql:///rota?host=db1,db2", ("db1", "db2")),
    ],
)
def test_the_hosts_of_a_database_that_nobody_checks(url: str, hosts: tuple[str, ...]) -> None:
    assert unverified_hosts(url, {}) == hosts
    assert unverified_hosts(url, {"PGSSLMODE": "verify-full"}) == (() if "sslmode" not in url else hosts)


def test_the_database_of_the_environment_is_judged_too() -> None:
    assert unverified_hosts("postgresql:///rota", {"PGHOST": "db1"}) == ("db1",)


@pytest.mark.parametrize(
    ("settings", "environment", "events"),
    [
        ({}, {}, []),
        ({"host": "10.0.0.7"}, {}, ["tls.clients_in_clear"]),
        ({"host": "0.0.0.0", "url": "https://proxy"}, {}, ["tls.clients_in_clear"]),
        ({"host": "0.0.0.0", "tls_cert": "c", "tls_key": "k"}, {}, []),
        ({"database": "postgresql://db1/rota"}, {}, ["tls.database_not_verified"]),
        ({"objects": "s3://x", "objects_options": {"endpoint": "http://10.0.0.9"}}, {}, ["tls.objects_in_clear"]),
        ({"objects": "s3://x"}, {"AWS_ENDPOINT_URL": "http://10.0.0.9"}, ["tls.objects_in_clear"]),
        ({"objects": "s3://x"}, {"AWS_ENDPOINT_URL": "https://10.0.0.9"}, []),
    ],
)
def test_a_server_node_warns_about_links_that_others_can_read(
    settings: dict[str, Any], environment: dict[str, str], events: list[str]
) -> None:
    chosen = Settings(**{"database": "postgresql:///rota", **settings})
    assert [event for event, _ in links_in_clear(chosen, environment)] == events


def test_the_doctor_names_database_hosts_that_nobody_checks() -> None:
    (found,) = [
        finding
        for finding in findings_of(
            DatabaseCheck(postgresql=16, schema=3, is_current=True, stuck=[], unverified_hosts=["db1", "db2"])
        )
        if finding.what == "link to database"
    ]
    assert (found.state, found.detail.startswith("db1, db2: ")) == ("missing", True)
    assert "sslmode=verify-full" in found.remedy
