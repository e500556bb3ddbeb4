"""Reads what a form sends, and shows a form again with what was wrong beside its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request, Response

from rota.api.requests import read_body
from rota.model.errors import Problem
from rota.ui.pages import page

LONGEST = 16 * 1024
MOST_FIELDS = 20


async def read_form(request: Request) -> dict[str, str]:
    """Its fields; the last one of each name. What is missing is empty: `field` says so."""
    body = await read_body(request, limit=LONGEST, media="application/x-www-form-urlencoded")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:  # too many fields, or no UTF-8
        raise Problem("bad-request", status=400, title="Bad request", detail="this is not a form of Rota") from None
    return {name: text.replace("\0", "") for name, text in pairs}


def again(request: Request, template: str, problem: Problem, **values: Any) -> Response:
    """The form with the refusal: beside the fields that it names, else above the form."""
    beside = {fault.pointer.removeprefix("/"): fault.detail for fault in problem.faults}
    above = "" if beside else problem.detail
    shown = page(request, template, status=problem.status, faults=beside, above=above, **values)
    if problem.retry_after_seconds is not None:
        shown.headers["retry-after"] = str(max(1, round(problem.retry_after_seconds)))
    return shown


def blank() -> Mapping[str, Any]:
    """A form that nothing is wrong with yet."""
    return {"faults": {}, "above": ""}
