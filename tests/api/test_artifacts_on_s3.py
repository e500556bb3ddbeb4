"""A server node on a real S3-speaking store: limits by setting, crashes in the middle, and secrets that stay secret."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from rota import Client, Refused
from rota.cli.main import run
from tests.api.served import Said, problem
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres
from tests.harness.s3 import moto_server, s3_environment

KEY_ID, SECRET = "AKIACANARYCANARY", "canary-secret-of-the-object-store"


@pytest.fixture(scope="module")
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two server nodes: one stores in a bucket and takes 20 MB at most, the other stores nowhere."""
    folder = tmp_path_factory.mktemp("s3")
    with moto_server(folder) as url, Cluster(postgres.create(), folder / "cluster") as running:
        environment = s3_environment(url, KEY_ID, SECRET)
        running.add_server(
            ROTA_OBJECTS="s3://bucket/rota", ROTA_ARTIFACT_LIMIT="20M", ROTA_ARTIFACT_DAYS="30", **environment
        )
        running.add_server(ROTA_OBJECTS="")
        yield running


def test_artifacts_live_in_the_bucket_and_nobody_hears_its_keys(cluster: Cluster) -> None:
    data = os.urandom(18_000_000)  # three parts
    with cluster.client() as client:
        made = client.artifacts.upload(data, name="big")
        assert client.artifacts.read(made.short_id) == data
        assert made.kept_until is not None
        with pytest.raises(Refused, match="at most 20,000,000 bytes") as refused:
            client.artifacts.upload(bytes(20_000_001))
        assert refused.value.slug == "payload-too-large"
        said = [client.artifacts.get(made.id), client.artifacts.list(), client.me(), refused.value.document]
        client.artifacts.remove(made.id)
    answers = [
        httpx.get(
            cluster.urls[0] + path, headers={"authorization": f"Bearer {cluster.tokens.admin}"}, trust_env=False
        ).text
        for path in ("/v1/servers", "/metrics", "/openapi.json", "/readyz")
    ]
    everything = f"{said} {answers} {cluster.servers[0].log()}"
    assert KEY_ID not in everything
    assert SECRET not in everything


def test_a_server_without_a_store_says_so_and_names_the_setting(cluster: Cluster) -> None:
    with Client(cluster.urls[1], cluster.tokens.admin) as client:
        with pytest.raises(Refused, match="ROTA_OBJECTS") as refused:
            client.artifacts.upload(b"x")
        assert (refused.value.status, refused.value.slug) == (503, "no-object-store")
        assert client.artifacts.list().artifacts is not None, "rows can still be read"


def test_a_server_killed_in_the_middle_of_an_upload_leaves_nothing_to_see_and_a_key_to_sweep(cluster: Cluster) -> None:
    server = cluster.servers[0]
    parts = urlsplit(cluster.urls[0])
    with socket.create_connection((parts.hostname, parts.port)) as plug:
        head = (
            f"POST /v1/artifacts HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {cluster.tokens.admin}\r\n"
            "content-length: 19000000\r\n\r\n"
        )
        plug.sendall(head.encode() + bytes(9_000_000))
        asyncio.run(_until_announced(cluster.database))
        server.kill()
    server.start()
    with cluster.client() as client:
        assert client.artifacts.list().artifacts == []
        made = client.artifacts.upload(bytes(19_000_000))
        assert made.sha256 == hashlib.sha256(bytes(19_000_000)).hexdigest()
        client.artifacts.remove(made.id)
    assert asyncio.run(_count(cluster.database, "loose_objects")) == 1, "the sweeper's, once nobody can be finishing it"


async def _until_announced(database: str) -> None:
    async with asyncio.timeout(20):
        while await _count(database, "loose_objects") == 0:
            await asyncio.sleep(0.01)


async def _count(database: str, table: str) -> int:
    connection = await asyncpg.connect(database)
    try:
        return int(await connection.fetchval(f"select count(*) from {table}"))
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        (("--objects", "ftp://x"), {}, "ftp:// is not known"),
        (("--artifact-limit", "lots"), {}, "is not a size"),
        (("--artifact-days", "x"), {}, "number of days"),
        ((), {"ROTA_OBJECTS": f"s3://{KEY_ID}:{SECRET}@bucket"}, "no credentials"),
    ],
)
def test_a_setting_that_can_not_be_ends_the_start_with_one_sentence(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    environment: dict[str, str],
    said: str,
) -> None:
    for module in ("worker_node", "server_node"):
        monkeypatch.setattr(f"rota.cli.operate.{module}.configure_logging", lambda: None)
    monkeypatch.chdir(tmp_path)
    for name, value in {"ROTA_DATABASE": cluster.database, **environment}.items():
        monkeypatch.setenv(name, value)
    assert run(["serve", "--port", "0", *words]) == 2
    told = capfd.readouterr().err
    assert told.count("\n") == 1
    assert said in told
    assert SECRET not in told


def test_a_store_that_is_away_is_a_503_that_says_try_again(cluster: Cluster) -> None:
    with cluster.client() as client:
        made = client.artifacts.upload(b"there")
    broken = cluster.add_server(
        ROTA_OBJECTS="s3://missing/rota", AWS_ENDPOINT="http://127.0.0.1:9", AWS_ALLOW_HTTP="true", AWS_REGION="x",
        AWS_ACCESS_KEY_ID=KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET,
    )  # fmt: skip
    headers = {"authorization": f"Bearer {cluster.tokens.admin}"}
    url = cluster.urls[-1]
    answer = httpx.post(f"{url}/v1/artifacts", content=b"x", headers=headers, timeout=60, trust_env=False)
    assert problem(answer) == Said(503, "unavailable")
    answer = httpx.get(f"{url}/v1/artifacts/{made.sha256}/content", headers=headers, timeout=60, trust_env=False)
    assert problem(answer) == Said(503, "unavailable")
    assert "objects.away" in broken.log()
    assert KEY_ID not in broken.log()
    assert SECRET not in broken.log()
    broken.stop()
    with cluster.client() as client:
        client.artifacts.remove(made.id)
