"""How a machine becomes a node with an identity, and how its agent proves that later.

A worker key's token opens one thing: binding a public key to a name in the key's pool, once for each of its uses.
After that the private key is the proof: the agent signs a challenge and gets a node token for an hour. Nothing here
knows HTTP; `api/routes/worker/joining.py` audits what happens.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from rota.admit.authenticate import NewToken, hash_secret, make_token
from rota.model.errors import Problem, conflict
from rota.node_identity import (
    JOIN_PREFIX,
    TOKEN_SECONDS,
    NodeClaim,
    NodeTokens,
    fingerprint,
    join_message,
    proof_message,
)
from rota.store import node_keys, worker_keys
from rota.store.database import AnyConnection, connect
from rota.store.worker_keys import WorkerKeyRow

SILENT_SECONDS = 15.0

_JOIN_TOKEN = re.compile(rf"{JOIN_PREFIX}([a-z0-9]{{12}})_([A-Za-z0-9_-]{{43}})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the server nodes of a cluster share."""

    identity: str
    tokens: NodeTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A node that wants to be known by a key."""

    pool: str
    name: str
    public_key: bytes
    challenge: str
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A node that says who it is, for one boot of its agent."""

    pool: str
    name: str
    boot: int
    challenge: str
    signature: bytes


def make_join_token() -> NewToken:
    """The text of a new worker key. It is stored as a hash."""
    made = make_token()
    return NewToken(JOIN_PREFIX + made.text.removeprefix("rota_"), made.public_id, made.secret_hash)


async def challenge(connection: AnyConnection, cluster: Cluster) -> str:
    return cluster.tokens.challenge(await node_keys.clock_us(connection), secrets.token_bytes(16))


async def join(
    connection: AnyConnection, cluster: Cluster, token: str, wanted: Joining, address: str | None
) -> WorkerKeyRow | None:
    """In a transaction: binds the key to the name and takes one use. Raises Problem.

    Returns the worker key; None if this key was bound to this name before, which takes no use.
    """
    message = join_message(
        cluster=cluster.identity,
        challenge=wanted.challenge,
        pool=wanted.pool,
        name=wanted.name,
        public_key=wanted.public_key,
    )
    await _check_signed(connection, cluster, wanted.public_key, wanted.challenge, wanted.signature, message)
    key = await _valid_key(connection, token)
    if key.pool != wanted.pool:
        raise _refused("wrong-pool", f"this join token is for pool {key.pool}, not {wanted.pool}: --pool {key.pool}")
    await _check_free(connection, wanted)
    bound = await node_keys.find_node_key(connection, wanted.pool, wanted.name)
    if bound is not None:
        return None
    if key.used >= key.uses:
        raise _refused(
            "worker-key-used-up", f"this join token was good for {key.uses} nodes, which have joined; make another one"
        )
    await worker_keys.take_use(connection, key.id, address)
    added = await node_keys.add_node_key(
        connection,
        pool=wanted.pool,
        name=wanted.name,
        public_key=wanted.public_key,
        joined_with=key.id,
        address=address,
    )
    if not added:  # a node joined under the name, or with the key, at this moment
        raise conflict("node-name-taken", f"another node has just joined as {wanted.name}; try again")
    return key


async def prove(connection: AnyConnection, cluster: Cluster, proof: Proof) -> str:
    """A node token. Raises Problem, the same for a node that is not known and for another key than its own."""
    bound = await node_keys.find_node_key(connection, proof.pool, proof.name)
    message = proof_message(
        cluster=cluster.identity, challenge=proof.challenge, pool=proof.pool, name=proof.name, boot=proof.boot
    )
    made_us, now_us = await _check_challenge(connection, cluster, proof.challenge)
    if bound is None:
        raise UnknownNode(proof.pool, proof.name)
    if not _is_signed(bound.public_key, proof.signature, message):
        raise UnknownKey(proof.pool, proof.name)
    if not await node_keys.answer_challenge(connection, bound.id, made_us):
        raise _bad_challenge("this challenge, or a later one, was answered before; ask for another")
    ends_us = now_us + TOKEN_SECONDS * 1_000_000
    return cluster.tokens.make(NodeClaim(bound.id, proof.boot, ends_us))


