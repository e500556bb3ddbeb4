"""Effects that must not happen twice: for clients with a token, and for running tasks through their agent."""

from __future__ import annotations

import secrets

import msgspec
from fastapi import APIRouter, Request, Response

from rota.admit.body import decode
from rota.api.answers import answer, raw_json
from rota.api.described import described
from rota.api.requests import read_json
from rota.api.services import authorise
from rota.model.answers.fields import only
from rota.model.answers.once import OnceDocument
from rota.model.errors import Fault, Problem, conflict, invalid
from rota.model.once import LONGEST_KEY, MOST_RESULT_BYTES, OnceAnswer, OnceAsk
from rota.model.units import milliseconds_of
from rota.store import once
from rota.store.once import Claimant, Done, First, Taken

router = APIRouter(tags=["once"])

_MOST_BODY_BYTES = 256 * 1024
_LEASE_MS = (1_000, 86_400_000)


class OnceRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Without `result` a claim; with it a record that the effect is done. `release` gives a claim up."""

    key: str
    claim: str | None = None  # chosen by the caller, else by the server
    lease: float | int | str = 60  # how long the claim is valid
    result: msgspec.Raw = msgspec.Raw(b"")
    release: bool = False


@router.post("/v1/once", status_code=201)
@described(OnceDocument, also={200: (OnceDocument, "It was done before, or the claim was released.")}, body=OnceRequest)
async def do_once(request: Request) -> Response:
    """Claims an effect, records its result, or releases the claim.

    201: the caller is the first, or the result is recorded. 200: it was done before, with this result.
    409 `once-claimed`: another client is doing it; ask again later. 409 `claim-lost`: the claim expired and another
    client has it.
    """
    services, caller = await authorise(request)
    body = await read_json(request, OnceRequest, limit=_MOST_BODY_BYTES)
    result = bytes(body.result)
    lease_ms = _check(body, result)
    async with services.database.engine() as connection:
        if body.release:
            released = await once.give_up(connection, caller.tenant_id, body.key, body.claim or "")
            return answer(only(OnceDocument, key=body.key, released=released))
        if result:
            found = await once.record(connection, caller.tenant_id, body.key, body.claim, result.decode())
        else:
            claim = body.claim or secrets.token_hex(16)
            found = await once.claim(connection, caller.tenant_id, body.key, Claimant(claim, lease_ms))
    match found:
        case First() if result:
            return answer(only(OnceDocument, key=body.key, first=True, done=True, result=body.result), 201)
        case First():
            lease_seconds = lease_ms / 1000
            claimed = only(OnceDocument, key=body.key, first=True, done=False, claim=claim, lease_seconds=lease_seconds)
            return answer(claimed, 201)
        case Done():
            result_before = raw_json(found.result)
            return answer(only(OnceDocument, key=body.key, first=False, done=True, result=result_before))
        case Taken() if result and body.claim is not None:
            raise conflict(
                "claim-lost", f"the lease on {body.key[:80]!r} has expired, and another caller has the claim now"
            )
        case Taken():
            raise Problem(
                "once-claimed",
                status=409,
                title="Conflict",
                retry_after_seconds=found.retry_after_seconds,
                detail=f"another caller is doing {body.key[:80]!r} right now; ask again",
            )


def _check(body: OnceRequest, result: bytes) -> int:
    faults = _key_faults(body.key)
    if body.claim is not None and not 1 <= len(body.claim) <= 200:
        faults.append(Fault("/claim", "out-of-range", "a claim has 1 to 200 characters"))
    if len(result) > MOST_RESULT_BYTES:
        why = f"the result has {len(result)} bytes of JSON; at most {MOST_RESULT_BYTES} are kept"
        faults.append(Fault("/result", "too-large", why))
    if body.release and (result or body.claim is None):
        faults.append(Fault("/release", "invalid-value", "a release names its claim and has no result"))
    lease_ms = 0
    try:
        lease_ms = milliseconds_of(body.lease)
        if not _LEASE_MS[0] <= lease_ms <= _LEASE_MS[1]:
            faults.append(Fault("/lease", "out-of-range", "a lease is from 1s to 24h"))
    except ValueError as error:
        faults.append(Fault("/lease", "invalid-duration", str(error)))
    if faults:
        raise invalid(faults)
    return lease_ms


def _key_faults(key: str) -> list[Fault]:
    if not 1 <= len(key) <= LONGEST_KEY:
        return [Fault("/key", "out-of-range", f"a key has 1 to {LONGEST_KEY} characters, not {len(key)}")]
    return []


class _Value(msgspec.Struct, forbid_unknown_fields=True):
    value: msgspec.Raw


def _json_of(text: str) -> bytes:
    """A result that came as text, checked by the same rules as a body."""
    return bytes(decode(b'{"value":%s}' % text.encode(), _Value).value) if text else b""


@router.post("/v1/worker/once")
@described(OnceAnswer, body=OnceAsk)
async def do_once_for_task(request: Request) -> Response:
    """As `/v1/once`, for a running attempt, in the tenant of the attempt."""
    services, caller = await authorise(request)
    ask = await read_json(request, OnceAsk, limit=_MOST_BODY_BYTES)
    result = _json_of(ask.result)
    faults = _key_faults(ask.key)
    if ask.action not in ("claim", "done", "give-up") or (ask.action == "done") != bool(result):
        faults.append(
            Fault("/action", "invalid-value", "action is claim, done (with a result) or give-up, and nothing else")
        )
    if not 1 <= len(ask.nonce) <= 64 or not (0 < ask.task < 2**63 and 0 < ask.attempt < 2**15):
        faults.append(Fault("/nonce", "invalid-value", "there is no such attempt or use"))
    if len(result) > MOST_RESULT_BYTES:
        faults.append(Fault("/result", "too-large", f"a result has at most {MOST_RESULT_BYTES:,} bytes of JSON"))
    if faults:
        raise invalid(faults)
    claim = f"task-{ask.task}/{ask.attempt}/{ask.nonce}"
    async with services.database.engine() as connection:
        identity = None if caller.node is None else caller.node.id
        tenant = await once.running_tenant(connection, ask.task, ask.attempt, identity=identity)
        if tenant is None:
            raise conflict("not-running", f"attempt {ask.attempt} of task {ask.task} does not run")
        if ask.action == "give-up":
            await once.give_up(connection, tenant, ask.key, claim)
            return answer(OnceAnswer(state="first"))
        if ask.action == "done":
            found = await once.record(connection, tenant, ask.key, claim, result.decode())
        else:
            found = await once.claim(connection, tenant, ask.key, Claimant(claim, 0, ask.task, ask.attempt))
    return answer(_for_the_task(ask, found))


def _for_the_task(ask: OnceAsk, found: First | Done | Taken) -> OnceAnswer:
    match found:
        case First():
            return OnceAnswer(state="first")
        case Done(result, is_ours):
            state = "first" if ask.action == "done" and is_ours else "done"
            return OnceAnswer(state=state, result=result or "null")
        case Taken(seconds):
            return OnceAnswer(state="lost" if ask.action == "done" else "taken", retry_after_seconds=seconds)
