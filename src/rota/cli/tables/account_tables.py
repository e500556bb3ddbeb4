"""Tables of accounts: users, service accounts, tokens, and who the caller is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rota.cli.tables.render import NOTHING, ago, exact, facts, table
from rota.model.answers import accounts as documents
from rota.model.answers import cluster as cluster_documents

_ALL = "all"


def roles(given: Iterable[documents.RoleDocument]) -> str:
    """`member at acme, operator at pool gpu, admin everywhere`."""
    return ", ".join(_role(one) for one in given) or "no role yet"


def _role(one: documents.RoleDocument) -> str:
    where = f"at {one.tenant}" if one.tenant else f"at pool {one.pool}" if one.pool else "everywhere"
    return f"{one.role} {where}"


def users(answer: documents.UserList) -> str:
    now = datetime.now(UTC)
    rows = [
        (
            one.name,
            one.email or NOTHING,
            "disabled" if one.disabled_at else "active",
            ago(one.signed_in_at, now) if one.signed_in_at else "never",
            roles(one.roles),
        )
        for one in answer.users
    ]
    drawn = table(("NAME", "MAIL~?", "STATE", "SIGNED IN>", "ROLES~"), rows, empty="no users: rota user add NAME")
    return drawn + _more("user", answer.next)


def service_accounts(answer: documents.ServiceAccountList) -> str:
    now = datetime.now(UTC)
    rows = [
        (one.name, one.tenant, "disabled" if one.disabled_at else "active", ago(one.created_at, now), roles(one.roles))
        for one in answer.service_accounts
    ]
    empty = "no service accounts: rota service-account add NAME"
    drawn = table(("NAME", "TENANT", "STATE", "CREATED>", "ROLES~"), rows, empty=empty)
    return drawn + _more("service-account", answer.next)


def _more(command: str, after: str | None) -> str:
    return "" if after is None else f"\nmore: rota {command} list --after {after}"


def user(one: documents.UserDocument) -> str:
    signed_in = exact(one.signed_in_at) if one.signed_in_at else "never"
    return _account("user", one, [("mail", one.email or ""), ("signed in", signed_in)])


def service_account(one: documents.ServiceAccountDocument) -> str:
    return _account("service account", one, [("tenant", one.tenant)])


def changed(one: documents.UserDocument | documents.ServiceAccountDocument) -> str:
    return f"{one.name}: {roles(one.roles)}"


def _account(
    kind: str, one: documents.UserDocument | documents.ServiceAccountDocument, more: Sequence[tuple[str, str]]
) -> str:
    by = f" by {one.created_by}" if one.created_by else ""
    given = [
        (
            "role",
            f"{_role(role)}, given {exact(role.granted_at) if role.granted_at else NOTHING}"
            + (f" by {role.granted_by}" if role.granted_by else "")
            + (" (from the sign-in provider)" if role.source != "local" else ""),
        )
        for role in one.roles
    ]
    return facts(
        (
            (kind, one.name),
            *more,
            ("disabled", f"since {exact(one.disabled_at)}" if one.disabled_at else ""),
            ("created", f"{exact(one.created_at)}{by}" if one.created_at else ""),
            *(given or [("role", "none yet")]),
        )
    )


def tokens(answer: documents.TokenList) -> str:
    now = datetime.now(UTC)
    columns = (
        "ID>",
        "NAME?",
        "TOKEN",
        "TENANT",
        "USER",
        "ROLE",
        "EXPIRES>",
        "USED>",
        "MADE BY?",
        "REVOKED>?",
        "SCOPES~",
        "ONLY~?",
    )
    rows = [
        (
            str(one.id),
            one.name or NOTHING,
            f"{one.public_id}…" if one.public_id else NOTHING,
            one.tenant,
            one.user,
            one.role,
            _expiry(one, now),
            ago(one.used_at, now) if one.used_at else "never",
            one.created_by or NOTHING,
            ago(one.revoked_at, now),
            folded(one.scopes),
            only(one) or NOTHING,
        )
        for one in answer.tokens
    ]
    return table(columns, rows, empty="no tokens")


def token(one: documents.TokenDocument) -> str:
    used = f"{exact(one.used_at)}{f' from {one.used_from}' if one.used_from else ''}" if one.used_at else "never"
    by = f" by {one.created_by}" if one.created_by else ""
    return facts(
        (
            ("token", str(one.id)),
            ("name", one.name or ""),
            ("begins with", f"rota_{one.public_id}_" if one.public_id else ""),
            ("tenant", one.tenant),
            ("owner" if one.owner else "user", one.user),
            ("role", one.role),
            ("scopes", folded(one.scopes)),
            ("only", only(one)),
            ("created", f"{exact(one.created_at)}{by}" if one.created_at else ""),
            ("used", used),
            ("expires", exact(one.expires_at) if one.expires_at else "never"),
            ("revoked", exact(one.revoked_at) if one.revoked_at else ""),
            ("replaced by", str(one.replaced_by) if one.replaced_by else ""),
        )
    )


def _expiry(one: documents.TokenDocument, now: datetime) -> str:
    ends = ago(one.expires_at, now) if one.expires_at else "never"
    return f"{ends} (rotated)" if one.replaced_by else ends


def folded(scopes: Sequence[str] | None) -> str:
    """Scopes of one subject together: `logs:read tasks:control,read,submit`. None: what the owner or role may."""
    if scopes is None:
        return _ALL
    subjects: dict[str, list[str]] = {}
    for scope in sorted(scopes):
        subject, _, verb = scope.partition(":")
        subjects.setdefault(subject, []).append(verb)
    return " ".join(f"{subject}:{','.join(verbs)}" if any(verbs) else subject for subject, verbs in subjects.items())


def only(one: documents.TokenDocument | documents.Whoami) -> str:
    """What a restricted token is for."""
    parts = (
        one.names and f"names {','.join(one.names)}",
        one.pools and f"pools {','.join(one.pools)}",
        one.own and "own tasks",
        one.addresses and f"from {','.join(one.addresses)}",
    )
    return "; ".join(part for part in parts if part)


_KINDS = {"user": "user", "service": "service account", "node": "node", "task": "user"}


def whoami(one: documents.Whoami, at: Sequence[tuple[str, str]] = ()) -> str:
    """`at`: which server was asked, and where the token comes from."""
    changes = one.pools_to_change
    others = [f"{role.tenant} ({role.role})" for role in one.tenants if role.tenant != one.tenant]
    return facts(
        (
            (_KINDS.get(one.kind, one.kind), one.user),
            ("tenant", one.tenant),
            ("role", one.role),
            ("roles", roles(one.roles) if one.roles else ""),
            ("may", folded(one.scopes) or "nothing"),
            ("nodes of", ", ".join(changes) if changes and "nodes:write" in one.scopes else ""),
            ("only", only(one) or (f"tasks of graph {one.graph}" if one.graph else "")),
            ("with", one.credential),
            ("expires", _end_of(one)),
            ("other tenants", ", ".join(others)),
            *at,
        )
    )


def worker_keys(answer: cluster_documents.WorkerKeyList) -> str:
    now = datetime.now(UTC)
    columns = ("NUMBER>", "POOL", "STATE", "LEFT>", "USES>", "EXPIRES", "MADE BY", "LAST USE")
    return table(columns, [_worker_key_row(one, now) for one in answer.keys], empty="no worker keys")


def _worker_key_row(one: cluster_documents.WorkerKeyDocument, now: datetime) -> tuple[str, ...]:
    return (
        str(one.id),
        one.pool,
        one.state,
        str(one.uses - one.used),
        str(one.uses),
        exact(one.expires_at),
        one.created_by,
        f"{ago(one.used_at, now)} from {one.used_from or 'here'}" if one.used_at else "",
    )


def _end_of(one: documents.Whoami) -> str:
    if one.kind == "task":
        return "when its attempt ends"
    return exact(one.expires_at) if one.expires_at else "never"