async def bind(url: str, *, pool: str, name: str, public_key: bytes) -> bool:
    """For `rota up`, which has the database: the key is the node's from now on, whatever its key was.

    False: a worker with another key, or with none, is connected under that name.
    """
    connection = await connect(url, {"application_name": "rota up"})
    try:
        async with connection.transaction():
            old = await node_keys.find_node_key(connection, pool, name)
            same = await node_keys.find_public_key(connection, public_key)
            if old is not None and same is not None and old.id == same.id:
                return True
            if await node_keys.is_connected(connection, pool, name, silent_seconds=SILENT_SECONDS):
                return False
            for row in (old, same):
                if row is not None:
                    await node_keys.remove_node_key(connection, row.id)
            return await node_keys.add_node_key(
                connection, pool=pool, name=name, public_key=public_key, joined_with=None, address=None
            )
    finally:
        await connection.close()


class UnknownKey(Problem):
    """One answer, whether there is no such node or it has another key."""

    def __init__(self, pool: str, name: str) -> None:
        why = f"no node {name} of pool {pool} is known by this key: it joins with a join token (rota worker-key add)"
        super().__init__("unknown-node-key", status=401, title="Unauthorized", detail=why)


class UnknownNode(UnknownKey):
    """No node has this name: a new one asks, before it joins."""


async def _valid_key(connection: AnyConnection, token: str) -> WorkerKeyRow:
    match = _JOIN_TOKEN.fullmatch(token)
    found = None if match is None else await worker_keys.lock_worker_key(connection, match[1])
    if match is None or found is None or not hmac.compare_digest(found.secret_hash, hash_secret(match[2])):
        detail = "this is not the text of a worker key: `Authorization: Bearer rota_join_…` (rota worker-key add)"
        raise Problem("unauthorized", status=401, title="Unauthorized", detail=detail)
    key = found.row
    if key.state in ("revoked", "expired"):
        raise _refused(f"worker-key-{key.state}", f"this join token is {_SINCE[key.state]}; make another one")
    return key


_SINCE = {"revoked": "revoked", "expired": "too old"}


async def _check_free(connection: AnyConnection, wanted: Joining) -> None:
    """The name is nobody's, or has this key; the key is of no other node."""
    bound = await node_keys.find_node_key(connection, wanted.pool, wanted.name)
    if bound is not None and bound.public_key != wanted.public_key:
        why = (
            f"pool {wanted.pool} has a node {wanted.name} with another key ({fingerprint(bound.public_key)}); "
            f"if that machine is gone, an operator runs: rota node forget-key {wanted.name}; else use --name"
        )
        raise conflict("node-name-taken", why)
    other = await node_keys.find_public_key(connection, wanted.public_key)
    if other is not None and bound is None:
        why = (
            f"this key is that of node {other.name} of pool {other.pool}: give each worker a data folder of its own, "
            f"or forget the old name: rota node forget-key {other.name}"
        )
        raise conflict("node-key-taken", why)
    if bound is None and await node_keys.is_connected(
        connection, wanted.pool, wanted.name, silent_seconds=SILENT_SECONDS
    ):
        why = f"a worker without an identity is connected as {wanted.name}; stop it, or use --name"
        raise conflict("node-connected", why)


async def _check_signed(
    connection: AnyConnection, cluster: Cluster, public_key: bytes, challenge: str, signature: bytes, message: bytes
) -> None:
    await _check_challenge(connection, cluster, challenge)
    if not _is_signed(public_key, signature, message):
        raise _refused("wrong-signature", "the signature is not that of this key for this request")


async def _check_challenge(connection: AnyConnection, cluster: Cluster, challenge: str) -> tuple[int, int]:
    """When it was made, and now."""
    now_us = await node_keys.clock_us(connection)
    made_us = cluster.tokens.made_at(challenge, now_us)
    if made_us is None:
        raise _bad_challenge("this challenge is not one of the last minute; ask for another")
    return made_us, now_us


def _bad_challenge(detail: str) -> Problem:
    return Problem("bad-challenge", status=400, title="Bad challenge", detail=detail)


def _refused(slug: str, detail: str) -> Problem:
    return Problem(slug, status=403, title="Forbidden", detail=detail)


def _is_signed(public_key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
