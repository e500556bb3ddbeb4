"""Lesson 14: functions of untrusted tenants. They run in warm processes too, but sandboxed and for one tenant only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from rota import Client


def test_functions_of_an_untrusted_tenant_run_sandboxed(
    client: Client, neighbour: Client, rota: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    look = "sandboxed_tasks:look"
    # The client's own tenant is trusted here: its function is a process of the worker's user.
    trusted = client.submit(function=look, args=["ours"]).result(timeout=20)
    assert trusted == {"user": os.getuid(), "calls": ["ours"], "token": False}

    # The neighbour's is not. It is nobody in particular, and what is in its process is its own.
    first = neighbour.submit(function=look, args=["theirs"]).result(timeout=20)
    again = neighbour.submit(function=look, args=["again"]).result(timeout=20)
    assert first == {"user": 1000, "calls": ["theirs"], "token": False}
    assert again == {"user": 1000, "calls": ["theirs", "again"], "token": False}

    # After a deploy, the processes are replaced: nothing is remembered.
    assert rota("node", "reload", "node-0").stdout == "node node-0 loads its functions anew\n"
    fresh = neighbour.submit(function=look, args=["fresh"]).result(timeout=20)
    assert fresh == {"user": 1000, "calls": ["fresh"], "token": False}
