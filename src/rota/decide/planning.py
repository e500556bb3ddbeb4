"""One pass over the ready set, as a recipe: `plan` and `_serve` call the six steps, which follow in that order.

A pass only takes free resources and never returns any, so a shape that found no node in it finds none later in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heapreplace
from operator import attrgetter

from rota.decide import concurrency_keys, estimates, fairness, limits, preemption, ready, reservation
from rota.decide.grants import URGENT_RANK, Grants
from rota.decide.messages import Decision
from rota.decide.placement import Placement
from rota.decide.prefetch import Prefetch
from rota.decide.ready import is_gated
from rota.decide.state import Blocked, CoreState, Need, Node, RankQueue, Tenant
from rota.decide.turn import Pass, Turn
from rota.model.queue import ReadyTask

NORMAL_RANK = 2
MOST_ASKED = 8  # tasks in a pass for which preemption is considered
MOST_WAVED_ON = 32  # tenants passed over in a turn because their next task can wait long
_NOTHING: dict[int, None] = {}
_order = attrgetter("order")


def plan(state: CoreState, placement: Placement, grants: Grants, now_us: int, at_most: int) -> list[Decision]:
    """The recipe. Step 1 is here, steps 2 to 6 are in `_serve`."""
    run = _begin(state, placement, grants, now_us, at_most)
    for rank in ranks_to_serve(run):  # 1. ranks of lanes in order
        turn = _begin_turn(run, rank)
        _serve(run, turn)
        if turn.waved_on:  # a second round serves the tenants that were passed over
            run.queue_again()
            turn.hurried, turn.over, turn.skip = False, False, {}
            _serve(run, turn)
    run.queue_again()
    return run.decisions


def _serve(run: Pass, turn: Turn) -> None:
    """Serves one rank, task by task, until nothing more of it can start."""
    state, queue = run.state, turn.queue
    if not turn.takes_demoted and not _has_open(queue):
        return
    while run.left > 0 and not turn.over:
        tenant = next_tenant(state, queue)  # 2. the tenant that has held least
        if tenant is None:
            return
        task = first_task(run, turn, tenant)  # 3. its own first task
        if task is None:
            continue
        need, closed = state.needs[task.shape], len(queue.closed)
        if not (
            ((tenant.limited or turn.has_limits) and _is_held_back(run, turn, tenant, task, need))
            or start_now(run, turn, tenant, task, need)  # 4. on a node with free resources
            or start_behind(run, turn, tenant, task, need)  # 5. else behind short work
        ):
            make_way(run, turn, tenant, task)  # 6. else others give way, or it gets a reservation
        if len(queue.closed) == closed:
            fairness.move_back(queue, tenant)
        elif not _has_open(queue):
            return


# ---- step 1: ranks in order ------------------------------------------------------------------------------------------


def ranks_to_serve(run: Pass) -> Iterator[int]:
    """Ranks of lanes, the lowest first; gated ones only below the peak mark."""
    state = run.state
    for rank in sorted({*state.ranks, NORMAL_RANK}):
        if run.left <= 0:
            return
        if is_gated(rank) and state.peak:
            continue
        if rank == NORMAL_RANK and run.demoted:
            _let_demoted_in(run)
        if rank in state.ranks:
            yield rank


def _let_demoted_in(run: Pass) -> None:
    queue = run.state.ranks.setdefault(NORMAL_RANK, RankQueue())
    for tenant in run.demoted:
        if tenant not in queue.entries:
            fairness.enter(queue, run.state.tenants[tenant])


# ---- step 2: the tenant that has held least --------------------------------------------------------------------------


def next_tenant(state: CoreState, queue: RankQueue) -> Tenant | None:
    """The tenant with the lowest charge as it is now. Entries with an older charge are put right on the way."""
    heap, entries, tenants = queue.heap, queue.entries, state.tenants
    while heap:
        key, number = heap[0]
        if entries.get(number) != key:
            heappop(heap)  # the tenant has another entry, or none any more
            continue
        tenant = tenants[number]
        if (now := tenant.key) == key:
            return tenant
        entries[number] = now
        heapreplace(heap, (now, number))
    return None


# ---- step 3: the tenant's own first task -----------------------------------------------------------------------------


def first_task(run: Pass, turn: Turn, tenant: Tenant) -> ReadyTask | None:
    """The tenant's first task that may find a node. A tenant without one is passed over."""
    number, queue = tenant.id, turn.queue
    skip = turn.skip.get(number, _NOTHING)
    task = ready.first(run.state, turn.rank, queue, tenant, skip)
    if turn.takes_demoted and number in run.demoted:
        task = _first_of(task, ready.first(run.state, URGENT_RANK, run.state.ranks[URGENT_RANK], tenant, skip))
    if task is not None:
        if not turn.hurried or task.late_us - run.now_us <= run.state.policy.long_slack_us:
            return task
        if turn.waved_on >= MOST_WAVED_ON:
            turn.over = True
            return None
        turn.waved_on += 1
    queue.entries.pop(number, None)
    run.passed_over.append((turn.rank, tenant))
    return None


