"""`client.secrets`: set, list and remove a tenant's secrets."""

from __future__ import annotations

from collections.abc import Sequence

from rota.client._async.sender import AsyncPart
from rota.client.calls import secret_calls
from rota.model.answers.secrets import SecretDocument


class AsyncSecrets(AsyncPart):
    """`client.secrets`: set, list, remove."""

    async def set(self, name: str, value: str) -> SecretDocument:
        """Sets the value of a secret, for attempts that start from now on."""
        return await self._client.perform(secret_calls.set_secret(name, value))

    async def list(self) -> Sequence[SecretDocument]:
        """The secrets' names, times and users, never their values."""
        return (await self._client.perform(secret_calls.secrets())).secrets

    async def remove(self, name: str) -> None:
        await self._client.perform(secret_calls.remove_secret(name))
