"""The tries of one request: at which server, with how much time, after which pause, and when to give up.

With several servers a request goes on to the next one at once, until all have failed; only then it pauses. Nothing here
sends. A request is repeated only when that cannot do its work twice: it never reached a server, it carries an
idempotency key, or it only reads. Limits (429) and refusals are never repeated: the caller decides.
"""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import httpx

from rota.client.calls.call import Call
from rota.client.errors import Unreachable
from rota.client.transport import http_rules as rules
from rota.servers import Servers

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
RETURN_SECONDS = 30.0  # after trouble with the preferred server, it is tried again so late
STEADY_SECONDS = 1.0  # a stream that lasted so long did not fail with the servers tried before it


class Preference:
    """Where new requests begin: at the first server while it works, else at another. Threads may share it."""

    def __init__(self, servers: tuple[str, ...]) -> None:
        self.servers = servers
        self._current = servers[0]
        self._tried_at = 0.0

    def begin(self, now: float) -> str:
        if self._current != self.servers[0] and now - self._tried_at >= RETURN_SECONDS:
            self._tried_at = now  # one request tries it; the others stay away until it has answered
            return self.servers[0]
        return self._current

    def answered(self, server: str) -> None:
        if server == self.servers[0]:
            self._current = server

    def failed(self, server: str, now: float) -> None:
        if server == self.servers[0]:
            self._tried_at = now
        if server == self._current:  # else another request has found that before
            self._current = self.servers[(self.servers.index(server) + 1) % len(self.servers)]


class Tries:
    """The tries of one request, a stream or a download."""

    def __init__(self, preference: Preference, retry_seconds: float) -> None:
        self._preference = preference
        self._retry_seconds = retry_seconds
        self._began_at = time.monotonic()
        self._rotation = Servers(preference.servers, first=preference.begin(self._began_at))
        self._failed = 0  # servers, in this round
        self._round = 0  # how often all servers have failed
        self._was_silent = False  # a server of this round
        self._has_full_patience = False
        self._has_moved = False
        self._failing_since: float | None = None
        self._pauses = itertools.count()
        self.in_doubt = False  # an earlier try may have done the work

    @property
    def server(self) -> str:
        return self._rotation.current

    def timeout(self, call: Call[Any], patience: rules.Patience) -> httpx.Timeout:
        """With several servers a short time first, then twice as long in each round.

        A silent server must not cost more, and a server that is only slow must get its time in the end.
        """
        silent, connect = patience.seconds, rules.CONNECT_SECONDS
        if len(self._preference.servers) > 1:
            longer = 2**self._round
            connect = min(connect, rules.QUICK_CONNECT_SECONDS * longer)
            if call.repeatable:
                silent = min(silent, patience.quick_seconds * longer)
        self._has_full_patience = silent >= patience.seconds
        return httpx.Timeout(silent + call.wait_seconds, connect=connect)

    def answered(self) -> None:
        self._preference.answered(self.server)

    def moved(self) -> None:
        """A part of a stream or a download has come."""
        self._has_moved = True
        self._failing_since = None
        self._pauses = itertools.count()

    def pause(self, call: Call[Any], error: httpx.TransportError | Unreachable) -> float:
        """The seconds to wait before the next try; raises the error when there is none."""
        now = time.monotonic()
        failed = rules.unreachable(error, self.server)
        self._preference.failed(self.server, now)
        if self._has_moved and now - self._began_at > STEADY_SECONDS:
            self._failed, self._round, self._was_silent = 0, 0, False
        if self._failing_since is None:
            self._failing_since = now
        if failed.sent and not call.repeatable:
            raise rules.uncertain(failed)
        self.in_doubt = self.in_doubt or failed.sent
        self._was_silent = self._was_silent or isinstance(error, httpx.TimeoutException)
        pause = self._next_pause(failed, now - self._failing_since)
        self._has_moved, self._began_at = False, now + pause
        return pause

    def _next_pause(self, error: Unreachable, failing_seconds: float) -> float:
        self._rotation.advance()
        self._failed += 1
        several = len(self._preference.servers)
        if self._failed < several:
            return 0.0
        was_silent, self._was_silent, self._failed = self._was_silent, False, 0
        self._round = min(self._round + 1, 10)
        if was_silent and not self._has_full_patience:
            return 0.0  # it may only have been slow: now with more time
        longest: float = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(next(self._pauses), 10))
        # A random part spreads clients that lost the same server.
        pause = max(longest * (0.5 + random.random() / 2), error.retry_after or 0.0)
        if failing_seconds + pause > self._retry_seconds:
            raise error if several == 1 else rules.all_failed(error, several)
        return pause
