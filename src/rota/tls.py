"""Whom outgoing connections trust: the machine's authorities, read once a process.

Every HTTP client makes its own unless it is given one, and reading all authorities costs a twentieth of a second.
"""

from __future__ import annotations

import functools
import ssl

import httpx


@functools.cache
def trusted() -> ssl.SSLContext:
    return httpx.create_ssl_context()
