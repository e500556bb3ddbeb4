"""Certificates that are renewed, spoiled or expired under a running server node, and handshakes that never end."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from rota import tls
from rota.cli.operate import authority
from rota.server.certificate import Certificate, read_pair
from rota.settings import SettingsError
from tests.faults.scene import eventually
from tests.harness.cluster import CALM, Cluster, free_port
from tests.harness.postgres import TestPostgres

HEADER_SECONDS, PER_ADDRESS = 5.0, 12  # enough for a handshake on a busy machine


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def made(folder: Path, *names: str, days: int = 30, at: datetime | None = None) -> Path:
    authority.init(folder, names or ("rota.example",), days=days, now=at or now(), replace=False)
    return folder


def serial_at(port: int, ca: Path) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plug:
        with tls.trusted(str(ca)).wrap_socket(plug, server_hostname="127.0.0.1") as encrypted:
            return str(encrypted.getpeercert()["serialNumber"]).lower().lstrip("0")  # type: ignore[index]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("rotation") / "certificates")


@pytest.fixture(scope="module")
def cluster(postgres: TestPostgres, certificates: Path) -> Iterator[Cluster]:
    with Cluster(postgres.create(), certificates.parent, time_scale=CALM) as cluster:
        limits = {"ROTA_HEADER_TIMEOUT": f"{HEADER_SECONDS:g}s", "ROTA_CONNECTIONS_PER_ADDRESS": f"{PER_ADDRESS}"}
        cluster.add_server(certificates=certificates, **limits)
        yield cluster


@pytest.fixture
def port(cluster: Cluster) -> int:
    return int(cluster.urls[0].rpartition(":")[2])


def test_a_renewed_certificate_is_served_without_a_restart_while_clients_go_on(
    cluster: Cluster, certificates: Path, port: int
) -> None:
    ca = certificates / "ca.pem"
    pid, before = cluster.servers[0].pid, serial_at(port, ca)
    headers = {"authorization": f"Bearer {cluster.tokens.admin}"}
    with httpx.Client(verify=tls.trusted(str(ca)), headers=headers, trust_env=False, timeout=20) as kept:
        stream = kept.get(f"{cluster.urls[0]}/v1/me").extensions["network_stream"]
        renewed = authority.renew(certificates, (), days=30, now=now())

        def is_served() -> bool:
            asked = httpx.get(f"{cluster.urls[0]}/v1/me", verify=tls.trusted(str(ca)), headers=headers, trust_env=False)
            assert asked.status_code == 200, "each request on a connection of its own succeeds, before and after"
            answered = kept.get(f"{cluster.urls[0]}/v1/me")
            assert answered.status_code == 200
            assert answered.extensions["network_stream"].get_extra_info("socket") is stream.get_extra_info("socket")
            return serial_at(port, ca) == renewed.serial

        assert renewed.serial != before
        eventually(is_served, seconds=60, what="the new serial number")
    assert (cluster.servers[0].pid, cluster.servers[0].running) == (pid, True)


def test_files_that_cannot_be_used_change_nothing_but_the_log(
    cluster: Cluster, certificates: Path, port: int, tmp_path: Path
) -> None:
    ca, cert = certificates / "ca.pem", certificates / "server.pem"
    good, serial = cert.read_bytes(), serial_at(port, ca)
    stranger = made(tmp_path / "stranger")
    try:
        for content, why in (
            (b"no certificate", "it is no certificate in PEM format"),
            ((stranger / "server.pem").read_bytes(), "it is not the key of the certificate"),
            (None, "No such file or directory"),
        ):
            cert.unlink() if content is None else cert.write_bytes(content)
            said = f'"error":.*{why}.*"tls.certificate_not_read"'
            eventually(lambda said=said: re.search(said, cluster.servers[0].log()), seconds=60, what=why)
            assert serial_at(port, ca) == serial
    finally:
        cert.write_bytes(good)
    assert "PRIVATE KEY" not in cluster.servers[0].log()


def test_the_metrics_tell_how_many_days_are_left(cluster: Cluster, certificates: Path) -> None:
    trusting = tls.trusted(str(certificates / "ca.pem"))
    text = httpx.get(f"{cluster.urls[0]}/metrics", verify=trusting, trust_env=False).text
    found = re.search(r"^rota_tls_certificate_days_left (\S+)$", text, re.MULTILINE)
    assert found is not None
    assert 29 < float(found[1]) <= 30


# ---- handshakes --------------------------------------------------------------------------------------------------


def test_handshakes_that_never_end_are_ended_and_others_are_served_meanwhile(
    cluster: Cluster, certificates: Path, port: int
) -> None:
    """More of them than one address may have connections: the oldest make room for whoever does talk."""
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(3 * PER_ADDRESS)]
        for plug in silent[::2]:
            plug.sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a handshake
        assert serial_at(port, certificates / "ca.pem")
        for plug in silent:
            plug.settimeout(60)
            assert _ended(plug)
    assert _ended_for(cluster, certificates, "tls-handshake") >= 1


def test_a_client_that_speaks_no_tls_loses_its_connection(cluster: Cluster, certificates: Path, port: int) -> None:
    before = _ended_for(cluster, certificates, "tls-handshake")
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plug:
        plug.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert _ended(plug)
    assert _ended_for(cluster, certificates, "tls-handshake") > before


def test_old_versions_of_tls_are_refused(port: int, certificates: Path) -> None:
    old = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plug, pytest.raises(ssl.SSLError):
        old.wrap_socket(plug, server_hostname="127.0.0.1")


def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(port: int, certificates: Path) -> None:
    """In one packet: the last message of the handshake and a whole request."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    encrypted = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plug:
        is_done = False
        while not is_done:
            try:
                encrypted.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                if outgoing.pending:
                    plug.sendall(outgoing.read())
                incoming.write(plug.recv(65536))
        encrypted.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        plug.sendall(outgoing.read())
        answer = b""
        while b'"ok"' not in answer:
            received = plug.recv(65536)
            assert received, answer
            incoming.write(received)
            with contextlib.suppress(ssl.SSLWantReadError):
                while part := encrypted.read(65536):
                    answer += part
        assert answer.startswith(b"HTTP/1.1 200")


