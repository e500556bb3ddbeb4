"""The agent's end of one warm child: sends calls ahead into its socket, reads replies, takes unread calls back.

The agent keeps a duplicate of the child's own end. A packet in it is read by exactly one side, so reading the duplicate
takes back precisely the calls the child has not begun. Output is read either at a reply, while the child waits for the
go-ahead, or after every unread call was taken back: so it always belongs to the front call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from typing import Protocol

import msgspec

from rota.execute.attempts.attempt import Attempt, Finish
from rota.execute.attempts.sharing import ProcessKey
from rota.execute.functions import replies
from rota.execute.keeper_link import End, UnitLimits
from rota.execute.logs.capture import Capture
from rota.execute.logs.pipes import Flow, OutputPipes
from rota.execute.messages import calls, packets, progress_board
from rota.execute.messages.masking import masks_of
from rota.execute.messages.spec import log_limit_of
from rota.execute.processes.spawn_order import in_turns
from rota.execute.server_sockets import SEEN_ADDRESS
from rota.model.isolation import Isolation
from rota.model.progress import Progress
from rota.wire import Run

_encode_call = msgspec.msgpack.Encoder().encode
_decode_call = msgspec.msgpack.Decoder(calls.Call).decode
_decode_reply = msgspec.msgpack.Decoder(calls.Reply).decode


class Owner(Protocol):
    def child_over(self, child: WarmChild, end: End) -> None: ...


class WarmChild:
    def __init__(
        self,
        owner: Owner,
        flow: Flow,
        loop: asyncio.AbstractEventLoop,
        process_key: ProcessKey,
        servers: tuple[str, ...] = (),
    ) -> None:
        self._owner = owner
        self._servers = servers
        self._socket, theirs = packets.pair()
        self._socket.setblocking(False)
        self._dup = theirs
        # A pipe, because a child could fill up an event counter and block our write for ever.
        go_ahead, self._go_ahead = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._go_ahead, False)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(out_read, False)
        os.set_blocking(err_read, False)
        self._pipes = OutputPipes(loop, flow, out_read, err_read)
        self._progress_board = progress_board.make()
        self.questions, asker = packets.pair()  # on which its functions ask
        self.questions.setblocking(False)
        # given to the keeper
        self.end = [out_write, err_write, os.dup(theirs.fileno()), go_ahead, os.dup(self._progress_board)]
        self.end.append(asker.detach())
        self.number = 0  # the keeper's unit number
        self.sent: deque[Attempt] = deque()  # in the order the child reads them; [0] is the call it runs
        self.expected_us = 0.0
        self.calls_made = 0
        self.cpu_us = 0  # reported so far: for its start and the calls it has answered
        self.written_bytes = 0  # the same
        self.grown_bytes = 0  # memory it has kept of them, at the last measurement
        self.front_since = 0.0
        self.idle_since = 0.0
        self.fence_ms = 0
        self.capture: Capture | None = None
        self.watching = False
        self.is_ready = False
        self.is_leaving = False  # told to exit, or being killed: gets no more calls
        self.is_outdated = False  # a reload was asked for: finishes its calls, then exits
        self.broken = ""  # how it broke the protocol; "": it did not
        self.process_key = process_key
        self.limits = UnitLimits()  # as last ordered
        self.limit_orders = 0  # limit orders without an answer
        self.waiting: Attempt | None = None  # its first call, while the limits are being changed for it
        self.failure: tuple[str, str, str] | None = None  # why it could not start
        # reported only when the child is dead, because it has used devices
        self.answered: tuple[Attempt, Finish] | None = None
        self.kill_timer: asyncio.TimerHandle | None = None

    def descriptor(self) -> int:
        return self._socket.fileno()

    def put(self, attempt: Attempt, result_limit_bytes: int) -> bool:
        """False: the socket is full; the call was not sent."""
        run = attempt.run
        number = self.calls_made + 1
        call = calls.Call(
            number,
            run.task,
            run.attempt,
            run.idempotency_key,
            run.name,
            result_limit_bytes,
            run.spec,
            attempt.ports,
            attempt.gpus,
            run.secrets[:-1] if run.may_submit else run.secrets,
            run.inputs,
            attempt.grant.memory_bytes,
            attempt.devices,
            self._server_for(run) if run.may_submit else "",
            run.secrets[-1:] if run.may_submit else (),
        )
        try:
            packets.send(self._socket, _encode_call(call))
        except OSError:
            return False
        self.calls_made = attempt.call = number
        self.sent.append(attempt)
        self.expected_us += attempt.mean_run_us
        return True

    def _server_for(self, run: Run) -> str:
        return SEEN_ADDRESS if self.process_key.may_submit else ",".join(in_turns(self._servers, run.task))

    def tell(self, word: bytes) -> bool:
        """Sends a message that is not a call; False: it could not be sent."""
        try:
            packets.send(self._socket, word)
        except OSError:
            return False
        return True

    def next_reply(self, result_limit_bytes: int) -> calls.Reply | None:
        """None: there is none now. Raises `replies.BadReply` for anything that is no reply."""
        if self.process_key.isolation != Isolation.NONE:
            return replies.receive(self._socket, result_limit_bytes)
        try:
            packet = packets.receive(self._socket)
        except OSError:
            return None
        return None if packet is None else _decode_reply(packet[0])

    def attempt_of(self, call: int) -> Attempt | None:
        """The attempt of an unanswered call."""
        return next((attempt for attempt in self.sent if attempt.call == call), None)

    def progress(self) -> Progress | None:
        """The progress of the front call."""
        return progress_board.read(self._progress_board, self.sent[0].call) if self.sent else None

    def learn(self, reply: calls.Reply) -> None:
        """Counts what an answered call used; everything beyond belongs to the call in which the child dies."""
        self.cpu_us += reply.cpu_us
        self.written_bytes += reply.written_bytes
        self.grown_bytes = reply.grown_bytes

    def done(self, now: float) -> Attempt:
        """The front call has been answered; the next one is the front call."""
        attempt = self.sent.popleft()
        self.expected_us -= attempt.mean_run_us
        self.front_since = now
        return attempt

    def take_back(self) -> list[Attempt]:
        """Takes back every call the child has not read, in order.

        They are known by their numbers: the child reads at the same time and may get one from the middle.
        """
        numbers = set()
        while True:
            try:
                packet = packets.receive(self._dup, packets.DONTWAIT)
            except OSError:
                break
            if packet is None:
                break
            if packet[0] != calls.LEAVE and not packet[0].startswith(calls.CANCEL):
                numbers.add(_decode_call(packet[0]).number)
        if not numbers:
            return []
        taken = [attempt for attempt in self.sent if attempt.call in numbers]
        self.sent = deque(attempt for attempt in self.sent if attempt.call not in numbers)
        for attempt in taken:
            self.expected_us -= attempt.mean_run_us
        return taken

    def dismiss(self) -> None:
        """Tells the child to exit once it has answered its calls."""
        self.is_leaving = True
        try:
            packets.send(self._socket, calls.LEAVE)
        except OSError:
            return  # full or gone: the kill timer ends it

    def watch_output(self, capture_limit_bytes: int) -> None:
        """Call it only when there is no unread call behind the front call."""
        if not self.watching and self.sent:
            self.watching = True
            self._pipes.watch(self._capture_of(self.sent[0], capture_limit_bytes))

    def collect_output(self, attempt: Attempt, *, is_pending: bool, capture_limit_bytes: int) -> Capture | None:
        """The finished call's whole output; lets a waiting child go on."""
        if self.watching:
            self.watching = False
            self._pipes.unwatch()
        if is_pending:
            self._pipes.drain(self._capture_of(attempt, capture_limit_bytes))
            with contextlib.suppress(OSError):  # full or closed: the child does not wait for us, or never will
                os.write(self._go_ahead, calls.GO_AHEAD)
        capture, self.capture = self.capture, None
        return capture

    def collect_last_output(self, attempt: Attempt, capture_limit_bytes: int) -> Capture:
        """The output of the call it died in."""
        capture = self._capture_of(attempt, capture_limit_bytes)
        self._pipes.unwatch()
        self._pipes.drain(capture)
        self.capture = None
        return capture

    def close(self) -> None:
        self._pipes.close()
        self._socket.close()
        self._dup.close()
        os.close(self._go_ahead)
        os.close(self._progress_board)
        self.questions.close()

    def unit_over(self, end: End) -> None:
        self._owner.child_over(self, end)

    def _capture_of(self, attempt: Attempt, limit_bytes: int) -> Capture:
        if self.capture is None:
            limit_bytes = log_limit_of(attempt.run.spec, limit_bytes)
            self.capture = Capture(*attempt.key, limit_bytes, masks_of(attempt.run.secrets))
        return self.capture
