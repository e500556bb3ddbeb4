"""What every long-running program of ours does with its own process: logs, readiness, no memory dumps, last words."""

from __future__ import annotations

import os
import resource
import sys

import structlog


def configure_logging() -> None:
    """JSON lines on standard error; `ROTA_LOG=debug` for more."""
    level = {"debug": 10, "info": 20, "warning": 30}.get(os.environ.get("ROTA_LOG", "info"), 20)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def announce_ready() -> None:
    """Tells whoever started us: one byte on the descriptor named in ROTA_READY_FD."""
    text = os.environ.pop("ROTA_READY_FD", None)
    if text is not None:
        os.write(int(text), b"R")
        os.close(int(text))


def leave_no_dump() -> None:
    """Values of secrets pass through our memory: it must not end up in a file when we crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def say(text: str, code: int) -> int:
    sys.stderr.write(f"rota: {text}\n")
    return code
