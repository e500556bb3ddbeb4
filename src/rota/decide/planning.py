"""One pass over the ready set: what starts now, who gives way, and what is kept for whom."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from rota.decide import concurrency_keys, estimates, fairness, preemption, ready, reservation, rooms
from rota.decide.grants import URGENT_RANK, Books
from rota.decide.messages import Decision, Start
from rota.decide.placement import Placement
from rota.decide.state import CoreState, Need, Node, Rank, Tenant
from rota.model.queue import ReadyTask

NORMAL_RANK = 2
MOST_ASKED = 8  # tasks without room for which somebody is looked for who could give way
MOST_WAVED_ON = 32  # tenants passed over in a pass because their next task can wait long
_NOTHING: dict[int, None] = {}
_order = attrgetter("order")


class Pass:
    def __init__(self, state: CoreState, placement: Placement, books: Books, now_us: int, at_most: int) -> None:
        self._state = state
        self._placement = placement
        self._books = books
        self._now = now_us
        self._left = at_most
        self._most = state.policy.pool_running_limit
        self._decisions: list[Decision] = []
        self._aside: list[tuple[Rank, int, Tenant]] = []  # passed over; they stand in line again afterwards
        self._skip: dict[int, dict[int, None]] = {}  # tenant → shapes not to be tried again in this rank
        self._demoted: dict[int, None] = {}  # tenants with their share of urgency: the rest counts as normal
        self._blocked: ReadyTask | None = None  # the rank's first task that found no room
        self._reserved = False  # a place was looked for already in this rank
        self._full: dict[int, None] = {}  # shapes no node has room for
        self._behind: dict[int, list[tuple[Node, int]]] = {}  # shape → nodes with places that are free soon, how many
        self._beside: dict[tuple[int, int, int], list[list[int]]] = {}  # (tenant, work, shape) → places left, −node
        self._asked = 0
        self._hurried = False  # a round for tasks that can't wait long
        self._waved_on = 0  # tenants passed over in it
        self._kept = self._something_is_kept()

    def run(self) -> list[Decision]:
        state = self._state
        self._look_at_the_load()
        if state.kept and not self._kept:
            ready.open_all(state)  # what was kept is anybody's now
        state.kept = self._kept
        for number in sorted({*state.ranks, NORMAL_RANK}):
            if self._left <= 0:
                break
            if number % 2 and state.peak:
                continue  # a gated lane waits for quieter times
            self._blocked, self._reserved = None, False
            self._skip = {}
            self._remember_blocked(number)
            if number == NORMAL_RANK and self._demoted:
                self._let_demoted_in(number)
            if number in state.ranks:
                self._serve_reservation(number)
                # At the peak, tasks that can wait long give way: a first round goes without them.
                self._hurried, self._waved_on = state.peak and number != URGENT_RANK, 0
                self._serve(number, state.ranks[number])
                if self._waved_on:
                    self._hurried = False
                    self._skip = {}
                    self._line_up()
                    self._serve(number, state.ranks[number])
        self._line_up()
        return self._decisions

    def _remember_blocked(self, number: int) -> None:
        """The task that was first without room in an earlier pass, if it still is: its place is looked for again."""
        state = self._state
        task = state.ready.get(state.blocked.get(number, 0))
        if (
            task is not None
            and concurrency_keys.is_open(state, task)
            and not self._over_limit(state.tenants[task.tenant], task)
        ):
            if self._placement.pick(state.needs[task.shape]) is None:
                self._blocked = task
                self._ask(number, task)
                return
            if number in state.reservations:
                return
        # It is gone, or its turn comes as everybody's does. Who is next without room is seen by looking at all again.
        state.blocked.pop(number, None)
        ready.open_rank(state, number)

    def _line_up(self) -> None:
        """Those who were passed over stand in line again."""
        for rank, number, tenant in self._aside:
            if number in tenant.lines and tenant.id not in rank.entries:
                fairness.enter(rank, tenant)
        self._aside = []

    # ---- the load -------------------------------------------------------------------------------------------------

    def _look_at_the_load(self) -> None:
        state, policy = self._state, self._state.policy
        load = rooms.utilisation_ppm(state)
        mark = policy.peak_ppm - policy.peak_slack_ppm if state.peak else policy.peak_ppm
        state.peak = load >= mark

    def _something_is_kept(self) -> bool:
        """Room is kept for urgent work while there is any to be expected: some was seen in the last while."""
        state, policy = self._state, self._state.policy
        if not policy.urgent_kept_ppm or state.urgent_seen_us is None:
            return False
        return self._now - state.urgent_seen_us <= policy.urgent_memory_us

    def _is_kept(self, need: Need) -> bool:
        """Whether starting it would eat into what is kept. A part too small for anything is not kept."""
        state = self._state
        for place, amount in need.amounts:
            total = state.total[place] if place < len(state.total) else 0
            kept = total * state.policy.urgent_kept_ppm // 1_000_000
            if kept >= amount and state.used[place] + amount > total - kept:
                return True
        return False

    def _is_held_back(self, number: int, need: Need) -> bool:
        return (self._kept and self._is_kept(need)) or (number % 2 == 1 and self._would_peak(need))

    def _would_peak(self, need: Need) -> bool:
        """Whether it would take the pool over its mark. One too big for that goes when nothing else is there."""
        state, mark = self._state, self._state.policy.peak_ppm
        return any(
            place < len(state.total)
            and state.used[place]
            and (state.used[place] + amount) * 1_000_000 > state.total[place] * mark
            for place, amount in need.amounts
        )

    # ---- one rank -------------------------------------------------------------------------------------------------

    def _serve(self, number: int, rank: Rank) -> None:
        state, skips, closed = self._state, self._skip, rank.closed
        demoted = self._demoted if number == NORMAL_RANK else _NOTHING
        if not demoted and not any(kind.ready for kind in rank.open.values()):
            return  # every tenant would find out by itself
        while self._left > 0:
            tenant = ready.top(state, rank)
            if tenant is None:
                return
            skip = skips.get(tenant.id, _NOTHING)
            found = ready.first(state, number, rank, tenant, skip)
            if demoted and tenant.id in demoted:
                urgent = ready.first(state, URGENT_RANK, state.ranks[URGENT_RANK], tenant, skip)
                found = min(urgent, found, key=_order) if urgent and found else urgent or found
            if found is None:
                rank.entries.pop(tenant.id, None)
                self._aside.append((rank, number, tenant))
                continue
            if self._hurried and found.start_by_us - self._now > state.policy.long_slack_us:
                if self._waved_on >= MOST_WAVED_ON:
                    return
                self._waved_on += 1
                rank.entries.pop(tenant.id, None)
                self._aside.append((rank, number, tenant))
                continue
            known = len(closed)
            if not self._try(number, tenant, found):
                skips.setdefault(tenant.id, {})[found.shape] = None
            elif len(closed) == known:
                fairness.move_back(rank, tenant)
            elif not any(kind.ready for kind in rank.open.values()):
                return

    def _let_demoted_in(self, number: int) -> None:
        rank = self._state.ranks.setdefault(number, Rank())
        for tenant_id in self._demoted:
            tenant = self._state.tenants[tenant_id]
            if tenant_id not in rank.entries:
                fairness.enter(rank, tenant)

    # ---- one task -------------------------------------------------------------------------------------------------

    def _try(self, number: int, tenant: Tenant, task: ReadyTask) -> bool:
        """Whether the tenant may be asked again for the same shape: it started, or the shape is closed for all."""
        state, shape = self._state, task.shape
        need = state.needs[shape]
        if self._most is not None and len(state.running) >= self._most:
            self._left = 0
            return True
        if tenant.limited and self._over_limit(tenant, task):
            tenant.stuck[shape] = None
            return True
        if number == URGENT_RANK:
            if self._urgent_enough(tenant, need):
                self._demoted[tenant.id] = None
                return False
        elif (self._kept or number % 2) and self._is_held_back(number, need):
            if ready.rank_of(state, task.lane) != number:
                return False
            if number % 2:
                self._no_room(number, task)
            ready.note_brief(state, (number, shape))
            ready.close(state, (number, shape))
            return True
        node = None
        if shape not in self._full:
            node = self._placement.pick(need, avoid=task.avoid_node)
            if node is None:
                self._full[shape] = None  # room is only taken in a pass, never given back
            elif self._blocked is not None or state.reservations:
                node = self._beside_reservations(node, task, need, number)
        if node is None and state.reservations:
            task, node = self._backfill(task, need, number, tenant)
        if node is not None:
            self._start(tenant, task, node, need, number, behind=False)
            return True
        name = (number, shape)
        expected = estimates.expected_us(state, task)
        shared = state.calls_per_grant.get((task.tenant, task.work), 1) if state.calls_per_grant else 1
        if expected is not None or shared > 1:
            if name in state.kinds:
                ready.note_brief(state, name)
            node = self._pick_behind(need, expected) if expected is not None else self._pick_beside(task, shared)
            if node is not None and (not state.reservations or self._not_in_the_way(node)):
                self._start(tenant, task, node, need, number, behind=True)
                return True
        self._no_room(number, task)
        if ready.rank_of(state, task.lane) != number:
            return False  # demoted: its own kind is another rank's
        if expected is None and state.kinds[name].brief:
            return False  # nobody knows how long this one takes; another tenant's may still go behind
        ready.close(state, name)
        return True

    def _beside_reservations(self, node: Node, task: ReadyTask, need: Need, number: int) -> Node | None:
        """The node or another one, if the task may start there without delaying those a place is kept for."""
        state = self._state
        if self._blocked is not None and not self._reserved and number not in state.reservations:
            self._reserved = True
            place = reservation.reserve(state, self._blocked, number, self._now)
            if place is not None:
                state.reservations[number] = place
        if not state.reservations or reservation.may_use(state, node, need, task, number, self._now):
            return node
        other = self._placement.pick(need, avoid=task.avoid_node, refuse=node.id)
        if other is not None and reservation.may_use(state, other, need, task, number, self._now):
            return other
        return None

    def _backfill(self, task: ReadyTask, need: Need, number: int, tenant: Tenant) -> tuple[ReadyTask, Node | None]:
        """The shape has room that is kept for somebody: one of its shorter tasks may be over in time."""
        node = self._placement.pick(need)
        line = tenant.lines.get(number)
        heap = line.heaps.get(task.shape) if line is not None else None
        if node is None or heap is None:
            return task, None
        until = min(
            (r.at_us for r in self._state.reservations.values() if r.node == node.id and not r.claim), default=0
        )
        other = ready.shorter(self._state, heap, until - self._now)
        if other is None or not reservation.may_use(self._state, node, need, other, number, self._now):
            return task, None
        return other, node

    def _start(self, tenant: Tenant, task: ReadyTask, node: Node, need: Need, number: int, *, behind: bool) -> None:
        state = self._state
        ready.take(state, tenant, task, number)
        # Before it is charged: who is served stands lowest, so this is where the line begins.
        state.served, state.floor_key = tenant.id, tenant.key
        running = self._books.start(task, node, need, tenant, number, behind=behind, now_us=self._now)
        self._decisions.append(Start(task, node.id, behind, running.devices))
        self._left -= 1

    def _pick_behind(self, need: Need, expected_us: int) -> Node | None:
        """The node whose present work ends soonest, if the task would wait there no longer than is worth it."""
        policy = self._state.policy
        near = self._behind.get(need.shape)
        if near is None:
            # Only those that have come down to half of it: they are filled up by many at once, not one by one.
            near = self._behind[need.shape] = [
                (node, places)
                for node, places in self._placement.moving(need)
                if 2 * node.behind_us < policy.ahead_us * places
            ]
        best: Node | None = None
        best_wait, most = policy.ahead_us, policy.most_behind
        for node, moving in near:
            wait = (node.behind_us + expected_us) // moving
            if wait <= best_wait and len(node.behind) < most:
                best, best_wait = node, wait - 1
        return best

    def _pick_beside(self, task: ReadyTask, calls_per_grant: int) -> Node | None:
        """The node where the most of such work may still join what has a grant there: they run at the same time."""
        like = (task.tenant, task.work, task.shape)
        places = self._beside.get(like)
        if places is None:
            places = self._beside[like] = [
                [left, -node.id]
                for node in self._placement.near_open()
                if (left := self._left_beside(node, like, calls_per_grant)) > 0
            ]
        best = max(places, default=None)
        if best is None or not best[0]:
            return None
        best[0] -= 1
        return self._state.nodes[-best[1]]

    def _left_beside(self, node: Node, like: tuple[int, int, int], calls_per_grant: int) -> int:
        running = self._state.running

        def alike(tasks: Iterable[int]) -> int:
            return sum((r := running[task]).tenant == like[0] and (r.work, r.shape) == like[1:] for task in tasks)

        granted = alike(node.held)
        room = self._state.policy.most_behind - len(node.behind)
        return min(room, granted * (calls_per_grant - 1) - alike(node.behind)) if granted else 0

    def _no_room(self, number: int, task: ReadyTask) -> None:
        state = self._state
        if not self._placement.fits_some(state.needs[task.shape]):
            return  # nothing to wait for: the demand signal tells
        if self._blocked is None:
            self._blocked = task
            state.blocked[number] = task.id
        self._ask(number, task)

    def _ask(self, number: int, task: ReadyTask) -> None:
        if self._state.preemptible and self._asked < MOST_ASKED:
            self._asked += 1
            preempted = preemption.make_room(self._state, task, number, self._now)
            self._decisions += preempted
            self._left -= len(preempted)

    # ---- reservations ---------------------------------------------------------------------------------------------

    def _serve_reservation(self, number: int) -> None:
        """Whoever has a place kept goes first. One that is not late yet gives it up if it can't use it now."""
        state = self._state
        kept = state.reservations.get(number)
        if kept is None:
            return
        task = state.ready.get(kept.task)
        if task is None or (not kept.claim and task.start_by_us > self._now):
            del state.reservations[number]
            ready.open_all(state)
            return
        tenant = state.tenants[task.tenant]
        need = state.needs[task.shape]
        if self._over_limit(tenant, task) or not concurrency_keys.is_open(state, task):
            del state.reservations[number]  # it may not run: its place would stand idle
            ready.open_all(state)
            return
        if self._most is not None and len(state.running) >= self._most:
            return
        node = self._placement.pick(need, avoid=task.avoid_node)
        if node is not None and not (number % 2 and self._would_peak(need)):
            del state.reservations[number]
            ready.open_all(state)
            self._start(tenant, task, node, need, number, behind=False)

    def _not_in_the_way(self, node: Node) -> bool:
        """Work put behind is over in a moment; where somebody has been preempted for a place, nothing is."""
        ahead = self._now + 2 * self._state.policy.ahead_us
        return all(r.node != node.id or (not r.claim and r.at_us > ahead) for r in self._state.reservations.values())

    # ---- limits ---------------------------------------------------------------------------------------------------

    def _over_limit(self, tenant: Tenant, task: ReadyTask) -> bool:
        if not tenant.limited:
            return False
        if tenant.paused:
            return True
        cpu, memory, most = tenant.cpu_milli_limit, tenant.memory_bytes_limit, tenant.running_limit
        demand = self._state.shapes[task.shape].resources
        return (
            (cpu is not None and tenant.cpu_milli + demand.cpu_milli > cpu)
            or (memory is not None and tenant.memory_bytes + demand.memory_bytes > memory)
            or (most is not None and tenant.running >= most)
        )

    def _urgent_enough(self, tenant: Tenant, need: Need) -> bool:
        """Whether it holds what its plan allows through the urgent lane, while others wait."""
        if tenant.urgent_held_ppm + need.share_ppm <= tenant.urgent_ppm:
            return False
        return len(self._state.ready) > tenant.ready
