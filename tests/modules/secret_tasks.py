"""Functions that handle a secret as badly as they can, and say in a digest whether they had it."""

from __future__ import annotations

import hashlib
import os
import sys

from rota import current

NAME = "CANARY"


def digest() -> list[str]:
    value = current().secrets[NAME]
    assert os.environ[NAME] == value
    return [hashlib.sha256(value.encode()).hexdigest(), repr(current())]


def tell() -> dict[str, object]:
    value = os.environ[NAME]
    print(value, file=sys.stderr)
    for letter in value:
        os.write(1, letter.encode())
    return {"plain": value, "inside": f"<{value}>", value: [value]}


def blame() -> None:
    value = os.environ[NAME]
    try:
        {}[value]
    except KeyError as error:
        raise ValueError("x" * 1_990 + value) from error


def abort() -> None:
    print(os.environ[NAME], flush=True)
    os.abort()


def absent() -> bool:
    return NAME not in os.environ and not current().secrets
