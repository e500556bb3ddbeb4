"""Secrets of one's tenant: the calls, their answers, and `client.secrets` in both faces.

A value goes one way, to the server; no call brings one back, and no error and no repr shows one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import quote

from rota.client.calls.task_calls import Answer, Call, get, post, put
from rota.model.answers.secrets import Rotation, SecretDocument, SecretList


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
