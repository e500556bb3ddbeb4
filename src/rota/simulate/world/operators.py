"""Operators: they pause pools and tenants for a while, through any server, and resume them.

A request may be carried out although its reply is lost, so a resume is repeated until it is acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.simulate.world.database.connection import Lost
from rota.store import catalogue, tenants

if TYPE_CHECKING:
    from rota.simulate.world.server import Server
    from rota.simulate.world.world import World

PATIENCE_SECONDS = 3.0
HEALED_SECONDS = 20.0  # a paused server may carry out a pause after healing
AT_LAST_SECONDS = 60.0


class Operators:
    def __init__(self, world: World) -> None:
        self._world = world
        self._kernel = world.kernel
        self._chance = world.kernel.random

    def schedule(self) -> None:
        options = self._world.options
        for _ in range(options.operator_pauses):
            self._kernel.after(self._chance.uniform(1, options.seconds * 0.6), self._pause)

    def _pause(self) -> None:
        options, chance = self._world.options, self._chance
        if chance.random() < 0.5:
            target = f"pool{chance.choice(options.pools)}"
        else:
            target = f"tenant{chance.choice(sorted(options.tenants))}"
        self._request(target, paused=True)
        self._kernel.after(chance.choice((2.0, 20.0, 60.0)), self._resume, target, [False])
        healed_at = max(self._kernel.now, options.seconds)
        self._kernel.at(healed_at + HEALED_SECONDS, self._resume, target, [False])
        self._kernel.at(healed_at + AT_LAST_SECONDS, self._resume, target, [False])

    def _resume(self, target: str, acknowledged: list[bool]) -> None:
        if not acknowledged[0]:
            self._request(target, paused=False, acknowledged=acknowledged)
            self._kernel.after(PATIENCE_SECONDS, self._resume, target, acknowledged)

    def _request(self, target: str, *, paused: bool, acknowledged: list[bool] | None = None) -> None:
        servers = self._world.alive_servers()
        if servers:
            server = self._chance.choice(servers)
            self._world.story.tell("operator", f"{'pauses' if paused else 'resumes'} {target}")
            server.spawn(_set_paused(server, target, paused, acknowledged if acknowledged is not None else [False]))


async def _set_paused(server: Server, target: str, paused: bool, acknowledged: list[bool]) -> None:
    """As in the API: writes the row, then sends a hint to the leaders."""
    connection = server.connect()
    try:
        if target.startswith("pool"):
            await catalogue.pause_pool(connection, target, paused=paused)
        else:
            await tenants.pause_tenant(connection, target, paused=paused)
    except Lost:
        return
    acknowledged[0] = True
    server.hint_poll(server.world.pools)
