"""Real processes that talk TLS: clients, workers with their logs and files, server nodes with each other, tasks."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from rota import tls
from rota.cli.operate import authority
from rota.client._sync.client import Client
from rota.client.errors import Unreachable
from tests.conftest import MODULES
from tests.faults.scene import eventually
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def made(folder: Path, *names: str) -> Path:
    authority.init(folder, names or ("rota.example",), days=30, now=now(), replace=False)
    return folder


@dataclass
class Encrypted:
    cluster: Cluster
    certificates: Path

    @property
    def ca(self) -> str:
        return str(self.certificates / "ca.pem")

    @property
    def port(self) -> int:
        return int(self.cluster.urls[0].rpartition(":")[2])

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """One command line, in a process that is told nothing but the server, the token and the authority."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        own = {"ROTA_SERVER": self.cluster.urls[0], "ROTA_TOKEN": self.cluster.tokens.admin, "ROTA_CA": self.ca}
        return subprocess.run(
            [sys.executable, "-m", "rota.cli", *arguments],
            env={**plain, **own, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture(scope="module")
def encrypted(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    """Two server nodes and a worker on both, one authority for all of them."""
    folder = tmp_path_factory.mktemp("tls")
    certificates = made(folder / "certificates")
    with Cluster(postgres.create(), folder, time_scale=CALM, modules=MODULES) as cluster:
        cluster.add_server(certificates=certificates)
        cluster.add_server(certificates=certificates)
        cluster.add_worker(ROTA_CA=str(certificates / "ca.pem"))
        yield Encrypted(cluster, certificates)


@pytest.fixture
def client(encrypted: Encrypted, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("ROTA_CA", encrypted.ca)
    with encrypted.cluster.client() as client:
        yield client


def test_a_task_its_output_and_its_files_pass_through_encrypted_links(encrypted: Encrypted, client: Client) -> None:
    ran = encrypted.run("run", "--", "echo", "over TLS")
    assert (ran.returncode, ran.stdout) == (0, "over TLS\n"), ran.stderr
    kept = client.submit(["sh", "-c", "echo kept > x.txt"], outputs=["*.txt"])
    assert kept.wait(60).state == "done"
    listed = encrypted.run("outputs", str(kept.id), "-o", "json")
    assert "x.txt" in listed.stdout, listed.stderr


def test_an_output_longer_than_a_result_carries_comes_over_the_log_connection(client: Client) -> None:
    task = client.submit(["sh", "-c", "seq 1 60000"], isolation="none")
    assert task.wait(60).state == "done"
    assert b"\n59999\n" in client.log(task.id)


@pytest.mark.parametrize("server", [0, 1])
def test_server_nodes_reach_each_other_whichever_leads(encrypted: Encrypted, server: int) -> None:
    """Only the leader knows what a node has free: the other asks it."""
    headers = {"authorization": f"Bearer {encrypted.cluster.tokens.admin}"}
    with httpx.Client(verify=tls.trusted(encrypted.ca), headers=headers, trust_env=False, timeout=30) as http:

        def is_told() -> bool:
            listed = http.get(f"{encrypted.cluster.urls[server]}/v1/nodes").raise_for_status().json()["nodes"]
            return [node["free"] is not None for node in listed] == [True]

        eventually(is_told, seconds=60, what="the free resources of the node")


def test_a_running_task_submits_through_the_encrypted_link(encrypted: Encrypted, client: Client) -> None:
    """It sees no file of the worker, so it is given the authority itself."""
    inner = f"{sys.executable} -m rota.cli run -- echo from inside"
    task = client.submit(["sh", "-c", inner], may_submit=True, isolation="none", cap="1m")
    assert task.wait(60).state == "done", client.log(task.id).decode()
    assert "from inside" in client.log(task.id).decode()


def test_a_sandboxed_task_submits_through_its_socket(client: Client) -> None:
    code = (
        "import socket, os; s = socket.socket(socket.AF_UNIX); s.connect('/run/rota/server');"
        "s.sendall(b'GET /healthz HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n'); print(s.recv(65536).decode())"
    )
    task = client.submit(["python3", "-c", code], may_submit=True, isolation="sandbox", cap="1m")
    state = task.wait(60).state
    text = client.log(task.id).decode()
    assert (state, "200 OK" in text) == ("done", True), text


# ---- whom a client trusts ----------------------------------------------------------------------------------------


def test_another_authority_is_one_clear_sentence(encrypted: Encrypted, tmp_path: Path) -> None:
    other = made(tmp_path / "other")
    ran = encrypted.run("list", ROTA_CA=str(other / "ca.pem"))
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (5, "", 1)
    assert "is of no authority that is trusted here; name the file of its authority in ROTA_CA" in ran.stderr
    assert encrypted.run("list", ROTA_CA="").returncode == 5, "the machine's authorities did not make it either"
    assert encrypted.run("--ca", encrypted.ca, "list", ROTA_CA="").returncode == 0


@pytest.mark.parametrize(
    ("host", "days", "age", "said"),
    [
        ("127.0.0.2", 30, 0, "its certificate is not for the name 127.0.0.2; use a name that the certificate has"),
        ("127.0.0.1", 1, 3, "its certificate has expired; `rota tls renew` on the server makes a new one"),
        ("127.0.0.1", 30, -3, "its certificate is not valid yet; compare the clocks of both machines"),
    ],
    ids=["other names", "expired", "not yet valid"],
)
def test_a_certificate_that_does_not_fit_is_one_clear_sentence(
    host: str, days: int, age: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.init(tmp_path / "x", ("a",), days=days, now=now() - timedelta(days=age), replace=False)
    monkeypatch.setenv("ROTA_CA", str(tmp_path / "x/ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "x/server.pem", tmp_path / "x/server.key")
    with socket.create_server((host, 0)) as listener, ThreadPoolExecutor(1) as others:
        accepting = others.submit(_shake_hands, listener, context)
        url = f"https://{host}:{listener.getsockname()[1]}"
        with Client(url, "token", retry_seconds=0) as client, pytest.raises(Unreachable) as failed:
            client.list(limit=1)
        accepting.result(60)
    assert str(failed.value) == f"the server at {url} cannot be reached: {said}"


def _shake_hands(listener: socket.socket, context: ssl.SSLContext) -> None:
    plug, _ = listener.accept()
    with plug, contextlib.suppress(OSError):
        context.wrap_socket(plug, server_side=True).close()


def test_a_wrong_file_of_authorities_is_named(encrypted: Encrypted, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    damaged = tmp_path / "damaged.pem"
    damaged.write_text(Path(encrypted.ca).read_text().replace("MII", "AAA"))
    for path, said in ((tmp_path / "none.pem", "No such file"), (empty, "no certificate in it"), (damaged, "damaged")):
        ran = encrypted.run("list", ROTA_CA=str(path))
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
        assert str(path) in ran.stderr
        assert said in ran.stderr


def test_a_plain_address_of_an_encrypted_server_and_the_reverse_say_what_to_write(
    encrypted: Encrypted, cluster: Cluster
) -> None:
    ran = encrypted.run("list", ROTA_SERVER=f"http://127.0.0.1:{encrypted.port}")
    assert ran.returncode == 5
    assert "if it has a certificate, its address is https" in ran.stderr
    ran = encrypted.run("list", ROTA_SERVER=cluster.urls[0].replace("http:", "https:"))
    assert ran.returncode == 5
    assert "it does not speak TLS; is its address http?" in ran.stderr


def test_the_doctor_tells_how_long_the_certificate_is_good(encrypted: Encrypted) -> None:
    ran = encrypted.run("doctor", "-o", "json")
    found = {one["what"]: one for one in json.loads(ran.stdout)["findings"]}
    assert (found["certificate"]["state"], "29 days" in found["certificate"]["detail"]) == ("ok", True)
    assert "link between nodes" not in found
