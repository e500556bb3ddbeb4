"""Secrets of a tenant: set, list, remove; and for administrators, rotate the master key.

No answer contains a value, and no refusal repeats the body.
"""

from __future__ import annotations

import secrets as randomness
from collections import Counter

import msgspec
import structlog
from fastapi import APIRouter, Request, Response

from rota.admit.limits import check_number
from rota.api.answers import answer, filled
from rota.api.audited import audit
from rota.api.described import described, read_query
from rota.api.requests import read_json
from rota.api.services import Services, authorise
from rota.model.answers.secrets import MasterKeyUse, NotRotated, Rotation, SecretDocument, SecretList
from rota.model.errors import Fault, Problem, invalid, not_found
from rota.model.secret import MOST_VALUE_BYTES, name_trouble, value_trouble
from rota.model.tenant import Caller
from rota.store import second_factors, secrets
from rota.store.envelope import CantOpen, Keyring, SecretName, rewrap, seal
from rota.store.second_factors import factor_name

log = structlog.get_logger()

router = APIRouter(prefix="/v1", tags=["secrets"])

_BODY_LIMIT = 8 * MOST_VALUE_BYTES  # JSON may need six bytes for one
_ROTATED_AT_ONCE = 200
_MOST_NAMED = 100


class SecretValue(msgspec.Struct, forbid_unknown_fields=True):
    value: str

    def __repr__(self) -> str:
        return "SecretValue(***)"


@router.put("/secrets/{name}")
@described(SecretDocument, also={201: (SecretDocument, "The secret is new.")}, body=SecretValue)
async def set_secret(request: Request, name: str) -> Response:
    """Makes a secret, or gives it a new value, for attempts that start from now on."""
    services, caller = await authorise(request)
    keyring = _keyring(services)
    trouble = name_trouble(name)
    if trouble is not None:
        raise invalid([Fault("/name", "invalid-name", trouble)])
    value = await _value(request)
    secret_name = SecretName(caller.tenant_id, name)
    sealed = seal(keyring, secret_name, value, randomness.token_bytes)
    async with services.database.tenant(caller.tenant_id) as connection:
        if not await secrets.names_known(connection, caller.tenant_id, [name]):
            await check_number(connection, caller.tenant_id, caller.plan, "secrets")
        row = await secrets.save_secret(connection, secret_name, sealed, caller.user)
        await services.database.leave_tenant(connection)
        await audit(connection, caller, "secret.set", name, after={"version": row.version})
    return answer(filled(SecretDocument, row), 201 if row.version == 1 else 200)


@router.get("/secrets")
@described(SecretList)
async def list_secrets(request: Request) -> Response:
    """The secrets of the tenant: who set each and when, never its value."""
    services, caller = await authorise(request)
    read_query(request)
    _keyring(services)
    async with services.database.tenant(caller.tenant_id) as connection:
        rows = await secrets.list_secrets(connection, caller.tenant_id)
    return answer(SecretList(secrets=[filled(SecretDocument, row) for row in rows]))


@router.delete("/secrets/{name}", status_code=204)
@described(None)
async def remove_secret(request: Request, name: str) -> Response:
    """Removes a secret. Running attempts keep its value; tasks that start later fail without it."""
    services, caller = await authorise(request)
    _keyring(services)
    if name_trouble(name) is not None:
        raise not_found("secret")
    async with services.database.tenant(caller.tenant_id) as connection:
        if not await secrets.remove_secret(connection, SecretName(caller.tenant_id, name)):
            raise not_found("secret")
        await services.database.leave_tenant(connection)
        await audit(connection, caller, "secret.remove", name)
    return Response(status_code=204)


@router.post("/master-keys/rotate")
@described(Rotation)
async def rotate_master_key(request: Request) -> Response:
    """Wraps the data keys of all tenants' secrets and users' second factors with the first master key.

    Values do not change.
    """
    services, caller = await authorise(request)
    read_query(request)
    keyring = _keyring(services)
    rewrapped, failed = await _rewrap_all(services, caller, keyring)
    factors, factors_failed = await _rewrap_factors(services, caller, keyring)
    rewrapped, failed = rewrapped + factors, failed + factors_failed
    async with services.database.engine() as connection:
        counts = Counter(await secrets.count_by_key(connection)) + Counter(
            await second_factors.count_by_key(connection)
        )
    known = [key.id for key in keyring.keys]
    return answer(
        Rotation(
            key=keyring.first.id,
            rewrapped=rewrapped,
            failed=[
                NotRotated(tenant=secret_name.tenant, name=secret_name.name, reason=why) for secret_name, why in failed
            ],
            keys=[
                MasterKeyUse(id=one, known=one in known, secrets=counts.get(one, 0))
                for one in dict.fromkeys([*known, *sorted(counts)])
            ],
        )
    )


