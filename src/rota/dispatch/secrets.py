"""Secrets for a batch of starts: names in, values out, in one statement for all of its tasks. And the attempt's key.

Values live from here to the frame and nowhere else in the server. A secret that is gone, or that this node's master key
doesn't open, ends the attempt with a sentence that names it: a task never starts without a secret it asked for. A task
that may submit gets the key of its attempt as one more secret, so that it is treated and masked like one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import structlog

from rota.attempt_key import AttemptKeys
from rota.dispatch.fenced_connection import FencedConnection
from rota.dispatch.pool import PoolState
from rota.dispatch.session import Session
from rota.model.secret import TOKEN_VARIABLE, Secret, may_submit_in, names_in_spec
from rota.store.database import CONNECTION_LOST
from rota.store.envelope import CantOpen, Keyring, Sealed, SecretName, unseal
from rota.store.secrets import read_sealed
from rota.wire import SUBMIT, Failure, Run

log = structlog.get_logger()

CAPABILITY = "secrets"  # of agents that accept secrets
SLUG = "secret-unavailable"


@dataclass(frozen=True, slots=True)
class Resolved:
    """The secrets of one task, or the sentence that says why it can't have them."""

    secrets: tuple[Secret, ...] = ()
    trouble: str | None = None
    gets_key: bool = False  # the task may submit


async def resolve(
    pool: PoolState, connection: FencedConnection, tasks: Sequence[tuple[int, int, str]]
) -> dict[int, Resolved] | None:
    """By task, for (task, tenant, spec). Waits for the database as long as the lease lasts; None if it is over."""
    names = {task: [SecretName(tenant, name) for name in names_in_spec(spec)] for task, tenant, spec in tasks}
    secret_names = list(dict.fromkeys(secret_name for own in names.values() for secret_name in own))
    keyring = None if pool.secret_keys is None else pool.secret_keys.keyring()
    while pool.lease.valid():
        try:
            sealed = await read_sealed(await connection.get(), secret_names) if secret_names else {}
        except CONNECTION_LOST as error:
            log.warning("cycle.secrets_wait", pool=pool.name, tasks=len(tasks), error=repr(error))
            connection.lost()
            pool.wakes.cycle.clear()
            await pool.wakes.cycle.wait()  # the slow poll sets it
            continue
        opened = {secret_name: _open(keyring, secret_name, sealed.get(secret_name)) for secret_name in secret_names}
        return {
            task: _together([opened[secret_name] for secret_name in names[task]], gets_key=may_submit_in(spec))
            for task, _, spec in tasks
        }
    return None


def refuse(resolved: Resolved, session: Session | None) -> Failure | None:
    """Why the attempt can't be sent; None if it can."""
    if resolved.trouble is not None:
        return Failure(SLUG, resolved.trouble)
    if session is not None and CAPABILITY not in session.capabilities:
        return Failure(SLUG, f"node {session.name} runs an agent that can't be given secrets; upgrade it")
    if session is not None and resolved.gets_key and SUBMIT not in session.capabilities:
        return Failure("no-submitting", f"node {session.name} runs an agent whose tasks can't submit; upgrade it")
    return None


def with_key(run: Run, keys: AttemptKeys) -> Run:
    """The same run with the key of its attempt, as the last of its secrets."""
    key = Secret(TOKEN_VARIABLE, keys.make(run.task, run.attempt))
    return msgspec.structs.replace(run, secrets=(*run.secrets, key), may_submit=True)


def _open(keyring: Keyring | None, secret_name: SecretName, sealed: Sealed | None) -> Secret | str:
    if sealed is None:
        return f"the secret {secret_name.name} is gone: it was removed after the task was submitted"
    if keyring is None:
        return f"the secret {secret_name.name} can't be read: the server node has no master key (setting secrets_key)"
    try:
        return Secret(secret_name.name, unseal(keyring, secret_name, sealed))
    except CantOpen as error:
        return f"the secret {secret_name.name} can't be read: {error}"


def _together(opened: list[Secret | str], *, gets_key: bool) -> Resolved:
    trouble = [sentence for sentence in opened if isinstance(sentence, str)]
    if trouble:
        return Resolved(trouble="; ".join(trouble))
    return Resolved(tuple(secret for secret in opened if isinstance(secret, Secret)), gets_key=gets_key)
