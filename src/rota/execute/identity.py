"""What an agent proves itself with: its node's key, or a worker's token.

The key is an Ed25519 pair in the data folder. The private half is made there, is readable for the agent's user only,
and never leaves it. With it the agent signs challenges, and gets a node token that it sends until half of its time is
over. A join token is needed once, before the cluster knows the key.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import stat
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Protocol, TypeVar

import httpx
import msgspec
import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from rota import tls
from rota.model.answers.problems import ProblemDocument
from rota.model.answers.workers import Challenge, JoinedNode, JoinRequest, NodeToken, ProofRequest
from rota.node_identity import fingerprint, join_message, proof_message
from rota.servers import Servers

log = structlog.get_logger()

T = TypeVar("T")

KEY_FILE = "node.key"
_OPEN_SECONDS = 5.0
_RETRY_SECONDS = 5.0  # after a failed renewal, while the old token is still good
_MOST_KEY_BYTES = 4096
_UNKNOWN_KEY = "unknown-node-key"
_LATER = ("node-connected", "bad-challenge")  # refusals that pass
_TOO_EARLY = (408, 425, 429)


class BadKeyFile(RuntimeError):
    """The key file can't be used; the message says what to do."""


class JoinRefused(RuntimeError):
    """The cluster does not take this node, for a reason that only a person can change."""


class NoTokenYet(httpx.TransportError):
    """No server has given a node token. To whoever sends a request it is as if none could be reached."""


class Credential(Protocol):
    """What the agent sends with each request and connection."""

    async def authorization(self) -> str:
        """The value of the header. NoTokenYet: try again later. JoinRefused: never."""
        ...

    def refused(self) -> None:
        """A server answered 401 to it."""
        ...

    def why_refused(self) -> str | None:
        """Why servers give this agent nothing to send; None: they do, or were not asked."""
        ...


class WorkerToken:
    """A token of the role worker. It says nothing about the node."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def authorization(self) -> str:
        return f"Bearer {self._token}"

    def refused(self) -> None:
        return

    def why_refused(self) -> str | None:
        return None


class HttpCredential(httpx.Auth):
    """Sends the credential with the requests of a client."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        request.headers["Authorization"] = await self._credential.authorization()
        response = yield request
        if response.status_code == 401:
            self._credential.refused()


# ---- the key --------------------------------------------------------------------------------------------------------


class NodeKey:
    """The pair of this node."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)


def ensure_key(folder: Path) -> NodeKey:
    """The key in the data folder, which is made if there is none. BadKeyFile if it can't be read."""
    path = folder / KEY_FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _make(path)
    return _read(path)


def _make(path: Path) -> None:
    """Under another name first: a file with this name is always whole."""
    private = Ed25519PrivateKey.generate()
    text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process has just made it
            os.link(new, path)
        new.unlink()
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise BadKeyFile(f"this node's key can't be stored in {path}: {error.strerror}") from None


def _read(path: Path) -> NodeKey:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(_MOST_KEY_BYTES)
    except OSError as error:
        raise BadKeyFile(f"this node's key {path} can't be read: {error.strerror}") from None
    if mode & 0o077:
        raise BadKeyFile(f"this node's key {path} is open to other users of this machine: chmod 600 it")
    try:
        private = load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        why = "restore it, or remove it, forget the node's key (rota node forget-key) and join again"
        raise BadKeyFile(f"{path} does not hold this node's key: {why}")
    return NodeKey(private)


# ---- the node token -------------------------------------------------------------------------------------------------


