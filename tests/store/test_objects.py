"""The object store's one door, on a folder, in memory and on real servers that speak S3."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rota.model.errors import Problem
from rota.settings import SettingsError
from rota.store.objects import PART_BYTES, SLICE_BYTES, ObjectMissing, ObjectStore, open_objects
from tests.capabilities import exercised
from tests.harness.cluster import free_port
from tests.harness.s3 import moto_server, rclone_server

KEY_ID, SECRET = "canary-key-id-0123", "canary-secret-4567"


def on_s3(url: str, *, secret: str = SECRET, bucket: str = "bucket") -> ObjectStore:
    options = {
        "endpoint": url, "allow_http": "true", "region": "us-east-1", "access_key_id": KEY_ID,
        "secret_access_key": secret,
    }  # fmt: skip
    return open_objects(f"s3://{bucket}/some/prefix", options)


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with moto_server(tmp_path_factory.mktemp("moto")) as url:
        yield url


@pytest.fixture(params=["folder", "memory", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "folder":
        return open_objects(str(tmp_path / "objects"))
    if request.param == "memory":
        return open_objects("memory://")
    return on_s3(request.getfixturevalue("moto"))


async def pieces(*data: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece
        await asyncio.sleep(0)
    if then is not None:
        raise then


async def whole(objects: ObjectStore, key: str, start: int, end: int, size: int | None = None) -> bytes:
    parts = objects.read(key, start=start, end=end, size_bytes=end if size is None else size)
    return b"".join([part async for part in parts])


async def test_what_was_put_is_read_in_parts_and_listed_and_deleted(
    objects: ObjectStore, request: pytest.FixtureRequest
) -> None:
    data = os.urandom(PART_BYTES + SLICE_BYTES + 12345)  # more than a part up, more than a slice down
    await objects.put("a/b/one", pieces(data[:100], b"", data[100:]))
    await objects.put("a/two", pieces(b"2"))
    await objects.put("empty", pieces())
    assert await whole(objects, "a/b/one", 0, len(data)) == data
    assert await whole(objects, "a/b/one", 99, SLICE_BYTES + 101, len(data)) == data[99 : SLICE_BYTES + 101]
    assert await whole(objects, "empty", 0, 0) == b""
    assert (await objects.head("a/b/one")).size_bytes == len(data)
    assert (await objects.head("empty")).size_bytes == 0
    listed = {facts.key: facts.size_bytes async for facts in objects.below("a")}
    assert listed == {"a/b/one": len(data), "a/two": 1}
    for key in ("a/b/one", "a/b/one", "a/two", "empty"):
        await objects.delete(key)
    assert [facts async for facts in objects.below("a")] == []
    with pytest.raises(ObjectMissing):
        await objects.head("a/two")
    with pytest.raises(ObjectMissing):
        await whole(objects, "a/two", 0, 1)
    if request.node.callspec.params["objects"] == "s3":
        exercised("object-store")


async def test_a_put_whose_source_breaks_off_leaves_nothing_and_says_why(objects: ObjectStore) -> None:
    for trouble in (
        KeyError("mine"),
        OSError("mine"),
        TimeoutError("mine"),
        Problem("x", status=413, title="", detail=""),
    ):
        with pytest.raises(type(trouble)) as raised:
            await objects.put("half", pieces(os.urandom(PART_BYTES * 2), then=trouble))
        assert raised.value is trouble
        with pytest.raises(ObjectMissing):
            await objects.head("half")
    assert [facts async for facts in objects.below("half")] == []


async def test_a_part_left_by_a_dead_process_goes_with_its_key(tmp_path: Path) -> None:
    objects = open_objects(f"file://{tmp_path}/objects")
    await objects.put("a/key", pieces(b"x"))
    (tmp_path / "objects/a/key#1").write_bytes(b"half")
    (tmp_path / "objects/a/keyring").write_bytes(b"another's")
    assert [facts.key async for facts in objects.below("a")] == ["a/key", "a/keyring"]
    await objects.delete("a/key")
    assert [path.name for path in (tmp_path / "objects/a").iterdir()] == ["keyring"]


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("ftp://host/x", {}, "ftp:// is not known"),
        ("s3://key:canary@bucket", {}, "no credentials"),
        ("s3://bucket?secret=canary", {}, "no credentials"),
        ("s3://bucket", {"nonsense": "canary"}, "nonsense"),
        ("az://container", {}, "Account"),
        ("gs://bucket", {"service_account_key": "canary-key"}, "service account"),
        ("/dev/null/objects", {}, "/dev/null"),
    ],
)
def test_a_setting_that_can_not_be_is_said_without_its_secrets(url: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        open_objects(url, options)
    assert "canary" not in str(refused.value)


async def test_trouble_is_a_503_that_names_neither_place_nor_secret(moto: str, tmp_path: Path) -> None:
    with rclone_server(tmp_path, access_key_id=KEY_ID, secret_access_key=SECRET) as rclone:
        right = on_s3(rclone)
        await right.put("mine", pieces(b"x" * 100))
        assert await whole(right, "mine", 0, 100) == b"x" * 100
        stores = {
            "a wrong key": on_s3(rclone, secret="canary-secret-wrong"),
            "nobody there": on_s3(f"http://127.0.0.1:{free_port()}"),
            "no such bucket": on_s3(moto, bucket="missing"),
        }
        for what, store in stores.items():
            with capture_logs() as logs, pytest.raises(Problem) as refused:
                await store.put("other", pieces(b"y"))
            assert (refused.value.status, refused.value.slug) == (503, "unavailable"), what
            said = f"{refused.value.detail} {logs}"
            assert logs, what
            assert "canary" not in said
            assert refused.value.__cause__ is None
            assert "127.0.0.1" not in refused.value.detail
        assert await whole(right, "mine", 0, 100) == b"x" * 100
