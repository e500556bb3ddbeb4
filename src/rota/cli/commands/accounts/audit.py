"""`rota audit`: who did what, whether somebody changed what was written of it, and the log as a file."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec
import typer

from rota.cli.shell import checks, output
from rota.cli.shell.connection import FOLLOW_RETRY_SECONDS, connect, show
from rota.cli.shell.output import Format, Output
from rota.cli.shell.shared_options import takes
from rota.cli.shell.terminal import escape
from rota.cli.tables import audit_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import audit_calls
from rota.client.transport.audit_reader import AuditReader
from rota.model.answers.audit import AuditEntryPage, AuditVerification

MOST_EMPTY_PAGES = 200  # the server searches a bounded number of rows for a page, so one can be empty
OUTCOMES = ("done", "denied", "failed")


class _Kind(enum.StrEnum):
    JSONL = "jsonl"
    CSV = "csv"


def add_to(app: typer.Typer) -> None:
    audit = add_group(app, "audit", "Show who did what, check that nobody changed it, and export it.")
    add_command(
        audit,
        "list",
        list_entries,
        "rota audit list",
        "rota audit list --since 1d --by ann",
        "rota audit list --object task:12",
        "rota audit list --action task.cancel --tenant acme",
        "rota audit list --outcome denied --since 1h",
    )
    add_command(audit, "show", show_entry, "rota audit show 4711")
    add_command(
        audit,
        "verify",
        verify,
        "rota audit verify",
        "rota audit verify --since 30d",
        "rota audit verify --head 812:9f…",
    )
    add_command(
        audit,
        "export",
        export,
        "rota audit export > audit.jsonl",
        "rota audit export --format csv --since 2030-01-01T00:00:00Z > audit.csv",
    )


def audit_filters(
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Since then: 1d ago, or a time.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before then: 1d ago, or a time.")] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="By this user, service account, node or task.")
    ] = None,
    action: Annotated[
        str | None, typer.Option(metavar="WORD", help="Actions that begin so: task.cancel, or token.")
    ] = None,
    object_: Annotated[
        str | None, typer.Option("--object", metavar="KIND:ID", help="About this object, as task:12; or all of a KIND.")
    ] = None,
    outcome: Annotated[str | None, typer.Option(help="done, denied or failed.")] = None,
    credential: Annotated[
        str | None, typer.Option(metavar="TEXT", help="By this credential, as 'token ci-7' or 'session 12'.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--from", metavar="ADDRESS", help="From this address or network.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of this tenant, for those who may read the log everywhere.")
    ] = None,
) -> dict[str, str | None]:
    return {
        "since": checks.since("--since", since),
        "until": checks.since("--until", until),
        "actor": by,
        "action": action,
        "object": object_,
        "outcome": checks.one_of("--outcome", outcome, OUTCOMES),
        "credential": credential,
        "address": address,
        "tenant": tenant,
    }


@takes("filters", audit_filters)
def list_entries(
    *,
    filters: dict[str, str | None],
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Length of a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, as printed below the last one.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """List who did what, newest first.

    Administrators of a tenant see its rows; those who may read the log everywhere see all rows, or with --tenant
    those of one tenant.
    """
    with connect() as client:
        for _ in range(MOST_EMPTY_PAGES):
            body = client.exchange(audit_calls.entries(filters, limit=limit, cursor=cursor))
            found = msgspec.json.decode(body, type=AuditEntryPage)
            if found.entries or found.next is None or output_format is Format.JSON:
                break
            cursor = found.next
    output.result(output_format, body, lambda: audit_tables.page(found))


def show_entry(
    number: Annotated[int, typer.Argument(metavar="ID", min=1, help="Id of the row, as rota audit list shows it.")],
    output_format: Output = Format.TABLE,
) -> None:
    """Show one row, with what changed: - before, + after."""
    show(audit_calls.entry(number), output_format, audit_tables.entry)


def verify(
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only the days since then.")] = None,
    head: Annotated[
        str | None,
        typer.Option(metavar="NUMBER:HASH", help="A head that was written down: it must still be in the chain."),
    ] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Compare the log with its seals. Exit 1 if something does not fit.

    Finds rows that were changed, removed or added later, and breaks of the chain. Removing the newest rows together
    with their seals is found only with a --head that was written down elsewhere.
    """
    parts: list[AuditVerification] = []
    after: int | None = None
    since = checks.since("--since", since)
    with connect(FOLLOW_RETRY_SECONDS) as client:
        while not parts or after is not None:
            call = audit_calls.verify(since=since if not parts else None, after=after, head=head if not parts else None)
            parts.append(client.perform(call))
            after = parts[-1].next
    whole = audit_tables.together(parts)
    output.result(output_format, msgspec.json.encode(whole), lambda: audit_tables.verified(whole))
    if whole.findings:
        raise typer.Exit(1)


@takes("filters", audit_filters)
def export(
    *,
    filters: dict[str, str | None],
    kind: Annotated[_Kind, typer.Option("--format", help="jsonl, or csv with a heading.")] = _Kind.JSONL,
) -> None:
    """Write rows to standard output, oldest first, until now.

    Ends with the head of the chain on standard error: write it down elsewhere, and give it to rota audit verify.
    """
    reader = AuditReader(filters, csv=kind is _Kind.CSV)
    rows = 0
    with connect(FOLLOW_RETRY_SECONDS) as client:
        head = client.perform(audit_calls.entries({}, limit=1)).head
        for line in client.audit_lines(reader):
            output.document(line.encode()) if kind is _Kind.JSONL else output.say(escape(line))
            rows += 1
    rows -= kind is _Kind.CSV
    output.note(f"{rows:,} rows" + (f"; head {head}" if head else ""))
