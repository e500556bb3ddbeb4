"""Fair shares: the next tenant is the one that has held the least of the pool for the least time, by weight.

A tenant is charged its dominant share of the pool for the time it holds it: at the start the usual run time of such
work, at the end the real one. A charge loses half its worth every half-life. Instead of shrinking every tenant's charge
all the time, new charges grow: the order is the same, and a tenant's key changes only when one of its own attempts
starts or ends.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace

from rota.decide.state import CoreState, RankQueue, Running, Tenant

MOST_DOUBLINGS = 40
SLOT_US = 1_000_000


class Dues:
    """When to check whether running tasks run longer than they were charged for, to the second.

    Every start adds an entry, and most tasks have ended by then, so an entry must cost next to nothing: a list for each
    second instead of one order of all.
    """

    def __init__(self) -> None:
        self._slots: dict[int, list[int]] = {}  # second → tasks
        self._order: list[int] = []  # a heap of the seconds

    def add(self, due_us: int, task: int) -> None:
        second = -(-due_us // SLOT_US)
        slot = self._slots.get(second)
        if slot is None:
            slot = self._slots[second] = []
            heappush(self._order, second)
        slot.append(task)

    def take(self, now_us: int) -> list[int]:
        """Removes and returns the tasks whose second has come."""
        due: list[int] = []
        while self._order and self._order[0] * SLOT_US <= now_us:
            due += self._slots.pop(heappop(self._order))
        return due


def inflation(state: CoreState, now_us: int) -> tuple[int, int]:
    """The worth of a charge made now, as a fraction: doubles every half-life, linear in between."""
    if state.inflation[0] == now_us:
        return state.inflation[1], state.inflation[2]
    half_life = state.policy.half_life_us
    if state.inflation_from_us is None:
        state.inflation_from_us = now_us
    doublings, rest = divmod(max(0, now_us - state.inflation_from_us), half_life)
    if doublings > MOST_DOUBLINGS:
        _deflate(state, doublings)
        doublings = 0
    state.inflation = (now_us, (1 << doublings) * (half_life + rest), half_life)
    return state.inflation[1], state.inflation[2]


def charge_the_long(state: CoreState, dues: Dues, now_us: int) -> None:
    """Tasks that run longer than they were charged for are charged ahead, for as long again as they have run."""
    held, tenants = state.running, state.tenants
    for number in dues.take(now_us):
        running = held.get(number)
        if running is None or not running.granted:
            continue
        charged, charged_us, run_us = running.charged, running.charged_us, now_us - running.since_us
        if run_us < charged_us:
            continue  # the entry is of an earlier attempt; this one has its own
        more = 2 * charged * run_us // charged_us - charged
        tenants[running.tenant].key += more
        running.charged, running.charged_us = charged + more, 2 * run_us
        dues.add(now_us + run_us, number)


def correct(state: CoreState, tenant: Tenant, running: Running, now_us: int) -> None:
    """At the end: replaces the charge by the real cost, in the units of the moment it was charged."""
    held_us = state.policy.overhead_us  # no attempt is free of charge, so tenants of tiny tasks take turns
    if running.granted and running.since_us < now_us:
        held_us += now_us - running.since_us
    charged = running.charged
    more = charged * held_us // (running.charged_us or 1) - charged
    tenant.key += more
    if more < 0:
        for number in tenant.queues:  # its key is lower than its entries say
            rank = state.ranks[number]
            if tenant.id in rank.entries:
                enter(rank, tenant)


def enter(queue: RankQueue, tenant: Tenant) -> None:
    """Adds the tenant's one valid entry; `next_tenant` drops earlier ones when it meets them."""
    queue.entries[tenant.id] = tenant.key
    heappush(queue.heap, (tenant.key, tenant.id))


def move_back(queue: RankQueue, tenant: Tenant) -> None:
    """The first tenant was charged: its entry moves back."""
    key = tenant.key
    if key != queue.heap[0][0]:
        queue.entries[tenant.id] = key
        heapreplace(queue.heap, (key, tenant.id))


def come_back(state: CoreState, tenant: Tenant) -> None:
    """A tenant that was idle begins with the lowest charge of the busy ones: idle time earns no advantage."""
    if tenant.queues or tenant.running:
        return
    floor = state.floor_key
    if state.served is not None:
        floor = min(floor, state.tenants[state.served].key)
    for rank in state.ranks.values():
        lowest = _lowest(state, rank)
        if lowest is not None:
            floor = min(floor, lowest)
    tenant.key = max(tenant.key, floor)


def _lowest(state: CoreState, rank: RankQueue) -> int | None:
    heap, entries = rank.heap, rank.entries
    while heap and entries.get(heap[0][1]) != heap[0][0]:
        heappop(heap)
    return state.tenants[heap[0][1]].key if heap else None


def saved(state: CoreState, now_us: int) -> dict[int, int]:
    """Charges at their present worth, to be saved for the next leader."""
    times, by = inflation(state, now_us)
    return {number: tenant.key * by // times for number, tenant in state.tenants.items() if tenant.key}


def restore(state: CoreState, charged: dict[int, int], saved_us: int, now_us: int) -> None:
    halvings = max(0, now_us - saved_us) // state.policy.half_life_us
    times, by = inflation(state, now_us)
    for number, amount in charged.items():
        tenant = state.tenants.get(number)
        if tenant is not None:
            tenant.key = max(tenant.key, (amount >> min(halvings, 64)) * times // by)
    state.floor_key = min((state.tenants[number].key for number in charged if number in state.tenants), default=0)
    for number, tenant in state.tenants.items():
        if number not in charged:
            tenant.key = max(tenant.key, state.floor_key)


def _deflate(state: CoreState, doublings: int) -> None:
    """After many half-lives: divides every charge by a whole number of doublings."""
    assert state.inflation_from_us is not None
    state.inflation_from_us += doublings * state.policy.half_life_us
    state.floor_key >>= doublings
    for tenant in state.tenants.values():
        tenant.key >>= doublings
    for running in state.running.values():
        running.charged >>= doublings
    for rank in state.ranks.values():
        rank.entries = {number: state.tenants[number].key for number in rank.entries}
        rank.heap = [(key, number) for number, key in rank.entries.items()]
        heapify(rank.heap)