def test_a_node_stops_at_once_with_handshakes_under_way(postgres: TestPostgres, tmp_path: Path) -> None:
    with Cluster(postgres.create(), tmp_path, time_scale=CALM) as cluster:
        server = cluster.add_server(certificates=made(tmp_path / "certificates"), ROTA_HEADER_TIMEOUT="1h")
        with socket.create_connection(("127.0.0.1", int(cluster.urls[0].rpartition(":")[2]))) as plug:
            plug.sendall(b"\x16\x03\x01")
            server.stop()
        assert server.popen is not None
        assert server.popen.returncode == 0
        assert "crashed" not in server.log()


def _ended(plug: socket.socket) -> bool:
    try:
        while plug.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def _ended_for(cluster: Cluster, certificates: Path, reason: str) -> int:
    trusting = tls.trusted(str(certificates / "ca.pem"))
    text = httpx.get(f"{cluster.urls[0]}/metrics", verify=trusting, trust_env=False).text
    found = re.search(rf'^rota_http_connections_ended_total{{reason="{reason}"}} (\d+)', text, re.MULTILINE)
    return int(found[1]) if found else 0


# ---- at start ----------------------------------------------------------------------------------------------------


def spoiled(folder: Path) -> dict[str, tuple[Path, Path, str]]:
    """Pairs that can't be used, by what is wrong with them, with what is said."""
    good, other = made(folder / "good"), made(folder / "other")
    old = made(folder / "old", days=1, at=now() - timedelta(days=3))
    early = made(folder / "early", at=now() + timedelta(days=3))
    cert, key = good / "server.pem", good / "server.key"
    no_pem, locked = folder / "no.pem", folder / "locked.key"
    no_pem.write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    from cryptography.hazmat.primitives import serialization as form

    private = form.load_pem_private_key(key.read_bytes(), None)
    encryption = form.BestAvailableEncryption(b"passphrase")
    locked.write_bytes(private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, encryption))
    return {
        "missing certificate": (folder / "none.pem", key, f"--tls-cert {folder}/none.pem: No such file or directory"),
        "missing key": (cert, folder / "none.key", f"--tls-key {folder}/none.key: No such file or directory"),
        "a folder": (folder, key, f"--tls-cert {folder}: Is a directory"),
        "no certificate": (no_pem, key, f"--tls-cert {no_pem}: it is no certificate in PEM format"),
        "no key": (cert, cert, f"--tls-key {cert}: it is no private key in PEM format"),
        "a passphrase": (cert, locked, f"--tls-key {locked}: it has a passphrase"),
        "another key": (cert, other / "server.key", f"{other}/server.key: it is not the key of the certificate {cert}"),
        "expired": (old / "server.pem", old / "server.key", f"--tls-cert {old}/server.pem: it expired at"),
        "not yet valid": (early / "server.pem", early / "server.key", f"{early}/server.pem: it is valid only from"),
    }


