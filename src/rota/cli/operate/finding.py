"""One line of `rota doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    state: Literal["ok", "missing", "broken"]
    detail: str
    remedy: str = ""
