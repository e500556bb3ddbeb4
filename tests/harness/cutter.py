"""A relay on loopback that breaks every connection once so many bytes of the answer have passed, until it is healed."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class Cutter:
    def __init__(self, target: str, *, after_bytes: int, times: int) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._after_bytes = after_bytes
        self.cuts_left = times
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed: the end
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                server = socket.create_connection(self._target)
                threading.Thread(target=self._relay, args=(client, server, None), daemon=True).start()
                limit = self._after_bytes if self.cuts_left > 0 else None
                threading.Thread(target=self._relay, args=(server, client, limit), daemon=True).start()

    def _relay(self, source: socket.socket, target: socket.socket, limit: int | None) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                passed += len(data)
                if limit is not None and passed > limit:
                    self.cuts_left -= 1
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextlib.contextmanager
def cutting(target: str, *, after_bytes: int, times: int) -> Iterator[Cutter]:
    cutter = Cutter(target, after_bytes=after_bytes, times=times)
    threading.Thread(target=cutter._accept, daemon=True).start()
    try:
        yield cutter
    finally:
        cutter.close()
