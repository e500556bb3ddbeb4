"""Reads the SQL files. Each holds one statement, written as one would show it to a database administrator."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def sql(name: str) -> str:
    return resources.files("rota.store").joinpath("sql", f"{name}.sql").read_text()
