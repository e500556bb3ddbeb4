"""The TLS context of outgoing connections: the machine's certificate authorities, read once per process.

An HTTP client without it reads all authorities itself, which takes 50 ms.
"""

from __future__ import annotations

import functools
import ssl

import httpx


@functools.cache
def trusted() -> ssl.SSLContext:
    return httpx.create_ssl_context()
