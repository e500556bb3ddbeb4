"""What a node signs to prove its identity, and the short texts that server nodes sign about it. Pure.

A node has an Ed25519 pair; its public key is bound to its name and pool (`admit/joining.py`). A server node makes a
challenge, the agent signs it with its pool, name and boot, and gets a node token, which it sends with everything until
it asks for the next one. Challenges and node tokens are stored nowhere: they are signed with the secret that the server
nodes of a cluster share. A node's signature says what it is for and for which cluster: it is good for nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass

import msgspec

JOIN_PREFIX = "rota_join_"  # of the text of a worker key
TOKEN_PREFIX = "rota_node_"

CHALLENGE_SECONDS = 60
TOKEN_SECONDS = 3600  # an agent asks for the next one halfway

_TOKEN = re.compile(
    rf"{TOKEN_PREFIX}([1-9][0-9]{{0,9}})_([0-9]{{1,19}})_([0-9]{{1,17}})_([A-Za-z0-9_-]{{43}})", re.ASCII
)
_CHALLENGE = re.compile(r"([0-9]{1,17})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})", re.ASCII)

_encode = msgspec.msgpack.Encoder().encode


def join_message(*, cluster: str, challenge: str, pool: str, name: str, public_key: bytes) -> bytes:
    """What a node signs to join: it has the private half of the key that it wants to be bound."""
    return _encode(("rota: join a pool", 1, cluster, challenge, pool, name, public_key))


def proof_message(*, cluster: str, challenge: str, pool: str, name: str, boot: int) -> bytes:
    """What a node signs to get a node token."""
    return _encode(("rota: prove a node", 1, cluster, challenge, pool, name, boot))


def fingerprint(public_key: bytes) -> str:
    """For people to compare."""
    return "SHA256:" + _text(hashlib.sha256(public_key).digest())


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """What a node token says. It holds only as long as the identity is there."""

    identity: int
    boot: int
    ends_us: int  # by the database's clock


class NodeTokens:
    """Makes and checks challenges and node tokens. `secret` is the cluster's own."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str) -> None:
        self._secret = hashlib.sha256(f"node-token:{secret}".encode()).digest()

    def make(self, claim: NodeClaim) -> str:
        said = f"{claim.identity}_{claim.boot}_{claim.ends_us}"
        return f"{TOKEN_PREFIX}{said}_{self._sign('token', said)}"

    def read(self, text: str) -> NodeClaim | None:
        """None: the cluster did not sign this text."""
        match = _TOKEN.fullmatch(text)
        if match is None or not hmac.compare_digest(match[4], self._sign("token", "_".join(match.group(1, 2, 3)))):
            return None
        return NodeClaim(int(match[1]), int(match[2]), int(match[3]))

    def challenge(self, now_us: int, random: bytes) -> str:
        """`random`: 16 bytes, so that two made at once differ."""
        said = f"{now_us}.{_text(random)}"
        return f"{said}.{self._sign('challenge', said)}"

    def made_at(self, challenge: str, now_us: int) -> int | None:
        """When it was made. None: the cluster did not make it, or too long ago."""
        match = _CHALLENGE.fullmatch(challenge)
        if match is None or not hmac.compare_digest(match[3], self._sign("challenge", f"{match[1]}.{match[2]}")):
            return None
        made_us = int(match[1])
        return made_us if now_us - CHALLENGE_SECONDS * 1_000_000 <= made_us <= now_us else None

    def _sign(self, kind: str, said: str) -> str:
        return _text(hmac.new(self._secret, f"{kind}:{said}".encode(), hashlib.sha256).digest())


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
