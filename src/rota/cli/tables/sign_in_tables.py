"""Tables about signing in: invitations, sessions and rules."""

from __future__ import annotations

from datetime import UTC, datetime

from rota.cli.tables.render import NOTHING, ago, exact, facts, table
from rota.model.answers import sign_in as documents


def invitation(one: documents.InvitationDocument) -> str:
    until = f", until {exact(one.ends_at)}" if one.ends_at else ""
    return f"{one.user} sets a password with this link, once{until}:\n{one.link}"


def sessions(answer: documents.SessionList) -> str:
    now = datetime.now(UTC)
    rows = [
        (
            str(one.id),
            one.tenant,
            one.via,
            ago(one.created_at, now),
            ago(one.seen_at, now),
            ago(one.ends_at, now),
            one.address or NOTHING,
            one.agent or NOTHING,
        )
        for one in answer.sessions
    ]
    columns = ("ID>", "TENANT", "BY", "BEGAN>", "USED>", "ENDS>", "FROM", "WITH~")
    return table(columns, rows, empty=f"no sessions of {answer.user}")


def rules(answer: documents.SignInRules) -> str:
    return facts((("second factor for", ", ".join(answer.second_factor_roles) or "nobody; it is each user's choice"),))