SPOILED = ("missing certificate", "missing key", "a folder", "no certificate", "no key", "a passphrase", "another key", "expired", "not yet valid")  # fmt: skip


@pytest.mark.parametrize("what", SPOILED)
def test_a_pair_that_cannot_be_used_is_named_with_what_is_wrong(what: str, tmp_path: Path) -> None:
    cert, key, said = spoiled(tmp_path)[what]
    with pytest.raises(SettingsError, match=re.escape(said)):
        read_pair(cert, key, now().timestamp())


def test_a_server_with_a_wrong_pair_does_not_start_and_says_why(tmp_path: Path) -> None:
    cert, key, said = spoiled(tmp_path)["another key"]
    ran = subprocess.run(
        [sys.executable, "-m", "rota.cli", "serve", "--database", "postgresql://nowhere/x", "--port", str(free_port())],
        env={**os.environ, "ROTA_TLS_CERT": str(cert), "ROTA_TLS_KEY": str(key)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert said in ran.stderr


def test_a_key_that_everybody_can_read_is_warned_about(tmp_path: Path) -> None:
    folder = made(tmp_path / "x")
    (folder / "server.key").chmod(0o644)
    with capture_logs() as lines:
        Certificate(folder / "server.pem", folder / "server.key")
    assert [(line["event"], line["log_level"]) for line in lines] == [("tls.key_is_open", "warning")]


@pytest.mark.parametrize(("days", "warned"), [(15, 0), (14, 1), (1, 1)])
def test_a_certificate_that_expires_soon_is_warned_about_once_a_day(tmp_path: Path, days: int, warned: int) -> None:
    start = now()
    folder = made(tmp_path / "x", days=days, at=start)
    at = [start.timestamp()]
    certificate = Certificate(folder / "server.pem", folder / "server.key", clock=lambda: at[0])

    def look() -> int:
        with capture_logs() as lines:
            certificate.warn_if_due()
        return len([line for line in lines if line["event"] == "tls.certificate_expires"])

    assert (look(), look()) == (warned, 0)
    at[0] += 86_400 * 0.9
    assert look() == 0
    at[0] += 86_400 * 0.2
    assert look() == 1, "14 days or fewer are left by now, whatever it began with"


def test_a_pair_in_the_middle_of_a_change_is_no_error_in_the_log(tmp_path: Path) -> None:
    folder, other = made(tmp_path / "x"), made(tmp_path / "y")
    certificate = Certificate(folder / "server.pem", folder / "server.key")
    serial = certificate.pair.serial
    with capture_logs() as lines:
        (folder / "server.key").write_bytes((other / "server.key").read_bytes())
        certificate.look()
        assert certificate.pair.serial == serial
        (folder / "server.pem").write_bytes((other / "server.pem").read_bytes())
        certificate.look()
    assert certificate.pair.serial != serial
    assert [line["event"] for line in lines] == ["tls.certificate_read"]
