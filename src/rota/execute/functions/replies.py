"""Replies of a sandboxed child, checked before they are used.

The process is its tenant's: a function may take it over, write anything into its channel, pass descriptors along or
close it. Nothing of that may reach a server, cost the agent memory or descriptors, or touch another child. A malformed
reply is a `BadReply` and ends the child. Whether a call really returned the result can't be checked: a tenant can only
lie to itself.
"""

from __future__ import annotations

import socket

import msgspec

from rota.execute.messages import calls, packets
from rota.model.attempt import Outcome

_SLACK_BYTES = 512 * 1024  # a reply beside its result: message, traceback, output
_MOST = 2**62
_MESSAGE_CHARACTERS = 4_000
_TRACEBACK_CHARACTERS = 64 * 1024
_SAYABLE = frozenset((Outcome.OK, Outcome.ERROR, Outcome.BAD_RESULT, Outcome.REFUSED, Outcome.RETRY))

_decode_reply = msgspec.msgpack.Decoder(calls.Reply).decode
_decode_result = msgspec.json.Decoder().decode


class BadReply(Exception):
    """Not a reply that our child program sends; the message says what is wrong."""


def receive(channel: socket.socket, result_limit_bytes: int) -> calls.Reply | None:
    """The next reply of an untrusted child; None when there is none now."""
    try:
        body = packets.receive_untrusted(channel, most_bytes=result_limit_bytes + _SLACK_BYTES)
    except BlockingIOError:
        return None
    except (OSError, ValueError) as error:
        raise BadReply(f"its channel can't be read: {error}") from None
    if body is None:
        raise BadReply("it closed its channel")
    try:
        reply = _decode_reply(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadReply(f"a reply can't be read: {error}") from None
    return checked(reply, result_limit_bytes)


def checked(reply: calls.Reply, result_limit_bytes: int) -> calls.Reply:
    """The reply with its texts cut to size, or `BadReply`."""
    if reply.outcome not in _SAYABLE:
        raise BadReply(f"it says that a call ended {reply.outcome}")
    if reply.result is not None:
        if len(reply.result) > result_limit_bytes:
            raise BadReply(f"a result of {len(reply.result)} bytes")
        try:
            _decode_result(reply.result)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadReply(f"a result is not JSON: {error}") from None
    if reply.outcome == Outcome.OK and reply.failure is not None:
        raise BadReply("a call both succeeded and failed")
    for number in (
        reply.retry_in_ms or 0,
        reply.number,
        reply.run_us,
        reply.cpu_us,
        reply.peak_memory_bytes,
        reply.stalled_us,
        reply.grown_bytes,
        reply.written_bytes,
    ):
        if not 0 <= number < _MOST:
            raise BadReply(f"the number {number}")
    _check_output(reply)
    if reply.failure is None:
        return reply
    kind, message, trace = reply.failure
    cut = (kind[:200], message[:_MESSAGE_CHARACTERS], trace[:_TRACEBACK_CHARACTERS])
    return reply if cut == reply.failure else msgspec.structs.replace(reply, failure=cut)


def _check_output(reply: calls.Reply) -> None:
    ends = {1: 0, 2: 0}
    for stream, offset, data in reply.output:
        if not ends.get(stream, _MOST) <= offset < _MOST:
            raise BadReply("output of no known stream, or out of order")
        ends[stream] = offset + len(data)
