"""/v1/secrets: what it takes, what it refuses, and that a value never comes back, not even in a refusal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.store.envelope import new_key_text
from tests.api.served import Said, Served, problem
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

CANARY = "canary-value-that-is-never-repeated"
OLD, NEW = (new_key_text(lambda size, letter=letter: letter * size) for letter in (b"o", b"n"))


def _write(path: Path, *keys: str) -> None:
    """As an operator would: a whole new file, closed to others, in the old one's place."""
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(keys) + "\n")
    fresh.chmod(0o600)
    fresh.rename(path)


def test_a_secret_is_set_listed_changed_and_removed(served: Served) -> None:
    token = served.add_token(served.add_tenant()[0])
    made = served.send("PUT", "/v1/secrets/API_KEY", {"value": CANARY}, token=token)
    assert (made.status_code, made.json()["version"]) == (201, 1)
    changed = served.send("PUT", "/v1/secrets/API_KEY", {"value": CANARY + "2"}, token=token)
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    listed = served.send("GET", "/v1/secrets", token=token)
    (document,) = listed.json()["secrets"]
    assert set(document) == {"name", "version", "created_by", "created_at", "changed_by", "changed_at"}
    assert (document["name"], document["changed_by"]) == ("API_KEY", "member-user")
    assert served.send("DELETE", "/v1/secrets/API_KEY", token=token).status_code == 204
    assert problem(served.send("DELETE", "/v1/secrets/API_KEY", token=token)) == Said(404, "not-found")
    assert CANARY not in made.text + changed.text + listed.text


def test_another_tenants_secrets_are_as_unknown_as_none(served: Served) -> None:
    served.send("PUT", "/v1/secrets/OURS", {"value": CANARY})
    assert "OURS" not in served.send("GET", "/v1/secrets", token=served.stranger).text
    assert problem(served.send("DELETE", "/v1/secrets/OURS", token=served.stranger)) == Said(404, "not-found")
    refused = served.send("POST", "/v1/tasks", {"command": ["true"], "secrets": ["OURS"]}, token=served.stranger)
    assert problem(refused) == Said(422, "unknown-secret", (("/secrets/0", "unknown-secret"),))
    assert served.send("POST", "/v1/tasks", {"command": ["true"], "secrets": ["OURS"]}).status_code == 201


@pytest.mark.parametrize(
    "name", ["1ST", "WITH-DASH", "é", "ROTA_TASK_ID", "LD_PRELOAD", "PATH", "HOME", "x" * 129, "a%20b"]
)
def test_a_name_must_be_a_free_variables_name(served: Served, name: str) -> None:
    refused = served.send("PUT", f"/v1/secrets/{name}", {"value": CANARY})
    assert problem(refused) == Said(422, "invalid-name", (("/name", "invalid-name"),))
    assert CANARY not in refused.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (json.dumps({"value": [CANARY]}), (422, "invalid-type")),
        (json.dumps({"value": {CANARY: 1}}), (422, "invalid-type")),
        (json.dumps({"valeu": CANARY}), (422, "unknown-field")),
        (json.dumps({"value": "x", CANARY: 1}), (422, "unknown-field")),
        (json.dumps(CANARY), (422, "invalid-type")),
        (f'{{"value": "{CANARY}', (400, "malformed-json")),
        (f'{{"value": 1, "{CANARY}": 1, "{CANARY}": 2}}', (400, "malformed-json")),
        (json.dumps({"value": CANARY + "\0"}), (422, "invalid-character")),
        (json.dumps({"value": ""}), (422, "out-of-range")),
        (json.dumps({"value": CANARY * 2000}), (422, "out-of-range")),
        (json.dumps({"value": CANARY * 50_000}), (413, "payload-too-large")),
        ("", (400, "malformed-json")),
    ],
)  # fmt: skip
def test_a_refused_value_is_not_repeated(served: Served, body: str, said: tuple[int, str]) -> None:
    refused = served.send("PUT", "/v1/secrets/TOKEN", body.encode())
    found = problem(refused)
    assert (found.status, found.slug) == said
    assert CANARY not in refused.text
    assert CANARY not in served.cluster.servers[0].log()


def test_the_largest_value_is_taken(served: Served) -> None:
    assert served.send("PUT", "/v1/secrets/LARGE", {"value": "é" * (32 * 1024)}).status_code in (200, 201)
    refused = served.send("PUT", "/v1/secrets/LARGE", {"value": "é" * (32 * 1024) + "x"})
    assert "1 to 65536 bytes, not 65537" in refused.json()["detail"]


def test_a_secret_and_an_artifact_that_are_missing_are_named_together(served: Served) -> None:
    task = {"command": ["true"], "secrets": ["NEVER_SET"], "archive": "sha256:" + "0" * 64}
    refused = served.send("POST", "/v1/tasks", task)
    assert problem(refused).faults == (("/archive", "unknown-artifact"), ("/secrets/0", "unknown-secret"))


