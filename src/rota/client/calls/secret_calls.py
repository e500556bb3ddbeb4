"""The requests about a tenant's secrets. A value is only ever sent: no answer, error or repr contains one."""

from __future__ import annotations

from rota.client.calls.call import Call, delete, get, post, put, segment
from rota.model.answers.secrets import Rotation, SecretDocument, SecretList


def set_secret(name: str, value: str) -> Call[SecretDocument]:
    return put(f"/v1/secrets/{segment(name)}", SecretDocument, {"value": value})


def secrets() -> Call[SecretList]:
    return get("/v1/secrets", SecretList)


def remove_secret(name: str) -> Call[None]:
    return delete(f"/v1/secrets/{segment(name)}")


def rotate() -> Call[Rotation]:
    return post("/v1/master-keys/rotate", Rotation, repeatable=True)