def _first_of(normal: ReadyTask | None, urgent: ReadyTask | None) -> ReadyTask | None:
    return min(urgent, normal, key=_order) if urgent and normal else urgent or normal


def _is_held_back(run: Pass, turn: Turn, tenant: Tenant, task: ReadyTask, need: Need) -> bool:
    """Whether a limit forbids the start, whatever is free. Marks what need not be tried again."""
    state = run.state
    if turn.running_limit is not None and len(state.running) >= turn.running_limit:
        run.left = 0
        return True
    if tenant.limited and limits.over_tenant_limit(state, tenant, task):
        tenant.stuck[task.shape] = None
        return True
    if turn.rank == URGENT_RANK:
        if not limits.over_urgent_share(state, tenant, need):
            return False
        run.demoted[tenant.id] = None
        turn.skip_shape(tenant, task.shape)
        return True
    if not _exceeds_mark(run, turn.rank, task, need):
        return False
    if _is_demoted(state, turn, task):
        turn.skip_shape(tenant, task.shape)
        return True
    _note_blocked(run, turn, task)
    ready.note_brief(state, (turn.rank, task.shape))
    ready.close(state, (turn.rank, task.shape))
    return True


def _exceeds_mark(run: Pass, rank: int, task: ReadyTask, need: Need) -> bool:
    """Whether a start would use capacity kept for urgent work, or take the pool over its peak mark.

    Firm reservations count as used: else small tasks could take what a big one waits for on other nodes.
    """
    state, gated = run.state, is_gated(rank)
    if rank == URGENT_RANK or not (gated or run.keeps_for_urgent):
        return False
    used = state.used
    for kept in state.reservations.values():
        if kept.firm and kept.rank <= rank and kept.task != task.id and (other := state.ready.get(kept.task)):
            used = limits.used_with(used, state.needs[other.shape])
    return (run.keeps_for_urgent and limits.kept_dimension(state, need, used) is not None) or (
        gated and limits.would_exceed_peak(state, need, used)
    )


# ---- step 4: a node with free resources ------------------------------------------------------------------------------


def start_now(run: Pass, turn: Turn, tenant: Tenant, task: ReadyTask, need: Need) -> bool:
    """Starts the task, or a shorter one of its shape, where resources are free and not reserved."""
    state, shape = run.state, task.shape
    node = None
    if shape not in run.full:
        node = run.placement.pick(need, avoid=task.avoid_node)
        if node is None:
            run.full[shape] = None
        elif _reserve_for_blocked(run, turn):
            node = _beside_reservations(run, turn, node, task, need)
    if node is None and state.reservations:
        task, node = _backfill(run, turn, tenant, task, need)
    if node is None:
        return False
    run.start(turn.rank, tenant, task, node, need, behind=False)
    return True