@pytest.mark.parametrize(
    ("task", "fault"),
    [
        ({"secrets": ["NEVER_SET"]}, ("/secrets/0", "unknown-secret")),
        ({"secrets": ["bad name"]}, ("/secrets/0", "invalid-name")),
        ({"secrets": ["ROTA_TASK_ID"]}, ("/secrets/0", "invalid-name")),
        ({"secrets": ["TOKEN"], "env": {"TOKEN": "x"}}, ("/secrets/0", "reserved-env")),
        ({"secrets": [f"S{n}" for n in range(17)]}, ("/secrets", "out-of-range")),
        ({"secrets": "TOKEN"}, ("/secrets", "invalid-type")),
    ],
)
def test_a_task_names_secrets_that_exist(served: Served, task: dict[str, object], fault: tuple[str, str]) -> None:
    before = served.stored()
    refused = served.send("POST", "/v1/tasks", {"command": ["true"], **task})
    assert problem(refused) == Said(422, fault[1], (fault,))
    assert served.stored() == before


def test_a_batch_names_each_missing_secret_where_it_was_first_asked_for(served: Served) -> None:
    served.send("PUT", "/v1/secrets/THERE", {"value": CANARY})
    tasks = [
        {"command": ["true"], "secrets": names} for names in ([], ["THERE"], ["GONE_A", "THERE"], ["GONE_A", "GONE_B"])
    ]
    refused = served.send("POST", "/v1/tasks/batch", {"tasks": tasks})
    assert problem(refused).faults == (
        ("/tasks/2/secrets/0", "unknown-secret"),
        ("/tasks/3/secrets/1", "unknown-secret"),
    )
    assert "GONE_B" in refused.text


def test_a_task_is_stored_with_names_first_and_shown_with_them(served: Served) -> None:
    served.send("PUT", "/v1/secrets/SHOWN", {"value": CANARY})
    task = served.submit(secrets=["SHOWN", "SHOWN"], env={"A": "b"})
    assert served.send("GET", f"/v1/tasks/{task}").json()["spec"]["secrets"] == ["SHOWN"]
    ((spec,),) = served.ask("select spec::text from tasks where id = $1", task)
    assert spec.startswith('{"secrets":["SHOWN"]')


# ---- nodes of their own: without a key, and with keys that change --------------------------------------------------


@pytest.fixture(scope="module")
def keyless(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """The first server node has no keys, the second has a file; nothing runs."""
    folder = tmp_path_factory.mktemp("keyless")
    with Cluster(postgres.create(), folder) as running:
        _write(running.secrets_key, OLD)
        running.add_server(ROTA_SECRETS_KEY_FILE="")
        running.add_server()
        yield Served.on(running), running.secrets_key


def test_without_a_key_secret_routes_say_which_setting_is_missing_and_the_rest_works(
    keyless: tuple[Served, Path],
) -> None:
    served, _ = keyless
    for method, path in (("PUT", "/v1/secrets/A"), ("GET", "/v1/secrets"), ("DELETE", "/v1/secrets/A")):
        refused = served.send(method, path, {"value": CANARY} if method == "PUT" else None)
        assert problem(refused) == Said(503, "secrets-unavailable")
        assert "secrets_key" in refused.json()["detail"]
        assert "ROTA_SECRETS_KEY_FILE" in refused.json()["detail"]
    rotate = served.send("POST", "/v1/master-keys/rotate", token=served.tokens["admin"])
    assert problem(rotate) == Said(503, "secrets-unavailable")
    assert served.submit() > 0


def test_a_rotation_lets_the_old_key_go_without_a_restart(keyless: tuple[Served, Path]) -> None:
    served, keys = keyless
    there = served.cluster.urls[1]
    admin = served.tokens["admin"]
    for number in range(3):
        assert served.send("PUT", f"{there}/v1/secrets/S{number}", {"value": CANARY}).status_code == 201
    _write(keys, NEW, OLD)
    first = served.send("POST", f"{there}/v1/master-keys/rotate", token=admin).json()
    assert (first["rewrapped"], first["failed"]) == (3, [])
    assert [(key["known"], key["secrets"]) for key in first["keys"]] == [(True, 3), (True, 0)]
    again = served.send("POST", f"{there}/v1/master-keys/rotate", token=admin).json()
    assert (again["rewrapped"], again["key"]) == (0, first["key"])
    _write(keys, NEW)
    assert served.send("PUT", f"{there}/v1/secrets/S3", {"value": CANARY}).status_code == 201
    lost = new_key_text(os.urandom)
    _write(keys, lost)
    last = served.send("POST", f"{there}/v1/master-keys/rotate", token=admin).json()
    assert last["rewrapped"] == 0
    assert [fault["name"] for fault in last["failed"]] == ["S0", "S1", "S2", "S3"]
    assert CANARY not in json.dumps([first, again, last])
    assert CANARY not in "".join(server.log() for server in served.cluster.servers)
