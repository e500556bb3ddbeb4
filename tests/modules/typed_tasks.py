"""Functions whose arguments and results are more than JSON, for tests. Annotations are text here, as in most code."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

from rota import task

if TYPE_CHECKING:
    from somewhere import Unknown


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Order:
    number: UUID
    due: date
    price: Decimal
    parts: tuple[int, ...] = ()
    parent: Order | None = None


@task
def later(order: Order, by: timedelta, colours: set[Colour], *stamps: datetime, **notes: bytes) -> list[Order]:
    assert all(isinstance(stamp, datetime) for stamp in stamps)
    assert all(isinstance(note, bytes) for note in notes.values())
    assert colours == {Colour.RED}
    return [order, Order(order.number, order.due + by, order.price * 2, (1, 2), order)]


@task
def echo(value: dict[int, date]) -> dict[str, date]:
    assert all(isinstance(key, int) and isinstance(day, date) for key, day in value.items())
    return {str(key): day for key, day in value.items()}


@task
def unknown(value: Unknown, plain: list) -> object:
    return [value, plain]
