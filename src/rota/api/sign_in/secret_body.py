"""Reads a body that holds a secret: a refusal names the fault, and never repeats what came."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from fastapi import Request

from rota.api.requests import read_json
from rota.model.errors import Fault, Problem

LONGEST = 8 * 1024

T = TypeVar("T", bound="Secretive")


class Secretive(msgspec.Struct, forbid_unknown_fields=True):
    """A body with a secret: it does not show what it holds."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


async def read_secretly(request: Request, kind: type[T]) -> T:
    try:
        return await read_json(request, kind, limit=LONGEST)
    except Problem as problem:
        if problem.status not in (400, 422):
            raise
        fields = ", ".join(f'"{name}": "…"' for name in kind.__struct_fields__)
        detail = f"the body must be {{{fields}}}, all texts; what came is not repeated here"
        faults = tuple(Fault(_known(fault.pointer, kind), fault.code, detail) for fault in problem.faults[:1])
        raise Problem(problem.slug, status=problem.status, title=problem.title, detail=detail, faults=faults) from None


def _known(pointer: str, kind: type[msgspec.Struct]) -> str:
    return pointer if pointer.removeprefix("/") in kind.__struct_fields__ else ""