async def _rewrap_all(services: Services, caller: Caller, keyring: Keyring) -> tuple[int, list[tuple[SecretName, str]]]:
    """How many were rewrapped, and which failed. Secrets may be set and removed meanwhile.

    Each batch is one transaction, with its own row of the audit log.
    """
    rewrapped = 0
    failed: list[tuple[SecretName, str]] = []
    after = SecretName(0, "")
    while True:
        async with services.database.engine() as connection, connection.transaction():
            before = rewrapped
            batch = await secrets.sealed_otherwise(connection, keyring.first.id, after=after, limit=_ROTATED_AT_ONCE)
            for secret_name, sealed in batch:
                try:
                    fresh = rewrap(keyring, secret_name, sealed, randomness.token_bytes)
                except CantOpen as error:
                    log.warning(
                        "secrets.not_rotated", tenant=secret_name.tenant, name=secret_name.name, error=str(error)
                    )
                    if len(failed) < _MOST_NAMED:
                        failed.append((secret_name, str(error)))
                    continue
                rewrapped += await secrets.save_rewrapped(connection, secret_name, sealed, fresh)
            if batch or not after.tenant:
                await audit(connection, caller, "secret.rotate", keyring.first.id, count=rewrapped - before)
        if len(batch) < _ROTATED_AT_ONCE:
            return rewrapped, failed
        after = batch[-1][0]


async def _rewrap_factors(
    services: Services, caller: Caller, keyring: Keyring
) -> tuple[int, list[tuple[SecretName, str]]]:
    """As `_rewrap_all`, for second factors of users."""
    rewrapped = after = 0
    failed: list[tuple[SecretName, str]] = []
    while True:
        async with services.database.engine() as connection, connection.transaction():
            before = rewrapped
            batch = await second_factors.sealed_otherwise(
                connection, keyring.first.id, after=after, limit=_ROTATED_AT_ONCE
            )
            for principal, sealed in batch:
                try:
                    fresh = rewrap(keyring, factor_name(principal), sealed, randomness.token_bytes)
                except CantOpen as error:
                    log.warning("second_factors.not_rotated", principal=principal, error=str(error))
                    if len(failed) < _MOST_NAMED:
                        failed.append((factor_name(principal), str(error)))
                    continue
                rewrapped += await second_factors.save_rewrapped(connection, principal, sealed, fresh)
            if batch:
                await audit(connection, caller, "second-factor.rotate", keyring.first.id, count=rewrapped - before)
        if len(batch) < _ROTATED_AT_ONCE:
            return rewrapped, failed
        after = batch[-1][0]


def _keyring(services: Services) -> Keyring:
    if services.secret_keys is None:
        raise Problem(
            "secrets-unavailable",
            status=503,
            title="No secrets here",
            detail="this server node has no master key for secrets; its operator sets secrets_key "
            "(ROTA_SECRETS_KEY_FILE, or rota serve --secrets-key FILE)",
        )
    return services.secret_keys.keyring()


async def _value(request: Request) -> str:
    try:
        value = (await read_json(request, SecretValue, limit=_BODY_LIMIT)).value
    except Problem as problem:
        if problem.status not in (400, 422):
            raise
        # The usual refusals quote the fault, which may be the secret here.
        detail = 'the body must be {"value": "…"}, a JSON string; what came is not repeated here'
        faults = tuple(Fault("/value", fault.code, detail) for fault in problem.faults[:1])
        raise Problem(problem.slug, status=problem.status, title=problem.title, detail=detail, faults=faults) from None
    trouble = value_trouble(value)
    if trouble is not None:
        raise invalid([Fault("/value", "out-of-range", trouble)])
    return value
