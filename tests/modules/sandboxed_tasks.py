"""A function that tells what it can see from where it runs."""

from __future__ import annotations

import os

_calls: list[str] = []


def look(word: str) -> dict[str, object]:
    _calls.append(word)
    return {"user": os.getuid(), "calls": list(_calls), "token": "ROTA_TOKEN" in os.environ}
