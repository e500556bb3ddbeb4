"""One pass over the ready set: what starts now, who gives way, and what is kept for whom."""

from __future__ import annotations

from rota.decide import estimates, fairness, preemption, ready, reservation, rooms
from rota.decide.books import URGENT_RANK, Books
from rota.decide.messages import Decision, Start
from rota.decide.placement import Placement
from rota.decide.state import CoreState, Kind, KindName, Need, Node, Tenant
from rota.model.queue import ReadyTask

MOST_UNSURE = 32  # tenants of a kind passed over in one pass because nobody knows how long their work takes

Candidate = tuple[int, int, int]  # the tenant's key, the tenant, the kind's place in the pass's list


class Pass:
    def __init__(self, state: CoreState, placement: Placement, books: Books, now_us: int, at_most: int) -> None:
        self._state = state
        self._placement = placement
        self._books = books
        self._now = now_us
        self._left = at_most
        self._decisions: list[Decision] = []
        self._aside: list[tuple[KindName, Tenant]] = []  # passed over; they stand in line again afterwards
        self._blocked: ReadyTask | None = None  # the rank's first task that found no room
        self._reserved = False  # a place was looked for already in this rank
        self._demoted: list[tuple[KindName, Tenant]] = []  # urgent, but their tenant has its share of urgency

    def run(self) -> list[Decision]:
        self._look_at_the_load()
        ranks = sorted({name[0] for name in self._state.kinds})
        if self._demoted_possible(ranks):
            ranks = sorted({*ranks, 2})
        for rank in ranks:
            if self._left <= 0:
                break
            if rank % 2 and self._state.peak:
                continue  # a gated lane waits for quieter times
            self._blocked, self._reserved = None, False
            self._serve_reservation(rank)
            self._serve(rank)
        for name, tenant in self._aside:
            kind = self._state.kinds.get(name)
            if kind is not None and tenant.id in kind.tasks and name not in tenant.parked:
                fairness.enter(kind, tenant)
        return self._decisions

    def _demoted_possible(self, ranks: list[int]) -> bool:
        return bool(ranks) and ranks[0] == URGENT_RANK

    # ---- the load -------------------------------------------------------------------------------------------------

    def _look_at_the_load(self) -> None:
        state, policy = self._state, self._state.policy
        load = rooms.utilisation_ppm(state)
        if state.peak:
            state.peak = load >= policy.peak_ppm - policy.peak_slack_ppm
        else:
            state.peak = load >= policy.peak_ppm

    def _is_kept(self, need: Need) -> bool:
        """Whether starting it would eat into what is kept for urgent work above the peak mark."""
        state, policy = self._state, self._state.policy
        if not policy.urgent_kept_ppm or state.urgent_seen_us is None:
            return False
        if self._now - state.urgent_seen_us > policy.urgent_memory_us:
            return False
        for place, amount in need.amounts:
            total = state.total[place] if place < len(state.total) else 0
            kept = total * policy.urgent_kept_ppm // 1_000_000
            if kept >= amount and state.used[place] + amount > total - kept:
                return True
        return False

    # ---- one rank -------------------------------------------------------------------------------------------------

    def _serve(self, rank: int) -> None:
        state = self._state
        kinds = [(name, kind) for name, kind in state.kinds.items() if name[0] == rank and kind.open]
        line: list[Candidate] = []
        for number, (name, kind) in enumerate(kinds):
            tenant = ready.top(state, name, kind)
            if tenant is not None:
                line.append((tenant.key, tenant.id, number))
        if rank == 2:
            for name, tenant in self._demoted:
                if name in state.kinds:
                    kinds.append((name, state.kinds[name]))
                    line.append((tenant.key, tenant.id, len(kinds) - 1))
        unsure: dict[KindName, int] = {}
        while line and self._left > 0:
            best = min(line)
            tenant = state.tenants[best[1]]
            name, kind, entry = self._own_first(kinds, line, tenant, best)
            if entry is None:
                self._refresh(kinds, line, tenant)
                continue
            task = state.ready[entry[1]]
            self._try(rank, name, kind, tenant, task, unsure)
            self._refresh(kinds, line, tenant)

    def _own_first(
        self, kinds: list[tuple[KindName, Kind]], line: list[Candidate], tenant: Tenant, best: Candidate
    ) -> tuple[KindName, Kind, ready.Entry | None]:
        """The tenant's own order decides between its kinds."""
        name, kind = kinds[best[2]]
        entry = ready.head(self._state, name, kind, tenant)
        if len(tenant.kinds) > 1:
            for other, _ in list(tenant.kinds.items()):
                if other[0] != name[0] or other == name or other in tenant.parked:
                    continue
                rival_kind = self._state.kinds[other]
                if not rival_kind.open or rival_kind.entries.get(tenant.id) is None:
                    continue
                rival = ready.head(self._state, other, rival_kind, tenant)
                if rival is not None and (entry is None or rival < entry):
                    name, kind, entry = other, rival_kind, rival
        return name, kind, entry

    def _refresh(self, kinds: list[tuple[KindName, Kind]], line: list[Candidate], tenant: Tenant) -> None:
        """Only the tenant just looked at has another place in line now."""
        state = self._state
        for place in range(len(line) - 1, -1, -1):
            _, number, index = line[place]
            name, kind = kinds[index]
            if not kind.open or name not in state.kinds:
                del line[place]
            elif number == tenant.id or kind.entries.get(number) is None:
                top = ready.top(state, name, kind)
                if top is None:
                    del line[place]
                else:
                    line[place] = (top.key, top.id, index)

    # ---- one task -------------------------------------------------------------------------------------------------

    def _try(
        self, rank: int, name: KindName, kind: Kind, tenant: Tenant, task: ReadyTask, unsure: dict[KindName, int]
    ) -> None:
        state = self._state
        need = state.needs[task.shape]
        limit = state.policy.pool_running_limit
        if limit is not None and len(state.running) >= limit:
            self._left = 0
            return
        if self._over_limit(tenant, task):
            ready.park(state, name, kind, tenant)
            return
        if rank == URGENT_RANK and self._urgent_enough(tenant, need):
            self._put_aside(name, kind, tenant)
            self._demoted.append((name, tenant))
            return
        if rank != URGENT_RANK and self._is_kept(need):
            kind.open = False
            kind.brief = True
            return
        if rank % 2 and self._would_peak(need):
            kind.open = False
            kind.brief = True
            return
        node = self._place(task, need, rank)
        if node is not None:
            self._start(kind, tenant, task, node, rank, behind=False)
            return
        expected = estimates.expected_us(state, task)
        if expected is not None:
            kind.brief = True
            node = self._placement.pick_behind(need, expected_us=expected)
            if node is not None and self._not_in_the_way(node):
                self._start(kind, tenant, task, node, rank, behind=True)
                return
        self._no_room(rank, name, kind, tenant, task, unsure if expected is None else None)

    def _place(self, task: ReadyTask, need: Need, rank: int) -> Node | None:
        state = self._state
        node = self._placement.pick(need, avoid=task.avoid_node)
        if node is None:
            return None
        if self._blocked is not None and not self._reserved and rank not in state.reservations:
            self._reserved = True
            place = reservation.reserve(state, self._blocked, rank, self._now)
            if place is not None:
                state.reservations[rank] = place
        if not state.reservations:
            return node
        if reservation.may_use(state, node, need, task, rank, self._now):
            return node
        other = self._placement.pick(need, avoid=task.avoid_node, refuse=node.id)
        if other is not None and reservation.may_use(state, other, need, task, rank, self._now):
            return other
        return None

    def _start(self, kind: Kind, tenant: Tenant, task: ReadyTask, node: Node, rank: int, *, behind: bool) -> None:
        state = self._state
        ready.take(state, kind, task)
        fairness.served(state, tenant)
        running = self._books.start(task, node, rank, behind=behind, now_us=self._now)
        self._decisions.append(Start(task, node.id, behind, running.devices))
        self._left -= 1

    def _no_room(
        self, rank: int, name: KindName, kind: Kind, tenant: Tenant, task: ReadyTask, unsure: dict[KindName, int] | None
    ) -> None:
        state = self._state
        if self._blocked is None:
            self._blocked = task
            asked = preemption.make_room(state, task, rank, self._now)
            self._decisions += asked
            self._left -= len(asked)
        if unsure is not None and kind.brief and unsure.get(name, 0) < MOST_UNSURE and len(kind.entries) > 1:
            unsure[name] = unsure.get(name, 0) + 1
            self._put_aside(name, kind, tenant)
            return
        kind.open = False

    def _put_aside(self, name: KindName, kind: Kind, tenant: Tenant) -> None:
        kind.entries.pop(tenant.id, None)
        self._aside.append((name, tenant))

    # ---- reservations ---------------------------------------------------------------------------------------------

    def _serve_reservation(self, rank: int) -> None:
        """Whoever has a place kept goes first. One that is not late yet gives it up if it can't use it now."""
        state = self._state
        kept = state.reservations.get(rank)
        if kept is None:
            return
        task = state.ready.get(kept.task)
        if task is None or (not kept.claim and task.start_by_us > self._now):
            del state.reservations[rank]
            self._books.open_all()
            if task is None:
                return
        need = state.needs[task.shape]
        name = ready.kind_name(state, task)
        kind = state.kinds.get(name)
        tenant = state.tenants[task.tenant]
        if kind is None or name in tenant.parked or self._over_limit(tenant, task):
            return
        entry = ready.head(state, name, kind, tenant)
        if entry is None or entry[1] != task.id:
            return
        node = self._placement.pick(need, avoid=task.avoid_node)
        if node is not None and rank in state.reservations:
            del state.reservations[rank]
            self._books.open_all()
            self._start(kind, tenant, task, node, rank, behind=False)

    def _not_in_the_way(self, node: Node) -> bool:
        """Work put behind is over in a moment; where somebody has been preempted for a place, nothing is."""
        ahead = self._now + 2 * self._state.policy.ahead_us
        return all(r.node != node.id or (not r.claim and r.at_us > ahead) for r in self._state.reservations.values())

    # ---- limits ---------------------------------------------------------------------------------------------------

    def _over_limit(self, tenant: Tenant, task: ReadyTask) -> bool:
        demand = self._state.shapes[task.shape].resources
        cpu, memory, most = tenant.cpu_milli_limit, tenant.memory_bytes_limit, tenant.running_limit
        return (
            (cpu is not None and tenant.cpu_milli + demand.cpu_milli > cpu)
            or (memory is not None and tenant.memory_bytes + demand.memory_bytes > memory)
            or (most is not None and tenant.running >= most)
        )

    def _urgent_enough(self, tenant: Tenant, need: Need) -> bool:
        """Whether it holds what its plan allows through the urgent lane, while others wait."""
        if tenant.urgent_held_ppm + need.share_ppm <= tenant.urgent_ppm:
            return False
        return any(other.ready for other in self._state.tenants.values() if other.id != tenant.id)

    def _would_peak(self, need: Need) -> bool:
        state = self._state
        mark = state.policy.peak_ppm
        return any(
            place < len(state.total) and (state.used[place] + amount) * 1_000_000 > state.total[place] * mark
            for place, amount in need.amounts
        )
