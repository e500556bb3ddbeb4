# Generated from ../_async by scripts/unasync; edit that.
"""`client.secrets`: set, list and remove a tenant's secrets."""

from __future__ import annotations

from collections.abc import Sequence

from rota.client._sync.sender import Part
from rota.client.calls import secret_calls
from rota.model.answers.secrets import SecretDocument


class Secrets(Part):
    """`client.secrets`: set, list, remove."""

    def set(self, name: str, value: str) -> SecretDocument:
        """Sets the value of a secret, for attempts that start from now on."""
        return self._client.perform(secret_calls.set_secret(name, value))

    def list(self) -> Sequence[SecretDocument]:
        """The secrets' names, times and users, never their values."""
        return self._client.perform(secret_calls.secrets()).secrets

    def remove(self, name: str) -> None:
        self._client.perform(secret_calls.remove_secret(name))
