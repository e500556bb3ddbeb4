"""The agent of the execute tests, which is a real one, and what hostile tasks may look for on the machine."""

from __future__ import annotations

from tests.execute.conftest import agent, make_options, server

__all__ = ["agent", "make_options", "server"]
