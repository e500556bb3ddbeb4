"""`ctx.checkpoint`: the value a function keeps for its next attempt. Loaded only by children that use it.

state = ctx.checkpoint.load() or {"epoch": 0}
ctx.checkpoint.save(state)      # durable when it returns
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from rota.model import strict_json

# Asks for `save` (with a descriptor to read from) or `load`; the answer is a problem in one sentence, a descriptor or
# None.
Keep = Callable[[str, int | None], tuple[str, int | None]]


class CheckpointError(RuntimeError):
    """The checkpoint could not be stored or fetched; the message says why. The previous one is still there."""


class KeptValue:
    """The value that a task keeps from attempt to attempt; anything a result may be."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep

    def save(self, value: object) -> None:
        """Returns when it is durable: a later attempt of this task finds it, on any node."""
        try:
            encoded = strict_json.encode(value, "the value")
        except strict_json.NotJson as error:
            raise CheckpointError(f"the checkpoint was not stored: {error}") from None
        memory = os.memfd_create("rota-checkpoint", os.MFD_CLOEXEC)
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(encoded)
            trouble, _ = self._keep("save", memory)
        finally:
            os.close(memory)
        if trouble:
            raise CheckpointError(trouble)

    def load(self) -> object:
        """The value saved last, by this or an earlier attempt; None without one."""
        trouble, memory = self._keep("load", None)
        if trouble:
            raise CheckpointError(trouble)
        if memory is None:
            return None
        with open(memory, "rb") as file:
            file.seek(0)
            return msgspec.json.decode(file.read())
