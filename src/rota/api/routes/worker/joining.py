"""Nodes join and prove who they are. These routes need no token: what is signed, and a worker key, protect them.

Refusals are audited, a few of each sender's; `admit/joining.py` decides.
"""

from __future__ import annotations

import base64
import binascii

from fastapi import APIRouter, Request, Response

from rota.admit import joining
from rota.admit.authenticate import caller_of
from rota.admit.joining import Cluster, Joining, Proof, UnknownNode
from rota.api.answers import answer
from rota.api.audit_sampling import note_refused
from rota.api.audited import audit
from rota.api.described import described, read_query
from rota.api.origin import origin
from rota.api.requests import read_json
from rota.api.services import Services, services
from rota.model.answers.workers import Challenge, JoinedNode, JoinRequest, NodeToken, ProofRequest
from rota.model.errors import FaultList, Problem
from rota.model.node import Identity, node_name_trouble, pool_name_trouble
from rota.node_identity import TOKEN_SECONDS, fingerprint

router = APIRouter(prefix="/v1/worker", tags=["workers"])

_MOST_BYTES = 4096
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64


@router.post("/challenge")
@described(Challenge)
async def make_challenge(request: Request) -> Response:
    """Something to sign within a minute, for `join` and `token`."""
    found = services(request)
    read_query(request)
    async with found.database.engine() as connection:
        made = await joining.challenge(connection, _cluster(found))
    return answer(Challenge(found.cluster.identity, made))


@router.post("/join", status_code=201)
@described(JoinedNode, body=JoinRequest)
async def join_node(request: Request) -> Response:
    """Makes a public key the identity of a node, with the token of a worker key of the pool.

    The key signs the challenge. Joining again with the same key takes no use of the worker key.
    """
    found = services(request)
    body = await read_json(request, JoinRequest, limit=_MOST_BYTES)
    faults = FaultList()
    _check_names(body.pool, body.name, faults)
    wanted = Joining(
        pool=body.pool,
        name=body.name,
        public_key=_bytes_of("public_key", body.public_key, _KEY_BYTES, faults),
        challenge=body.challenge,
        signature=_bytes_of("signature", body.signature, _SIGNATURE_BYTES, faults),
    )
    faults.check()
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    address = origin().address
    target = f"{body.pool}/{body.name}"
    try:
        async with found.database.engine() as connection, connection.transaction():
            key = await joining.join(
                connection, _cluster(found), token.strip() if scheme.lower() == "bearer" else "", wanted, address
            )
            if key is not None:
                node = caller_of(Identity(0, 0, body.pool, body.name, 0))
                said = {
                    "fingerprint": fingerprint(wanted.public_key),
                    "worker_key": key.id,
                    "uses_left": key.uses - key.used - 1,
                }
                await audit(connection, node, "node.join", target, after=said)
    except Problem as problem:
        _note(found, "node.join", target, problem)
        raise
    return answer(JoinedNode(body.pool, body.name, fingerprint(wanted.public_key)), 201)


@router.post("/token", status_code=201)
@described(NodeToken, body=ProofRequest)
async def make_node_token(request: Request) -> Response:
    """A token for an hour, for the node whose key signed the challenge, and this boot of its agent."""
    found = services(request)
    body = await read_json(request, ProofRequest, limit=_MOST_BYTES)
    faults = FaultList()
    _check_names(body.pool, body.name, faults)
    if not 0 <= body.boot < 2**63:
        faults.add("boot", "out-of-range", "boot is a whole number below 2^63")
    proof = Proof(
        pool=body.pool,
        name=body.name,
        boot=body.boot,
        challenge=body.challenge,
        signature=_bytes_of("signature", body.signature, _SIGNATURE_BYTES, faults),
    )
    faults.check()
    try:
        async with found.database.engine() as connection:
            token = await joining.prove(connection, _cluster(found), proof)
    except UnknownNode:
        raise
    except Problem as problem:
        _note(found, "node.prove", f"{body.pool}/{body.name}", problem)
        raise
    return answer(NodeToken(token, TOKEN_SECONDS), 201)


def _note(found: Services, action: str, target: str, problem: Problem) -> None:
    if problem.status < 500:
        note_refused(found.audit_notes, action, target, problem.detail)


def _cluster(found: Services) -> Cluster:
    return Cluster(identity=found.cluster.identity, tokens=found.node_tokens)


def _check_names(pool: str, name: str, faults: FaultList) -> None:
    for field, trouble in (("pool", pool_name_trouble(pool)), ("name", node_name_trouble(name))):
        if trouble is not None:
            faults.add(field, "invalid-name", trouble)


def _bytes_of(field: str, text: str, size: int, faults: FaultList) -> bytes:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != size:
        faults.add(field, "invalid-value", f"{field} is {size} bytes as base64url")
    return raw
