"""Artifacts over HTTP: stored once, checked, confined to their tenant, and never half there."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.served import Said, Served, problem, without_instance


def _folder(served: Served) -> Path:
    return served.cluster.folder / "objects"


def _objects(served: Served) -> list[Path]:
    return [path for path in _folder(served).rglob("*") if path.is_file()]


def _object_of(served: Served, sha256: str, tenant: int | None = None) -> Path:
    found = served.ask(
        "select object_key from artifacts where sha256 = $1 and tenant = $2",
        bytes.fromhex(sha256), tenant or served.tenant,
    )  # fmt: skip
    return _folder(served) / found[0][0]


def upload(served: Served, data: bytes | Iterator[bytes], name: str = "", **more: object) -> httpx.Response:
    path = f"/v1/artifacts?name={name}" if name else "/v1/artifacts"
    return served.send("POST", path, data, **more)  # type: ignore[arg-type]


def test_what_was_uploaded_comes_back_byte_for_byte(served: Served) -> None:
    data = os.urandom(9_000_000)  # more than a slice and a part
    sha = hashlib.sha256(data).hexdigest()
    made = upload(served, data, "model.bin")
    assert made.status_code == 201, made.text
    document = made.json()
    assert (document["id"], document["sha256"]) == (f"sha256:{sha}", sha)
    assert (document["size_bytes"], document["name"], document["created_by"]) == (len(data), "model.bin", "member-user")
    assert document["kept_until"] is None
    for reference in (sha, f"sha256:{sha}", sha[:8], f"sha256:{sha[:12]}", sha.upper()):
        assert served.send("GET", f"/v1/artifacts/{reference}").json() == document
    content = served.send("GET", f"/v1/artifacts/{sha}/content")
    assert content.content == data
    assert content.headers["x-content-type-options"] == "nosniff"
    assert content.headers["content-disposition"] == "attachment; filename*=UTF-8''model.bin"


@pytest.mark.parametrize(
    ("asked", "status", "got"),
    [
        ("bytes=0-4", 206, b"01234"),
        ("bytes=5-", 206, b"56789"),
        ("bytes=-3", 206, b"789"),
        ("bytes=-99", 206, b"0123456789"),
        ("bytes=2-999", 206, b"23456789"),
        ("bytes=0-1,4-5", 200, b"0123456789"),
        ("bytes=-", 200, b"0123456789"),
        ("bytes=5-2", 200, b"0123456789"),
        ("lines=1-2", 200, b"0123456789"),
        ("bytes=10-", 416, b""),
        ("bytes=-0", 416, b""),
    ],
)
def test_a_range_gives_that_part_and_nonsense_the_whole(served: Served, asked: str, status: int, got: bytes) -> None:
    sha = upload(served, b"0123456789").json()["sha256"]
    answer = served.send("GET", f"/v1/artifacts/{sha}/content", headers={"range": asked})
    assert answer.status_code == status
    if status == 416:
        assert problem(answer) == Said(416, "range-not-satisfiable")
    else:
        assert answer.content == got
    other = served.send("GET", f"/v1/artifacts/{sha}/content", headers={"range": asked, "if-range": '"something else"'})
    assert (other.status_code, other.content) == (200, b"0123456789")


def test_an_empty_file_is_an_artifact_too(served: Served) -> None:
    made = upload(served, b"").json()
    assert made["size_bytes"] == 0
    assert served.send("GET", f"/v1/artifacts/{made['sha256']}/content").content == b""


def test_the_same_bytes_twice_are_one_artifact_and_one_object(served: Served) -> None:
    data = os.urandom(1000)
    first = upload(served, data, "a")
    before = len(_objects(served))
    again = upload(served, data, "b")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {**first.json(), "name": "b"}
    assert len(_objects(served)) == before
    assert served.ask("select count(*) from loose_objects") == [(0,)]


def test_another_tenants_equal_bytes_are_stored_apart_and_look_unknown(served: Served) -> None:
    data = os.urandom(1000)
    sha = upload(served, data, "canary-name").json()["sha256"]
    unknown = "0" * 64
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        answers = [
            without_instance(served.send(method, f"/v1/artifacts/{one}{path}", token=served.stranger))
            for one in (sha, sha[:8], unknown, "nonsense", "sha256:", "x" * 300)
        ]
        assert answers == [answers[0]] * len(answers)
        assert answers[0][0] == 404
    assert "canary" not in served.send("GET", "/v1/artifacts", token=served.stranger).text
    mine = upload(served, data, token=served.stranger)
    assert mine.status_code == 201, "as new as if nobody had it"
    assert mine.json()["name"] == ""
    assert served.send("DELETE", f"/v1/artifacts/{sha}", token=served.stranger).status_code == 204
    assert served.send("GET", f"/v1/artifacts/{sha}/content").content == data


def test_digests_are_checked_when_they_are_told(served: Served) -> None:
    data = os.urandom(100)
    digest = hashlib.sha256(data).digest()
    before = len(_objects(served))
    standard = base64.b64encode(digest).decode()
    wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
    for headers in (
        {"x-rota-sha256": hashlib.sha256(b"other").hexdigest()},
        {"content-digest": f"sha-512=:AAAA:, sha-256=:{wrong}:"},
    ):
        assert problem(upload(served, data, headers=headers)) == Said(
            422, "checksum-mismatch", (("", "checksum-mismatch"),)
        )
    for headers in (
        {"x-rota-sha256": "12"},
        {"content-digest": "sha-256=:AAAA:"},
        {"x-rota-sha256": digest.hex(), "content-digest": f"sha-256=:{wrong}:"},
    ):
        assert problem(upload(served, data, headers=headers)).slug == "invalid-digest"
    assert len(_objects(served)) == before
    assert served.ask("select count(*) from artifacts where sha256 = $1", digest) == [(0,)]
    right = {"x-rota-sha256": digest.hex(), "content-digest": f"sha-256=:{standard}:"}
    assert upload(served, data, headers=right).status_code == 201


@pytest.mark.parametrize("name", ["a/b", "..", "a%00b", "a%5Cb", "a%0Ab", "x" * 256, "%E2%80%AEgpj.exe"])
def test_a_name_that_is_no_plain_file_name_is_refused(served: Served, name: str) -> None:
    assert problem(upload(served, b"x", name)) == Said(422, "invalid-name", (("/name", "invalid-name"),))


def test_a_packed_body_is_refused_rather_than_stored_as_something_else(served: Served) -> None:
    answer = upload(served, b"x", headers={"content-encoding": "gzip"})
    assert problem(answer) == Said(415, "unsupported-media-type")


def test_pages_go_from_the_newest_to_the_oldest(served: Served) -> None:
    name, _ = served.add_tenant()
    token = served.add_token(name)
    made = [upload(served, os.urandom(10), f"n{number}", token=token).json()["name"] for number in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        page = served.send("GET", "/v1/artifacts?limit=2" + (f"&cursor={cursor}" if cursor else ""), token=token).json()
        seen += [one["name"] for one in page["artifacts"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == made[::-1]
    assert problem(served.send("GET", "/v1/artifacts?cursor=forged")) == Said(400, "invalid-cursor")


def test_a_removed_artifact_is_gone_with_its_object(served: Served) -> None:
    sha = upload(served, os.urandom(100)).json()["sha256"]
    path = _object_of(served, sha)
    assert path.exists()
    assert served.send("DELETE", f"/v1/artifacts/{sha[:10]}").status_code == 204
    assert not path.exists()
    assert problem(served.send("GET", f"/v1/artifacts/{sha}")) == Said(404, "not-found")
    assert served.ask("select count(*) from loose_objects") == [(0,)]


def test_an_artifact_that_a_live_task_names_stays_until_the_task_has_ended(served: Served) -> None:
    sha = upload(served, os.urandom(100)).json()["sha256"]
    task = served.submit(delay="1h")
    served.ask("update tasks set artifacts = array[$2::bytea] where id = $1 returning 1", task, bytes.fromhex(sha))
    refused = served.send("DELETE", f"/v1/artifacts/{sha}")
    assert problem(refused) == Said(409, "artifact-in-use")
    assert str(task) in refused.json()["detail"]
    served.send("POST", f"/v1/tasks/{task}/cancel")
    assert served.send("DELETE", f"/v1/artifacts/{sha}").status_code == 204


def test_a_new_run_of_a_task_names_the_same_artifacts(served: Served) -> None:
    digest = hashlib.sha256(b"named").digest()
    task = served.submit(delay="1h")
    served.ask("update tasks set artifacts = array[$2::bytea] where id = $1 returning 1", task, digest)
    served.send("POST", f"/v1/tasks/{task}/cancel")
    again = served.send("POST", f"/v1/tasks/{task}/retry").json()["id"]
    assert served.ask("select artifacts from tasks where id = $1", again) == [([digest],)]
    served.send("POST", f"/v1/tasks/{again}/cancel")


def test_two_artifacts_that_begin_alike_are_told_apart_by_more_digits(served: Served) -> None:
    for number in (1, 2):
        served.ask(
            """insert into artifacts (tenant, sha256, size_bytes, name, object_key, created_by)
                values ($1, $2, 0, '', $3, 'x') returning 1""",
            served.tenant, bytes.fromhex("abcdef0123" + f"{number:054}"), f"none-{number}",
        )  # fmt: skip
    assert problem(served.send("GET", "/v1/artifacts/abcdef0123")) == Said(409, "ambiguous")
    found = served.send("GET", "/v1/artifacts/abcdef0123" + f"{2:054}")
    assert found.status_code == 200


# ---- damage ---------------------------------------------------------------------------------------------------------


def test_a_damaged_object_is_an_error_and_never_delivered_as_if_whole(served: Served) -> None:
    for size in (1000, 9_000_000):  # refused before the first byte; broken off before the last
        data = os.urandom(size)
        sha = upload(served, data).json()["sha256"]
        path = _object_of(served, sha)
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        try:
            answer = served.send("GET", f"/v1/artifacts/{sha}/content")
        except httpx.RemoteProtocolError:
            assert size > 1000
        else:
            assert problem(answer) == Said(500, "artifact-damaged")
        path.write_bytes(data[:-1])
        assert problem(served.send("GET", f"/v1/artifacts/{sha}/content")) == Said(500, "artifact-damaged")
        path.unlink()
        assert problem(served.send("GET", f"/v1/artifacts/{sha}/content")) == Said(500, "artifact-damaged")
        assert served.send("DELETE", f"/v1/artifacts/{sha}").status_code == 204


def test_a_broken_off_upload_leaves_nothing(served: Served) -> None:
    before = _objects(served)

    def pieces() -> Iterator[bytes]:
        yield bytes(200_000)
        raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        upload(served, pieces())
    # The next request is served after the server has seen the end of the last one, or beside it: look until it has.
    for _ in range(400):
        if served.ask("select count(*) from loose_objects") == [(0,)]:
            break
        served.send("GET", "/healthz")
    assert served.ask("select count(*) from loose_objects") == [(0,)]
    assert _objects(served) == before


# ---- limits ---------------------------------------------------------------------------------------------------------


def test_a_plans_storage_is_a_limit_on_all_of_a_tenants_artifacts_together(served: Served) -> None:
    name, _ = served.add_tenant("free")
    token = served.add_token(name)
    changed = served.send("PATCH", "/v1/plans/free", {"storage": "1K"}, token=served.cluster.tokens.admin)
    assert changed.json()["storage_bytes"] == 1000
    try:
        first = upload(served, bytes(600), token=token)
        assert first.status_code == 201
        for body in (b"a" * 600, (b"b" * 300 for _ in range(2))):  # with and without a declared length
            refused = upload(served, body, token=token)
            assert problem(refused) == Said(429, "quota-exceeded")
            assert (refused.json()["limit"], refused.json()["used_bytes"]) == ("storage", 600)
        used = served.send("GET", "/v1/me", token=token).json()["usage"]
        assert used["storage_bytes"] == 600
        assert upload(served, b"c" * 400, token=token).status_code == 201
        served.send("DELETE", f"/v1/artifacts/{first.json()['sha256']}", token=token)
        assert upload(served, b"d" * 600, token=token).status_code == 201
    finally:
        served.send("PATCH", "/v1/plans/free", {"storage": "1G"}, token=served.cluster.tokens.admin)