class NodeCredential:
    """Gets node tokens with the node's key, and joins with a join token if the cluster does not know the key.

    `fallback`: a worker's token, sent instead if there is no join token and the cluster does not know the key.
    """

    def __init__(
        self,
        *,
        servers: tuple[str, ...],
        key: NodeKey,
        pool: str,
        name: str,
        boot: int,
        join_token: str = "",
        fallback: str = "",
    ) -> None:
        self._servers = Servers(servers)
        self._count = len(servers)
        self._key = key
        self._pool = pool
        self._name = name
        self._boot = boot
        self._join_token = join_token
        self._fallback = fallback
        self._token = ""
        self._renew_at = self._ends_at = 0.0
        self._known = False  # the cluster has known the key in this process
        self._refused: str | None = None
        self._lock = asyncio.Lock()

    async def authorization(self) -> str:
        async with self._lock:
            if _now() >= self._renew_at:
                await self._renew()
        return f"Bearer {self._token}"

    def refused(self) -> None:
        self._renew_at = self._ends_at = 0.0

    def why_refused(self) -> str | None:
        return self._refused

    async def _renew(self) -> None:
        """Asks each server once. A token that is still good is kept if none answers."""
        async with httpx.AsyncClient(timeout=_OPEN_SECONDS, trust_env=False, verify=tls.trusted()) as client:
            for _ in range(self._count):
                server = self._servers.current
                try:
                    await self._prove(client, server)
                    return
                except (httpx.HTTPError, msgspec.DecodeError) as error:
                    log.debug("no node token", server=server, error=str(error)[:200])
                    self._servers.advance()
        if _now() < self._ends_at:
            self._renew_at = min(self._ends_at, _now() + _RETRY_SECONDS)
            return
        raise NoTokenYet(self._refused or "no server gives this node a token right now")

    async def _prove(self, client: httpx.AsyncClient, server: str) -> None:
        asked_at = _now()
        try:
            made = await self._ask_for_token(client, server)
        except _Refusal as refusal:
            if refusal.slug != _UNKNOWN_KEY:
                raise self._not_now(refusal) from None
            self._token, self._renew_at, self._ends_at = "", 0.0, 0.0
            if self._known:  # an operator has forgotten the key: nobody undoes that but by a restart
                raise self._not_now(refusal) from None
            if self._join_token:
                await self._join(client, server)
            elif self._fallback:
                log.warning("the cluster does not know this node's key; a worker's token is sent instead")
                self._token, self._renew_at = self._fallback, _now() + _OPEN_SECONDS
                return
            else:
                raise JoinRefused(refusal.detail) from None
            try:
                made = await self._ask_for_token(client, server)
            except _Refusal as again:
                raise self._not_now(again) from None
        self._known, self._refused = True, None
        self._token = made.token
        self._renew_at, self._ends_at = asked_at + made.seconds / 2, asked_at + made.seconds

    def _not_now(self, refusal: _Refusal) -> NoTokenYet:
        if refusal.detail != self._refused:
            log.warning("refused", pool=self._pool, node=self._name, why=refusal.detail)
        self._refused = refusal.detail
        return NoTokenYet(refusal.detail)

    async def _ask_for_token(self, client: httpx.AsyncClient, server: str) -> NodeToken:
        challenge = await _ask(client, f"{server}/v1/worker/challenge", Challenge)
        message = proof_message(
            cluster=challenge.cluster,
            challenge=challenge.challenge,
            pool=self._pool,
            name=self._name,
            boot=self._boot,
        )
        proof = ProofRequest(
            pool=self._pool,
            name=self._name,
            boot=self._boot,
            challenge=challenge.challenge,
            signature=_text(self._key.sign(message)),
        )
        return await _ask(client, f"{server}/v1/worker/token", NodeToken, proof)

    async def _join(self, client: httpx.AsyncClient, server: str) -> None:
        challenge = await _ask(client, f"{server}/v1/worker/challenge", Challenge)
        message = join_message(
            cluster=challenge.cluster,
            challenge=challenge.challenge,
            pool=self._pool,
            name=self._name,
            public_key=self._key.public,
        )
        wanted = JoinRequest(
            pool=self._pool,
            name=self._name,
            public_key=_text(self._key.public),
            challenge=challenge.challenge,
            signature=_text(self._key.sign(message)),
        )
        try:
            await _ask(client, f"{server}/v1/worker/join", JoinedNode, wanted, token=self._join_token)
        except _Refusal as refusal:
            if refusal.slug in _LATER:
                raise self._not_now(refusal) from None
            raise JoinRefused(refusal.detail) from None
        log.info("joined", pool=self._pool, node=self._name, key=fingerprint(self._key.public))


def open_credential(
    data: Path, *, servers: tuple[str, ...], pool: str, name: str, boot: int, join_token: str, token: str
) -> Credential:
    """A node that has a key, or may join with one, proves its identity; any other sends a worker's token."""
    if not join_token and not (data / KEY_FILE).exists():
        return WorkerToken(token)
    return NodeCredential(
        servers=servers,
        key=ensure_key(data),
        pool=pool,
        name=name,
        boot=boot,
        join_token=join_token,
        fallback=token,
    )


class _Refusal(Exception):
    def __init__(self, slug: str, detail: str) -> None:
        super().__init__(detail)
        self.slug = slug
        self.detail = detail


async def _ask(
    client: httpx.AsyncClient, url: str, kind: type[T], body: msgspec.Struct | None = None, *, token: str = ""
) -> T:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    content = b"" if body is None else msgspec.json.encode(body)
    answer = await client.post(url, content=content, headers=headers)
    if answer.is_success:
        return msgspec.json.decode(answer.content, type=kind)
    status = answer.status_code
    try:
        problem = msgspec.json.decode(answer.content, type=ProblemDocument)
    except msgspec.MsgspecError:
        problem = ProblemDocument()
    slug = problem.type.rpartition("/")[2]
    # A server that is older than node keys has no such address; a proxy's page says nothing about us.
    if status >= 500 or status in _TOO_EARLY or not slug or status == 404:
        raise NoTokenYet(f"HTTP {status}: {problem.detail or 'no reason given'}")
    raise _Refusal(slug, problem.detail or f"a server answered {status}")


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)  # goes on while the machine sleeps


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
