"""Findings of `rota doctor` about a database, whoever examined it: this process, or a server that is asked."""

from __future__ import annotations

from rota.cli.operate.finding import Finding
from rota.model.answers.cluster import DatabaseCheck

OLDEST = 15


def findings_of(seen: DatabaseCheck) -> list[Finding]:
    """PostgreSQL's version, the schema, and tasks that nothing will ever move again. There must be none of these."""
    version = f"PostgreSQL {seen.postgresql}"
    found = [
        _judged("database", version, is_good=seen.postgresql >= OLDEST, remedy=f"PostgreSQL {OLDEST} or newer"),
        _judged("schema", f"version {seen.schema}", is_good=seen.is_current, remedy="rota db upgrade"),
    ]
    if seen.unverified_hosts:
        remedy = "append sslmode=verify-full to the database's URL"
        detail = f"{', '.join(seen.unverified_hosts)}: nobody checks that it is the database, or that it encrypts"
        found.append(Finding("link to database", "missing", detail, remedy))
    if seen.stuck is not None:
        found.append(_judged("stuck tasks", _stuck(seen.stuck), is_good=not seen.stuck, remedy="please report"))
    return found


def _stuck(ids: list[int]) -> str:
    if not ids:
        return "none: the watchdog query found no task that nothing will ever move"
    shown = ", ".join(map(str, ids[:10])) + (", …" if len(ids) > 10 else "")
    return f"{len(ids)} found: {shown}"


def _judged(what: str, detail: str, *, is_good: bool, remedy: str) -> Finding:
    return Finding(what, "ok", detail) if is_good else Finding(what, "broken", detail, remedy)
