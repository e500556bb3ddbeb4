"""Expected errors: a `Fault` for each thing that is wrong with an input, a `Problem` for an answer.

A problem becomes an RFC 9457 document over HTTP and one sentence in the CLI. Slugs are stable: clients match them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rota.model.audit import ActorKind

MOST_DETAIL = 450  # characters of a sentence with several faults; each is in `errors` too


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with an input: its JSON pointer, a code, and what would be right."""

    pointer: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Presented:
    """A credential that opens nothing, perhaps because it has ended. Never its text."""

    kind: str  # token or session
    secret_hash: bytes = field(repr=False)
    public_id: str = ""


@dataclass(frozen=True, slots=True)
class Stranger:
    """A known caller who named a tenant that is not to be seen by them."""

    kind: ActorKind
    name: str
    credential: str
    tenant_id: int  # their own
    asked: str


class Problem(Exception):
    """A refusal. `status` is the HTTP status, `slug` the last part of the problem's type."""

    def __init__(
        self,
        slug: str,
        *,
        status: int,
        title: str,
        detail: str,
        faults: tuple[Fault, ...] = (),
        retry_after_seconds: float | None = None,
        extra: dict[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.slug = slug
        self.status = status
        self.title = title
        self.detail = detail
        self.faults = faults
        self.retry_after_seconds = retry_after_seconds
        self.extra = extra or {}
        self.denied: Presented | Stranger | None = None  # for the audit log: whom it refuses, if no caller is known


def invalid(faults: list[Fault]) -> Problem:
    """422: the body parses but has faults. The first fault's code is the slug."""
    return Problem(
        faults[0].code,
        status=422,
        title="The request is not valid",
        detail=_together([f"{fault.pointer}: {fault.detail}" if fault.pointer else fault.detail for fault in faults]),
        faults=tuple(faults),
    )


def _together(sentences: list[str]) -> str:
    """All of them, as far as they are short enough for one line; the others are counted."""
    shown = sentences[:1]
    for sentence in sentences[1:]:
        if sum(map(len, shown)) + len(sentence) > MOST_DETAIL:
            break
        shown.append(sentence)
    more = len(sentences) - len(shown)
    return "; ".join([*shown, f"and {more} more"] if more else shown)


def not_found(what: str = "task", number: int | None = None) -> Problem:
    """One answer for an unknown id, a malformed id and another tenant's: it must not tell them apart."""
    detail = f"there is no such {what}" if number is None else f"there is no {what} {number}"
    return Problem("not-found", status=404, title="Not found", detail=detail)


def conflict(slug: str, detail: str, extra: dict[str, object] | None = None) -> Problem:
    return Problem(slug, status=409, title="Conflict", detail=detail, extra=extra)


def unavailable(detail: str, retry_after_seconds: float = 1.0) -> Problem:
    return Problem(
        "unavailable",
        status=503,
        title="Not available right now",
        detail=detail,
        retry_after_seconds=retry_after_seconds,
    )


@dataclass(frozen=True, slots=True)
class FaultList:
    """Collects faults below one JSON pointer."""

    pointer: str = ""
    faults: list[Fault] = field(default_factory=list)

    def add(self, name: str, code: str, detail: str) -> None:
        self.faults.append(Fault(f"{self.pointer}/{name}" if name else self.pointer, code, detail))

    def check(self, most: int | None = None) -> None:
        """Raises `invalid` with the first faults, if there are any."""
        if self.faults:
            raise invalid(self.faults[:most])
