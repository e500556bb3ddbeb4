"""A relay on loopback that passes connections on, but for those whose first request names a path: these get silence."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class Relay:
    def __init__(self, target: str, path: bytes) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._silent: list[socket.socket] = []
        self.stalled = threading.Semaphore(0)  # one for each connection that got silence

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def accept(self) -> None:
        with contextlib.suppress(OSError):  # closed: the end
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._begin, args=(client,), daemon=True).start()

    def _begin(self, client: socket.socket) -> None:
        first = client.recv(65536)
        if self._path in first.partition(b"\r\n")[0]:
            self._silent.append(client)
            self.stalled.release()
            return
        server = socket.create_connection(self._target)
        server.sendall(first)
        threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()
        _pass_on(server, client)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in self._silent:
            client.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def stalling(target: str, path: bytes) -> Iterator[Relay]:
    relay = Relay(target, path)
    threading.Thread(target=relay.accept, daemon=True).start()
    try:
        yield relay
    finally:
        relay.close()
