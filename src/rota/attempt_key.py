"""The key with which a running attempt submits tasks: made, and checked. Pure.

A key is the attempt's task and number, signed by the cluster: it is stored nowhere, and it says nothing about what its
bearer may do. Each use asks the database whether that attempt still runs (`admit/authenticate.py`), so a key dies with
its attempt. A task gets one only if it was submitted with `may_submit`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

PREFIX = "rota_attempt_"

_KEY = re.compile(rf"{PREFIX}([1-9][0-9]{{0,18}})_([1-9][0-9]{{0,4}})_([A-Za-z0-9_-]{{43}})", re.ASCII)


class AttemptKeys:
    """Makes and checks keys. `secret` is the cluster's own: all of its server nodes have the same."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str) -> None:
        self._secret = hashlib.sha256(f"attempt-key:{secret}".encode()).digest()

    def make(self, task: int, attempt: int) -> str:
        return f"{PREFIX}{task}_{attempt}_{self._sign(task, attempt)}"

    def read(self, text: str) -> tuple[int, int] | None:
        """The task and the number of its attempt; None if the cluster did not sign this text."""
        match = _KEY.fullmatch(text)
        if match is None:
            return None
        task, attempt = int(match[1]), int(match[2])
        genuine = task < 2**63 and hmac.compare_digest(match[3], self._sign(task, attempt))
        return (task, attempt) if genuine else None

    def _sign(self, task: int, attempt: int) -> str:
        digest = hmac.new(self._secret, f"{task}:{attempt}".encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")