def _reserve_for_blocked(run: Pass, turn: Turn, *, behind: bool = False) -> bool:
    """Before another task starts, the rank's blocked task gets a reservation. Returns whether any node is reserved."""
    state, rank = run.state, turn.rank
    if turn.blocked is not None and not turn.reserved and rank not in state.reservations:
        if behind and estimates.expected_us(state, turn.blocked) is not None:
            return bool(state.reservations)  # it is short and will wait behind others in its turn
        turn.reserved = True
        reserved = reservation.reserve(state, turn.blocked, rank, run.now_us)
        if reserved is not None:
            reservation.keep(state, reserved, run.now_us)
    return bool(state.reservations)


def _beside_reservations(run: Pass, turn: Turn, node: Node, task: ReadyTask, need: Need) -> Node | None:
    """The node or another one, if a start there delays no task with a reservation."""
    state, rank = run.state, turn.rank
    if reservation.may_use(state, node, need, task, rank, run.now_us):
        return node
    other = run.placement.pick(need, avoid=task.avoid_node, refuse=node.id)
    if other is not None and reservation.may_use(state, other, need, task, rank, run.now_us):
        return other
    return None


def _backfill(run: Pass, turn: Turn, tenant: Tenant, task: ReadyTask, need: Need) -> tuple[ReadyTask, Node | None]:
    """A shorter task of the shape that ends before the reservation begins, and the node for it."""
    state = run.state
    node = run.placement.pick(need)
    line = tenant.queues.get(turn.rank)
    heap = line.heaps.get(task.shape) if line is not None else None
    if node is None or heap is None:
        return task, None
    until_us = min((r.at_us for r in state.reservations.values() if r.node == node.id and not r.preempting), default=0)
    other = ready.shorter(state, heap, until_us - run.now_us)
    if other is None or not reservation.may_use(state, node, need, other, turn.rank, run.now_us):
        return task, None
    return other, node


# ---- step 5: else behind short work ----------------------------------------------------------------------------------


def start_behind(run: Pass, turn: Turn, tenant: Tenant, task: ReadyTask, need: Need) -> bool:
    """Prefetches the task to a node where it waits a moment at most, or shares a grant."""
    state = run.state
    expected = estimates.expected_us(state, task)
    shared = state.calls_per_grant.get((task.tenant, task.work), 1) if state.calls_per_grant else 1
    if expected is None and shared <= 1:
        return False
    name = (turn.rank, task.shape)
    if name in state.groups:
        ready.note_brief(state, name)
    node = run.prefetch.pick_beside(task, shared) if expected is None else run.prefetch.pick_behind(need, expected)
    if node is None:
        return False
    if _reserve_for_blocked(run, turn, behind=True) and not reservation.leaves_time(state, node, task, run.now_us):
        return False
    run.start(turn.rank, tenant, task, node, need, behind=True)
    return True


# ---- step 6: else preemption or a reservation ------------------------------------------------------------------------


def make_way(run: Pass, turn: Turn, tenant: Tenant, task: ReadyTask) -> None:
    """Notes the rank's first task that fits nowhere, asks others to give way, and closes its group."""
    state = run.state
    _note_blocked(run, turn, task)
    name = (turn.rank, task.shape)
    if _is_demoted(state, turn, task) or (state.groups[name].brief and estimates.expected_us(state, task) is None):
        turn.skip_shape(tenant, task.shape)  # another task of the group may still start behind short work
    else:
        ready.close(state, name)


def _note_blocked(run: Pass, turn: Turn, task: ReadyTask) -> None:
    """The first blocked task of a rank gets a reservation as soon as another task would start before it."""
    state = run.state
    if not run.placement.fits_some(state.needs[task.shape]):
        return  # no node could ever hold it: the demand signal says so
    if turn.blocked is None:
        turn.blocked = task
        state.blocked[turn.rank] = Blocked(task.id)
    _ask(run, turn.rank, task)


