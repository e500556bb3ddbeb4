"""Operators: they pause pools, tenants and nodes for a while, through any server, and resume them.

A request may be carried out although its reply is lost, so a resume is repeated until it is acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.simulate.world.database.connection import Lost
from rota.store import catalogue, nodes, tenants

if TYPE_CHECKING:
    from rota.simulate.world.database.contents import Target
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
        number = sorted(self._world.store.tables.nodes.values())
        kinds = {"pool": options.pools, "tenant": sorted(options.tenants), "node": number}
        kind = chance.choice([kind for kind, known in kinds.items() if known])
        target = (kind, chance.choice(kinds[kind]))
        self._request(target, paused=True)
        self._kernel.after(chance.choice((2.0, 20.0, 60.0)), self._resume, target, [False])
        healed_at = max(self._kernel.now, options.seconds)
        self._kernel.at(healed_at + HEALED_SECONDS, self._resume, target, [False])
        self._kernel.at(healed_at + AT_LAST_SECONDS, self._resume, target, [False])

    def _resume(self, target: Target, acknowledged: list[bool]) -> None:
        if not acknowledged[0]:
            self._request(target, paused=False, acknowledged=acknowledged)
            self._kernel.after(PATIENCE_SECONDS, self._resume, target, acknowledged)

    def _request(self, target: Target, *, paused: bool, acknowledged: list[bool] | None = None) -> None:
        servers = self._world.alive_servers()
        if servers:
            server = self._chance.choice(servers)
            self._world.story.tell("operator", f"{'pauses' if paused else 'resumes'} {target[0]} {target[1]}")
            server.spawn(_set_paused(server, target, paused, acknowledged if acknowledged is not None else [False]))


async def _set_paused(server: Server, target: Target, paused: bool, acknowledged: list[bool]) -> None:
    """As in the API: writes the row, sends a hint to the leaders, and waits for their nodes."""
    connection, auditor, (kind, number) = server.connect(), server.world.auditor, target
    try:
        if kind == "pool":
            await catalogue.pause_pool(connection, f"pool{number}", paused=paused)
        elif kind == "tenant":
            await tenants.pause_tenant(connection, f"tenant{number}", paused=paused)
        else:
            await nodes.set_draining(connection, number, draining=paused)
    except Lost:
        return
    acknowledged[0] = True
    since = auditor.pauses.get(target)
    server.hint_poll(server.world.pools)
    if not paused or since is None:
        return
    asked = {"tenant": number if kind == "tenant" else None, "node": number if kind == "node" else None}
    pools = [number] if kind == "pool" else server.world.pools
    left = [await server.recall_paused(pool, **asked) for pool in pools]
    if all(one == 0 for one in left):
        server.world.story.tell("operator", f"is told that nothing of {kind} {number} begins any more")
        auditor.pause_confirmed(target, since)
