"""Asks the agent a question and waits for the answer; threads take turns. `functions/questions.py` is the other end."""

from __future__ import annotations

import os
import socket
import threading

import msgspec

from rota.model.once import OnceAnswer, OnceAsk

_MOST_BYTES = 128 * 1024
_CLOSE_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, OnceAnswer | str]).decode


class AgentQuestions:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._number = 0

    def ask(self, call: int, question: OnceAsk) -> OnceAnswer:
        with self._lock:
            self._number += 1
            try:
                self._channel.send(_encode((self._number, call, question)))
                while data := self._channel.recv(_MOST_BYTES):
                    number, answer = _decode(data)
                    # Else it answers a question whose asker was interrupted.
                    if number == self._number and isinstance(answer, OnceAnswer):
                        return answer
            except OSError as error:
                return OnceAnswer(state="refused", message=f"the agent can't be asked: {error.strerror}")
        return OnceAnswer(state="refused", message="the agent is gone")

    def keep(self, call: int, word: str, descriptor: int | None) -> tuple[str, int | None]:
        """Asks for `save` or `load` of the checkpoint: a problem in one sentence, or a descriptor to read and close."""
        with self._lock:
            self._number += 1
            try:
                handed = [] if descriptor is None else [descriptor]
                socket.send_fds(self._channel, [_encode((self._number, call, word))], handed)
                while True:
                    data, descriptors, _, _ = socket.recv_fds(self._channel, _MOST_BYTES, 1, _CLOSE_ON_EXEC)
                    if not data:
                        return "the agent is gone", None
                    number, trouble = _decode(data)
                    if number == self._number and isinstance(trouble, str):
                        return trouble, descriptors[0] if descriptors else None
                    for unwanted in descriptors:
                        os.close(unwanted)
            except OSError as error:
                return f"the agent can't be asked: {error.strerror}", None