def _ask(run: Pass, rank: int, task: ReadyTask) -> None:
    if run.state.preemptible and run.asked < MOST_ASKED:
        run.asked += 1
        preempted = preemption.make_room(run.state, task, rank, run.now_us)
        run.decisions += preempted
        run.left -= len(preempted)


# ---- the beginning of a pass and of a turn ---------------------------------------------------------------------------


def _begin(state: CoreState, placement: Placement, grants: Grants, now_us: int, at_most: int) -> Pass:
    keeps = limits.keeps_for_urgent(state, now_us)
    limits.update_peak(state)
    if state.kept and not keeps:
        ready.open_all(state)  # any task may use what was kept
    state.kept = keeps
    return Pass(state, placement, grants, Prefetch(state, placement), now_us, at_most, keeps)


def _begin_turn(run: Pass, rank: int) -> Turn:
    """The rank's blocked task and its reservation come before its queue."""
    state = run.state
    gated, running_limit = is_gated(rank), state.policy.pool_running_limit
    turn = Turn(
        rank,
        state.ranks[rank],
        gated=gated,
        running_limit=running_limit,
        has_limits=rank == URGENT_RANK or gated or run.keeps_for_urgent or running_limit is not None,
        takes_demoted=rank == NORMAL_RANK and bool(run.demoted),
        hurried=state.peak and rank != URGENT_RANK,  # at the peak, a first round goes without tasks that can wait long
    )
    _recall_blocked(run, turn)
    _serve_reservation(run, rank)
    return turn


def _recall_blocked(run: Pass, turn: Turn) -> None:
    """The task that was blocked in an earlier pass, if it still is: a node is looked for again."""
    state, rank = run.state, turn.rank
    blocked = state.blocked.get(rank)
    task = None if blocked is None else state.ready.get(blocked.task)
    if (
        task is not None
        and run.placement.fits_some(state.needs[task.shape])
        and concurrency_keys.is_open(state, task)
        and not limits.over_tenant_limit(state, state.tenants[task.tenant], task)
    ):
        need = state.needs[task.shape]
        if run.placement.pick(need) is None or _exceeds_mark(run, rank, task, need):
            turn.blocked = task
            _ask(run, rank, task)
            return
        if rank in state.reservations:
            return
    # It is gone, or takes its turn in the queue. Every group is tried again to find the next blocked task.
    state.blocked.pop(rank, None)
    ready.open_rank(state, rank)


def _serve_reservation(run: Pass, rank: int) -> None:
    """Starts the rank's task with a reservation if it fits now.

    A reservation that is not firm is given up if its task is not late: the next one may be on a better node.
    """
    state = run.state
    kept = state.reservations.get(rank)
    if kept is None:
        return
    task = state.ready.get(kept.task)
    if task is None or (not kept.preempting and not kept.firm and task.late_us > run.now_us):
        _drop_reservation(state, rank)
        return
    tenant, need = state.tenants[task.tenant], state.needs[task.shape]
    if limits.over_tenant_limit(state, tenant, task) or not concurrency_keys.is_open(state, task):
        _drop_reservation(state, rank)  # the task may not start: its node would stand idle
        return
    if not reservation.estimate_again(state, kept, need, run.now_us):
        _drop_reservation(state, rank)
        return
    most = state.policy.pool_running_limit
    if most is not None and len(state.running) >= most:
        return
    node = run.placement.pick(need, avoid=task.avoid_node)
    if node is not None and not _exceeds_mark(run, rank, task, need):
        _drop_reservation(state, rank)
        run.start(rank, tenant, task, node, need, behind=False)


def _drop_reservation(state: CoreState, rank: int) -> None:
    del state.reservations[rank]
    ready.open_all(state)


def _has_open(queue: RankQueue) -> bool:
    """Whether any group with ready tasks may still find a node."""
    return any(group.ready for group in queue.open.values())


def _is_demoted(state: CoreState, turn: Turn, task: ReadyTask) -> bool:
    """Whether an urgent task is served as normal work: its group belongs to another rank and must stay open."""
    return ready.rank_of(state, task.lane) != turn.rank
