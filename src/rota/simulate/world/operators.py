"""Operators at work: they pause pools and tenants for a while, through any server, and let them go on again.

What they asked for may happen although they hear nothing; who paused something asks until it is known to go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rota.simulate.world.database.connection import Lost, SimConnection
from rota.store import catalogue, tenants

if TYPE_CHECKING:
    from rota.simulate.world.server import Server
    from rota.simulate.world.world import World

PATIENCE_SECONDS = 3.0
HEALED_SECONDS = 20.0  # a server that stood still in the middle of a pause may go on with it after things have healed
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
            what = f"pool{chance.choice(options.pools)}"
        else:
            what = f"tenant{chance.choice(sorted(options.tenants))}"
        self._say(what, paused=True)
        self._kernel.after(chance.choice((2.0, 20.0, 60.0)), self._resume, what, [False])
        healed_at = max(self._kernel.now, options.seconds)
        self._kernel.at(healed_at + HEALED_SECONDS, self._resume, what, [False])
        self._kernel.at(healed_at + AT_LAST_SECONDS, self._resume, what, [False])

    def _resume(self, what: str, heard: list[bool]) -> None:
        if not heard[0]:
            self._say(what, paused=False, heard=heard)
            self._kernel.after(PATIENCE_SECONDS, self._resume, what, heard)

    def _say(self, what: str, *, paused: bool, heard: list[bool] | None = None) -> None:
        servers = [one for one in self._world.servers if one is not None and one.alive]
        if servers:
            server = self._chance.choice(servers)
            self._world.story.tell("operator", f"{'pauses' if paused else 'resumes'} {what}")
            server.spawn(_said(server, what, paused, heard if heard is not None else [False]))


async def _said(server: Server, what: str, paused: bool, heard: list[bool]) -> None:
    """As the API has it: the row, then a hint to the leaders."""
    connection = cast(Any, SimConnection(server.store, server))
    try:
        if what.startswith("pool"):
            await catalogue.pause_pool(connection, what, paused=paused)
        else:
            await tenants.pause_tenant(connection, what, paused=paused)
    except Lost:
        return
    heard[0] = True
    server.news_look(server.world.pools)
