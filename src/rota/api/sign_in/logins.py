"""Logins of programs (`rota login`): begun by anybody, allowed or refused by a signed-in user.

The JSON routes (`routes/accounts/logins.py`) and the pages (`rota.ui.logins`) share it; `login_tokens.py` exchanges the
codes. A code is in one answer or one address, and its hash in the database.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from datetime import timedelta

from rota.admit.authenticate import hash_secret
from rota.api.audited import audit
from rota.api.origin import origin
from rota.api.services import Services
from rota.model.accounts import logins as rules
from rota.model.accounts.logins import Asked
from rota.model.accounts.permissions import Rights
from rota.model.errors import Problem, unavailable
from rota.model.sign_in.attempts import address_key
from rota.model.tenant import Caller
from rota.model.units import duration_text
from rota.store import logins
from rota.store.database import AnyConnection
from rota.store.logins import LoginRow
from rota.store.sign_in_attempts import take_rate
from rota.store.tokens import Visible, read_tokens


@dataclass(frozen=True, slots=True)
class StartedDevice:
    """The program keeps the one code, its user types the other."""

    device_code: str = field(repr=False)
    user_code: str = field(repr=False)


async def start_device(services: Services, asked: Asked) -> StartedDevice:
    """For whoever asks: the number of those that wait is bounded, for each network and in all."""
    found = origin()
    network = rules.network_of(found.address)
    started = StartedDevice(secrets.token_urlsafe(32), rules.new_user_code(secrets.choice))
    async with services.database.engine() as connection, connection.transaction():
        everywhere, here = await logins.count_pending(connection, network)
        if here >= rules.MOST_PENDING_OF_NETWORK:
            raise _too_many(f"{here} logins from your address wait for their users; try again when some have ended")
        if everywhere >= rules.MOST_PENDING:
            raise _too_many(
                "too many logins wait for their users; try again, or sign in with a browser on this machine"
            )
        number = await logins.add_device(
            connection,
            code_hash=hash_secret(started.device_code),
            user_code_hash=hash_secret(started.user_code),
            asked=asked,
            address=found.address,
            network=network,
            agent=found.agent,
            poll_seconds=rules.POLL_SECONDS,
            lasts=rules.DEVICE_LASTS,
        )
    if number is None:  # one time in millions
        raise unavailable("another login has the same code; try again")
    return started


async def allow_browser(services: Services, caller: Caller, asked: Asked, challenge: str) -> str:
    """The code, which the user's browser takes to the program. It is good for a minute."""
    code = secrets.token_urlsafe(32)
    found = origin()
    await _count_try(services, caller)  # each leaves a row
    async with services.database.engine() as connection, connection.transaction():
        number = await logins.add_allowed(
            connection,
            code_hash=hash_secret(code),
            challenge=challenge,
            asked=replace(asked, tenant=caller.tenant),
            principal=_user(caller),
            address=found.address,
            agent=found.agent,
            lasts=rules.CODE_LASTS,
        )
        await _audit_decision(connection, caller, number, asked, allowed=True)
    return code


async def deny_browser(services: Services, caller: Caller, asked: Asked) -> None:
    """Nothing is kept but the entry in the audit log."""
    async with services.database.engine() as connection:
        await _audit_decision(connection, caller, asked.machine, asked, allowed=False)


async def find_device(services: Services, caller: Caller, typed: str) -> LoginRow | None:
    """The program that waits under this code. Every look is a guess, and counts as one."""
    await _count_try(services, caller)
    code = rules.user_code_of(typed)
    if code is None:
        return None
    async with services.database.engine() as connection:
        return await logins.find_pending(connection, hash_secret(code))


async def decide_device(services: Services, caller: Caller, typed: str, *, allowed: bool) -> LoginRow | None:
    """After `find_device`, which counts. None: somebody decided meanwhile, or it has expired."""
    code = rules.user_code_of(typed)
    if code is None:
        return None
    async with services.database.engine() as connection, connection.transaction():
        row = await logins.decide(
            connection, hash_secret(code), allowed=allowed, principal=_user(caller), tenant=caller.tenant
        )
        if row is not None:
            await _audit_decision(connection, caller, row.id, row.asked, allowed=allowed, asker=row.address)
    return row


def scopes_given(caller: Caller) -> frozenset[str]:
    """What a token of this user may do without scopes of its own, by the user's present roles."""
    held = Rights(caller.scopes, caller.pools, caller.everywhere).within(None)
    return frozenset(scope.value for scope in held.scopes)


async def is_replacing(services: Services, caller: Caller, asked: Asked) -> bool:
    """Whether the user has a token of this name at the tenant: a login replaces it."""
    own = Visible(everything=False, tenant=None, owner=caller.principal_id)
    async with services.database.engine() as connection:
        rows = await read_tokens(connection, own, name=asked.token_name)
    return any(row.tenant_id == caller.tenant_id and row.revoked_at is None for row in rows)


def _user(caller: Caller) -> int:
    assert caller.principal_id is not None, "a session has a user"
    return caller.principal_id


async def _count_try(services: Services, caller: Caller) -> None:
    """In a transaction of its own: what is refused afterwards counts too."""
    async with services.database.engine() as connection:
        for key, rate in (
            (f"login:user:{_user(caller)}", rules.TRIES_OF_USER),
            (f"login:{address_key(origin().address)}", rules.TRIES_OF_NETWORK),
        ):
            seconds = await take_rate(connection, key, rate)
            if seconds is not None:
                raise Problem(
                    "too-many-attempts",
                    status=429,
                    title="Too many attempts",
                    detail=f"too many codes were tried; try again in {duration_text(1000 * int(seconds + 1))}",
                    retry_after_seconds=seconds,
                )


def _too_many(detail: str) -> Problem:
    return Problem(
        "too-many-logins",
        status=429,
        title="Too many logins",
        detail=detail,
        retry_after_seconds=timedelta(minutes=1).total_seconds(),
    )


async def _audit_decision(
    connection: AnyConnection,
    caller: Caller,
    target: str | int,
    asked: Asked,
    *,
    allowed: bool,
    asker: str | None = None,
) -> None:
    """`asker`: the address of the program, if it is on another machine than the browser."""
    facts = {"machine": asked.machine, "token": asked.token_name, "seconds": int(asked.lasts.total_seconds())}
    await audit(
        connection,
        caller,
        "login.allow" if allowed else "login.refuse",
        target,
        after=facts if asker is None else {**facts, "asked_from": asker},
    )
