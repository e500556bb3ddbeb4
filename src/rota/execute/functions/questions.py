"""The question server: functions ask the server something while they run, one question at a time per child.

A warm child has a socket for this beside the one for its calls, so that a question never waits behind calls and a
function that asks nothing pays nothing. A function may write anything into it: a question is checked, bounded, and
always taken as one of the attempt that runs in that child.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

import httpx
import msgspec
import structlog

from rota import tls
from rota.execute.attempts.attempt import Attempt
from rota.execute.backoff import Backoff, Patience, always
from rota.execute.files.checkpoint import Checkpoints
from rota.execute.identity import Credential, HttpCredential
from rota.model.once import OnceAnswer, OnceAsk
from rota.servers import Servers

log = structlog.get_logger()

_CLOSE_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)
MOST_BYTES = 128 * 1024  # of one question or answer
_PATIENCE_SECONDS = 60.0
_RETRY_SECONDS = 1.0

_decode_ask = msgspec.msgpack.Decoder(tuple[int, int, OnceAsk | str]).decode  # number, call, question
_decode_answer = msgspec.json.Decoder(OnceAnswer).decode
_encode = msgspec.msgpack.Encoder().encode

AttemptOf = Callable[[int], Attempt | None]  # the attempt of a child's call


class QuestionServer:
    def __init__(
        self,
        *,
        servers: tuple[str, ...],
        credential: Credential,
        checkpoints: Checkpoints,
        has_leader: Callable[[], bool] = always,
    ) -> None:
        self._checkpoints = checkpoints
        self._has_leader = has_leader
        self._loop = asyncio.get_running_loop()
        self._servers = Servers(servers)
        self._client = httpx.AsyncClient(
            auth=HttpCredential(credential),
            timeout=httpx.Timeout(10.0),
            trust_env=False,
            verify=tls.trusted(),
        )
        self._asking: dict[int, asyncio.Task[None]] = {}  # by the descriptor of the child's socket

    def open(self, channel: socket.socket, attempt_of: AttemptOf) -> None:
        self._loop.add_reader(channel.fileno(), self._on_readable, channel, attempt_of)

    def close(self, channel: socket.socket) -> None:
        """The child is gone: nobody waits for the answer."""
        self._loop.remove_reader(channel.fileno())
        asking = self._asking.pop(channel.fileno(), None)
        if asking is not None:
            asking.cancel()

    async def aclose(self) -> None:
        await self._client.aclose()

    def _on_readable(self, channel: socket.socket, attempt_of: AttemptOf) -> None:
        self._loop.remove_reader(channel.fileno())  # one at a time
        try:
            data, descriptors, _, _ = socket.recv_fds(channel, MOST_BYTES, 1, _CLOSE_ON_EXEC)
        except BlockingIOError:
            self.open(channel, attempt_of)
            return
        except OSError:
            return
        if not data:
            return  # closed by the function, or gone: no question will come
        handed = descriptors[0] if descriptors else None
        try:
            number, call, ask = _decode_ask(data)
            attempt = attempt_of(call)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            attempt = None  # a malformed question is not answered
        if attempt is None:
            _close(handed)
            self.open(channel, attempt_of)
            return
        task = self._loop.create_task(
            self._answer(channel, attempt_of, attempt, number, ask, handed), name="answer a function"
        )
        self._asking[channel.fileno()] = task

    async def _answer(
        self,
        channel: socket.socket,
        attempt_of: AttemptOf,
        attempt: Attempt,
        number: int,
        ask: OnceAsk | str,
        handed: int | None,
    ) -> None:
        descriptor: int | None = None
        try:
            answer: OnceAnswer | str
            if isinstance(ask, OnceAsk):
                ask.task, ask.attempt = attempt.key
                answer = await self._ask_a_server(ask)
            elif ask == "save":
                answer = await self._checkpoints.save_value(attempt, handed)
            else:
                answer, descriptor = await self._checkpoints.load_value(attempt)
            del self._asking[channel.fileno()]
            socket.send_fds(channel, [_encode((number, answer))], [] if descriptor is None else [descriptor])
        except OSError as error:
            log.info("a function did not get the answer to its question", task=attempt.key[0], error=str(error))
            return
        finally:
            _close(handed)
            _close(descriptor)
        self.open(channel, attempt_of)

    async def _ask_a_server(self, ask: OnceAsk) -> OnceAnswer:
        """Asks again until a server answers; asking twice has the effect of asking once."""
        backoff = Backoff(shortest_seconds=0.05, first_seconds=_RETRY_SECONDS, longest_seconds=_RETRY_SECONDS)
        patience = Patience(_PATIENCE_SECONDS, self._has_leader)
        while not patience.is_over():
            answer = await self._ask_one(self._servers.current, ask)
            if answer is not None:
                return answer
            self._servers.advance()
            await backoff.pause()
        return OnceAnswer(state="refused", message="no server could be reached to ask whether it was done")

    async def _ask_one(self, server: str, ask: OnceAsk) -> OnceAnswer | None:
        try:
            answered = await self._client.post(
                f"{server}/v1/worker/once",
                content=msgspec.json.encode(ask),
                headers={"Content-Type": "application/json"},
            )
            if answered.status_code == 200:
                return _decode_answer(answered.content)
        except (httpx.HTTPError, msgspec.MsgspecError) as error:
            log.info("a server does not answer", server=server, error=str(error)[:200])
            return None
        if answered.status_code >= 500 or answered.status_code in (401, 408, 429):
            return None
        try:
            why = str(msgspec.json.decode(answered.content)["detail"])
        except (msgspec.MsgspecError, KeyError, TypeError):
            why = f"the server answered HTTP {answered.status_code}"
        return OnceAnswer(state="refused", message=why[:1000])


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
