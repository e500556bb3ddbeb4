"""A function's line to its agent's desk: asks, and waits for the answer. Several threads take turns.

Standard library and msgspec only. `desk.py` is the other end.
"""

from __future__ import annotations

import socket
import threading

import msgspec

from rota.model.once import OnceAnswer, OnceAsk

_MOST_BYTES = 128 * 1024

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, OnceAnswer]).decode


class Line:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._turn = threading.Lock()
        self._number = 0

    def ask(self, call: int, question: OnceAsk) -> OnceAnswer:
        with self._turn:
            self._number += 1
            try:
                self._channel.send(_encode((self._number, call, question)))
                while data := self._channel.recv(_MOST_BYTES):
                    number, answer = _decode(data)
                    if number == self._number:  # else to a question whose asker was interrupted
                        return answer
            except OSError as error:
                return OnceAnswer(state="refused", message=f"the agent can't be asked: {error.strerror}")
        return OnceAnswer(state="refused", message="the agent is gone")
