"""Documents as a server writes them: a test gives the fields that matter, the others have usual values."""

from __future__ import annotations

import base64
from typing import Any


def task(task_id: int = 7, state: str = "ready", **fields: Any) -> dict[str, Any]:
    status = {"running": "in progress", "done": "done", "failed": "failed", "cancelled": "cancelled"}
    return {
        "id": task_id,
        "name": "nightly",
        "kind": "command",
        "state": state,
        "status": status.get(state, "waiting"),
        "reason": None,
        "tenant": "acme",
        "user": "ann",
        "pool": "default",
        "lane": "normal",
        "tier": "regular",
        "priority": 0,
        "scheduling": "now",
        "admitted_by": "server-1",
        "resources": {
            "cpu": 1.5,
            "memory_bytes": 512_000_000,
            "disk_bytes": 0,
            "gpus": 0,
            "ports": 0,
            "custom": {},
        },
        "require": {},
        "cap_seconds": 3600,
        "tolerance_seconds": 3600,
        "attempts": 1,
        "attempt": 1,
        "created_at": "2024-01-31T09:00:00Z",
        "not_before": None,
        "start_by": "2024-01-31T10:00:00Z",
        "started_at": None,
        "ended_at": None,
        "node": None,
        "exit_code": None,
        "run_seconds": None,
        "cpu_seconds": 0.5,
        "peak_memory_bytes": 1_000_000,
        "result": None,
        "failure": None,
        "after": [],
        "tags": {"team": "ml"},
        "concurrency_key": None,
        "retry_of": None,
        "retried_as": None,
        "spec": {"command": ["echo", "hi"]},
        **fields,
    }


def ended(task_id: int, state: str = "done", **fields: Any) -> dict[str, Any]:
    return {"id": task_id, "state": state, "result": None, "failure": None, "exit_code": 0, **fields}


def chunk(data: bytes, *, seq: int = 0, stream: str = "stdout", attempt: int = 1, **more: Any) -> dict[str, Any]:
    text = base64.b64encode(data).decode()
    return {"attempt": attempt, "seq": seq, "stream": stream, "data_base64": text, **more}


def end(state: str = "done", exit_code: int | None = 0) -> dict[str, Any]:
    return {"end": True, "state": state, "exit_code": exit_code, "kept_bytes": 0, "dropped_bytes": 0}


PLAN = {
    "name": "regular",
    "tasks_per_hour": 1000,
    "burst": 100,
    "waiting_tasks": None,
    "running_cpu": 8,
    "running_memory_bytes": 16_000_000_000,
    "longest_cap_seconds": 86400,
    "tiers": ["basic", "regular"],
    "weight": 1,
}
ME = {
    "tenant": "acme",
    "user": "ann",
    "role": "member",
    "plan": PLAN,
    "usage": {
        "waiting": 3,
        "running": 1,
        "running_cpu": 1.5,
        "running_memory_bytes": 512,
        "burst_left": 97.5,
    },
}
