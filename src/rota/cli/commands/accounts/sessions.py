"""`rota session`: where users are signed in, and an end to it."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.commands.accounts.role_options import account_name
from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import sign_in_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import account_calls

_User = Annotated[str | None, typer.Option(metavar="NAME", help="Of this user (administrators). (default: your own)")]


def add_to(app: typer.Typer) -> None:
    session = add_group(app, "session", "Show and end sessions of signed-in users.")
    add_command(session, "list", list_sessions, "rota session list", "rota session list --user ann")
    add_command(
        session,
        "revoke",
        revoke,
        "rota session revoke 12",
        "rota session revoke --all",
        "rota session revoke --all --user ann",
    )


def list_sessions(user: _User = None, output_format: Output = Format.TABLE) -> None:
    """List sessions that have not ended, with when and from where each was last used."""
    show(account_calls.sessions(_named(user)), output_format, sign_in_tables.sessions)


def revoke(
    session: Annotated[int | None, typer.Argument(metavar="[ID]", min=1, help="Id of the session.")] = None,
    user: _User = None,
    every: Annotated[
        bool, typer.Option("--all", help="All sessions of the user, but the one of this request.")
    ] = False,
) -> None:
    """End a session, or all of a user: on every server node within two seconds."""
    if every == (session is not None):
        raise checks.wrong("ID", "name one session, or give --all")
    if session is not None:
        if user is not None:
            raise checks.wrong("--user", "an id names the session already; --user goes with --all")
        show(account_calls.end_session(session), Format.TABLE, lambda _: f"session {session} is ended")
        return
    call = account_calls.end_sessions(_named(user))
    show(
        call,
        Format.TABLE,
        lambda answer: f"{answer.ended} {'session is' if answer.ended == 1 else 'sessions are'} ended",
    )


def _named(user: str | None) -> str | None:
    return None if user is None else account_name(user)
