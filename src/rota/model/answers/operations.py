"""Operations: previewed, started, followed, stopped."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rota.model.answers.fields import Time


class OperationPreview(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks an operation would change at the time `at`, by state, with the ids of the newest.

    `or_more`: the count stopped at its bound.
    """

    verb: str
    count: int
    or_more: bool = False
    states: dict[str, int] = {}
    ids: list[int] = []
    at: Time


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks that an operation could not change, for one reason: how many, and the first ids."""

    reason: str
    count: int
    ids: list[int] = []


class OperationDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. Of the tasks it `matched` so far, `changed` are changed, `ended` had ended before their turn.

    `state`: running, done, stopped (by a user) or failed (`trouble` says why). `expected`: how many matched when
    it began; `or_more`: that count stopped at its bound. `where`: the filter; its times are moments.
    """

    id: int
    verb: str
    state: str
    user: str = ""
    where: dict[str, str | int] = {}
    changes: dict[str, str | int | float] = {}
    expected: int = 0
    or_more: bool = False
    matched: int = 0
    changed: int = 0
    ended: int = 0
    refused: int = 0
    refusals: list[Refusal] = []
    trouble: str | None = None
    created_at: Time
    ended_at: Time | None = None

    @property
    def over(self) -> bool:
        return self.state != "running"


class OperationPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, newest first. `next` is the cursor of the next page, null on the last."""

    operations: list[OperationDocument]
    next: str | None = None

    def __iter__(self) -> Iterator[OperationDocument]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)
