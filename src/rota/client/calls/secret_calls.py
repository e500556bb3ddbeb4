"""Secrets of one's tenant: the calls, their answers, and `client.secrets` in both faces.

A value goes one way, to the server; no call brings one back, and no error and no repr shows one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import quote

import msgspec

from rota.client.calls.task_calls import Answer, Call, get, post, put


class SecretDocument(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: int = 1
    created_by: str = ""
    created_at: str | None = None
    changed_by: str = ""
    changed_at: str | None = None


class SecretList(msgspec.Struct, frozen=True, kw_only=True):
    secrets: list[SecretDocument]


class KeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """A master key by its id. `known`: the server node that answered has it."""

    id: str
    known: bool = True
    secrets: int = 0


class NotRotated(msgspec.Struct, frozen=True, kw_only=True):
    tenant: int
    name: str
    reason: str = ""


class Rotation(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    rewrapped: int
    failed: list[NotRotated] = []
    keys: list[KeyUse] = []


def set_secret(name: str, value: str) -> Call[SecretDocument]:
    return put(f"/v1/secrets/{quote(name, safe='')}", SecretDocument, {"value": value})


def secrets() -> Call[SecretList]:
    return get("/v1/secrets", SecretList)


def remove_secret(name: str) -> Call[None]:
    return Call("DELETE", f"/v1/secrets/{quote(name, safe='')}", lambda _: None)


def rotate() -> Call[Rotation]:
    return post("/v1/secret-keys/rotate", Rotation, repeatable=True)


class Performs(Protocol):
    def perform(self, call: Call[Answer]) -> Answer: ...


class AsyncPerforms(Protocol):
    async def perform(self, call: Call[Answer]) -> Answer: ...


class Secrets:
    """`client.secrets`: set, list, remove."""

    def __init__(self, client: Performs) -> None:
        self._client = client

    def set(self, name: str, value: str) -> SecretDocument:
        """Makes a secret, or gives it a new value for attempts that start from now on."""
        return self._client.perform(set_secret(name, value))

    def list(self) -> Sequence[SecretDocument]:
        """Names, times, who. Never values."""
        return self._client.perform(secrets()).secrets

    def remove(self, name: str) -> None:
        self._client.perform(remove_secret(name))


class AsyncSecrets:
    """`client.secrets` of the awaiting client."""

    def __init__(self, client: AsyncPerforms) -> None:
        self._client = client

    async def set(self, name: str, value: str) -> SecretDocument:
        """Makes a secret, or gives it a new value for attempts that start from now on."""
        return await self._client.perform(set_secret(name, value))

    async def list(self) -> Sequence[SecretDocument]:
        """Names, times, who. Never values."""
        return (await self._client.perform(secrets())).secrets

    async def remove(self, name: str) -> None:
        await self._client.perform(remove_secret(name))
