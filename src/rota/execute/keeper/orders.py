"""A spawn order in the keeper: parsed once from the agent's JSON (`keeper_link.Spawn`), typed from then on.

An order with a missing or unknown field is a bug of the agent and ends the keeper with a TypeError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rota.execute.sandbox.bubblewrap import Mount, Sandbox
from rota.execute.sandbox.container import ContainerSpec, Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnOrder:
    """What to start. `keeper_link.Spawn` describes the same fields."""

    program: str
    arguments: list[str]
    env: dict[str, str]
    folder: str
    fence_ms: int
    cwd: str | None
    interpreter: list[str] | None
    script: str | None
    is_file: bool
    is_upload: bool
    prepared: bool
    owner: int
    checkpoint: bool
    keeps_folder: bool
    limits: dict[str, int]
    sandbox: Sandbox | None
    secrets: list[tuple[str, str]] = field(repr=False)
    container_spec: ContainerSpec | None

    @property
    def environment(self) -> dict[str, str]:
        """With the secrets, which override nothing. It never becomes part of an argv."""
        return dict(self.secrets) | self.env if self.secrets else self.env

    def owner_of(self, number: int) -> int:
        """The unit whose user number the process gets: `number`, unless the folder was prepared for another unit."""
        return self.owner or number


def read_spawn(message: dict[str, Any]) -> SpawnOrder:
    """The order in `message`, which is changed."""
    if message["sandbox"] is not None:
        message["sandbox"] = _sandbox(**message["sandbox"])
    if message["container_spec"] is not None:
        message["container_spec"] = _container_spec(**message["container_spec"])
    return SpawnOrder(**message)


def _sandbox(*, mounts: list[tuple[str, str, bool]], devices: list[str], **rest: Any) -> Sandbox:
    return Sandbox(mounts=tuple(Mount(*mount) for mount in mounts), devices=tuple(devices), **rest)


def _container_spec(
    *, engine: dict[str, Any], mounts: list[dict[str, Any]], devices: list[str], **rest: Any
) -> ContainerSpec:
    return ContainerSpec(
        engine=Engine(**engine), mounts=tuple(Mount(**mount) for mount in mounts), devices=tuple(devices), **rest
    )
