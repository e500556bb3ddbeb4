"""Grants: the resources that attempts hold on nodes, and everything that changes when an attempt starts or ends.

Only bookkeeping: it never chooses a task or a node. Attempts that wait behind others on a node have no grant yet.
"""

from __future__ import annotations

from rota.decide import concurrency_keys, estimates, fairness, node_resources, ready
from rota.decide.node_resources import fits
from rota.decide.placement import Placement
from rota.decide.state import CPU, MEMORY, CoreState, Need, Node, Running, Tenant
from rota.model.node import Closed
from rota.model.queue import AuthorisedAttempt, ReadyTask

URGENT_RANK = 0
SOON_US = 10_000_000  # the earliest check whether a task runs longer than it was charged for


class Grants:
    def __init__(self, state: CoreState, placement: Placement) -> None:
        self._state = state
        self._placement = placement
        self.dues = fairness.Dues()

    # ---- starts ---------------------------------------------------------------------------------------------------

    def start(
        self, task: ReadyTask, node: Node, need: Need, tenant: Tenant, rank: int, *, behind: bool, now_us: int
    ) -> Running:
        """The path of every start: the same as `_hold`, without its lookups."""
        state, number = self._state, task.id
        running = Running(
            task.tenant,
            task.shape,
            node.id,
            task.work,
            task.concurrency_key,
            task.concurrency_global,
            not behind,
            rank,
            task.cap_ms * 1000,
            task.preemptible,
            now_us,
        )
        mean = self._count(number, running, need, tenant, task.concurrency_limit, now_us)
        look_us = 2 * running.charged_us
        self.dues.add(now_us + (look_us if look_us > SOON_US else SOON_US), number)
        if behind:
            # Work that is not short shares a grant there, so no other task waits for it.
            shares = mean is None or mean > state.policy.ahead_us
            self._put_behind(node, number, running, 0 if shares else running.charged_us + state.policy.overhead_us)
            return running
        node.held[number] = task.shape
        running.devices = node_resources.take(state, node, need)
        if mean is None or mean > state.policy.ahead_us:
            node.slow.add(number)
        return running

    def adopt(self, attempt: AuthorisedAttempt, now_us: int) -> None:
        running = Running(
            attempt.tenant,
            attempt.shape,
            attempt.node,
            attempt.work,
            attempt.concurrency_key,
            attempt.concurrency_global,
            True,
            ready.rank_of(self._state, attempt.lane),
            attempt.cap_ms * 1000,
            attempt.preemptible,
            attempt.started_us or now_us,
        )
        ready.remove(self._state, attempt.task)
        self._hold(attempt.task, running, attempt.concurrency_limit, now_us)
        self._state.tenants[attempt.tenant].key -= running.charged  # the leader that started it has charged it

    def _hold(self, task: int, running: Running, concurrency_limit: int, now_us: int) -> None:
        state = self._state
        need = state.needs[running.shape]
        tenant = ready.tenant_of(state, running.tenant)
        self._count(task, running, need, tenant, concurrency_limit, now_us)
        node = state.nodes.get(running.node)
        if node is None:
            return  # its node has not connected yet; `join` finds the attempt
        if running.granted and fits(need, node.free, node.devices):
            self._grant(node, task, running)
        else:
            self._put_behind(node, task, running, running.charged_us + state.policy.overhead_us)

    def _count(
        self, task: int, running: Running, need: Need, tenant: Tenant, concurrency_limit: int, now_us: int
    ) -> int | None:
        """Counts the attempt against its tenant and key, and charges its usual run time. Returns it, if known."""
        state = self._state
        state.running[task] = running
        if running.preemptible:
            state.preemptible += 1
        tenant.cpu_milli += need.cpu_milli
        tenant.memory_bytes += need.memory_bytes
        tenant.running += 1
        if running.rank == URGENT_RANK:
            tenant.urgent_held_ppm += need.share_ppm
            state.urgent_seen_us = now_us
        if running.concurrency_key is not None:
            name = (running.tenant, running.concurrency_key, running.concurrency_global)
            concurrency_keys.hold(state, name, concurrency_limit)
        mean = state.run_us.get((running.tenant, running.work))
        likely = state.policy.unknown_run_us if mean is None else mean
        if running.cap_us and running.cap_us < likely:
            likely = running.cap_us
        running.charged_us = likely = likely or 1
        as_of, times, by = state.inflation
        if as_of != now_us:
            times, by = fairness.inflation(state, now_us)
        running.charged = charged = need.share_ppm * likely * times // (by * tenant.weight)
        tenant.key += charged
        return mean

    def _grant(self, node: Node, task: int, running: Running) -> None:
        state = self._state
        running.granted = True
        node.held[task] = running.shape
        running.devices = node_resources.take(state, node, state.needs[running.shape])
        mean = state.run_us.get((running.tenant, running.work))
        if mean is None or mean > state.policy.ahead_us:
            node.slow.add(task)

    def _put_behind(self, node: Node, task: int, running: Running, expected_us: int) -> None:
        running.granted = False
        node.behind[task] = (running.shape, expected_us)
        node.behind_us += expected_us

    # ---- ends -----------------------------------------------------------------------------------------------------

    def end(
        self, task: int, run_us: int | None, now_us: int, *, refused: bool = False, calls_per_grant: int = 1
    ) -> None:
        state = self._state
        running = state.running.pop(task, None)
        if running is None:
            return
        need = state.needs[running.shape]
        tenant = state.tenants[running.tenant]
        tenant.cpu_milli -= need.cpu_milli
        tenant.memory_bytes -= need.memory_bytes
        tenant.running -= 1
        if running.rank == URGENT_RANK:
            tenant.urgent_held_ppm = max(0, tenant.urgent_held_ppm - need.share_ppm)
        if running.concurrency_key is not None:
            name = (running.tenant, running.concurrency_key, running.concurrency_global)
            self.wake(concurrency_keys.release(state, name, settled=refused))
        if tenant.stuck:
            tenant.stuck.clear()
        if running.preemptible:
            state.preemptible -= 1
        if run_us is not None:
            estimates.learn(state, running, run_us, calls_per_grant)
            state.ended.add(running.tenant, now_us)
            if not tenant.ready and not tenant.running:
                state.ended.idle(running.tenant)
        fairness.correct(state, tenant, running, now_us)
        node = state.nodes.get(running.node)
        if node is None:
            return
        if node.held.pop(task, None) is not None:
            node_resources.give_back(state, node, need, running.devices)
            node.slow.discard(task)
            if node.behind:
                self._grant_behind(node, now_us)
            self.grew(node)
        elif task in node.behind:
            node.behind_us -= node.behind.pop(task)[1]
            self.grew(node)
        if not node.here and not node.held and not node.behind:
            del state.nodes[node.id]  # it left, and none of its attempts is running

    def _grant_behind(self, node: Node, now_us: int) -> None:
        """Resources were freed: the node starts the tasks that wait there, in order."""
        state = self._state
        while node.behind:
            task = next(iter(node.behind))
            shape, expected = node.behind[task]
            if not fits(state.needs[shape], node.free, node.devices):
                return
            del node.behind[task]
            node.behind_us -= expected
            running = state.running[task]
            running.since_us = now_us
            self._grant(node, task, running)

    def grew(self, node: Node) -> None:
        """Opens closed groups that fit on the node now. Groups of short work may also wait behind others there."""
        self._placement.grew(node)
        state = self._state
        cpu, memory = node.free[CPU], node.free[MEMORY]
        for rank in state.ranks.values():
            closed = rank.closed
            if not closed or cpu < rank.least_cpu:
                continue
            for group in [
                group
                for group in closed.values()
                if group.brief
                or (
                    (need := group.need).cpu_milli <= cpu
                    and need.memory_bytes <= memory
                    and (need.plain or fits(need, node.free, node.devices))
                )
            ]:
                rank.open[group.shape] = closed.pop(group.shape)
            rank.least_cpu = min((0 if k.brief else k.need.cpu_milli for k in closed.values()), default=0)

    # ---- nodes ----------------------------------------------------------------------------------------------------

    def join(self, node: Node, now_us: int) -> None:
        """A node connected: its running attempts get their grants. On a node that got smaller they wait behind."""
        state = self._state
        old = state.nodes.get(node.id)
        if old is not None and old.open:
            node_resources.count_out(state, old)
        state.nodes[node.id] = node
        if node.open:
            node_resources.count_in(state, node)
        for task, running in state.running.items():
            if running.node == node.id:
                running.devices = ()
                if fits(state.needs[running.shape], node.free, node.devices):
                    self._grant(node, task, running)
                else:
                    self._put_behind(node, task, running, state.policy.overhead_us)
        self._placement.forget()
        ready.open_all(self._state)

    def close(self, node: Node, why: Closed | None = None) -> None:
        """The node takes no new work, and the pool's totals are without it. `why` is None if the node is gone."""
        node.closed_for = why
        if node.open:
            node_resources.count_out(self._state, node)
            node.open = False
            node.version += 1
            self._placement.forget()

    def reopen(self, node: Node) -> None:
        if not node.open and node.here:
            node.open = True
            node.closed_for = None
            node_resources.count_in(self._state, node)
            node.version += 1
            self._placement.forget()
            ready.open_all(self._state)

    def leave(self, node: Node) -> None:
        self.close(node)
        node.here = False
        if not node.held and not node.behind:
            del self._state.nodes[node.id]

    # ---- concurrency keys -------------------------------------------------------------------------------------------

    def wake(self, tasks: list[ReadyTask]) -> None:
        for task in tasks:
            ready.push(self._state, task, self._state.tenants[task.tenant])

    def refuse_place(self, task: ReadyTask, now_us: int) -> None:
        """The task never started: it queues again, behind its key."""
        state = self._state
        self.end(task.id, None, now_us, refused=True)
        if task.concurrency_global:
            concurrency_keys.key_of(state, concurrency_keys.name_of(task), task.concurrency_limit).barred = True
        ready.add(state, task)

    # ---- tasks that will not start from here -------------------------------------------------------------------------

    def gone(self, task: int) -> None:
        state = self._state
        removed = ready.remove(state, task)
        if removed is not None:
            tenant = state.tenants[removed.tenant]
            if not tenant.ready and not tenant.running:
                state.ended.idle(removed.tenant)
        for rank, reservation in list(state.reservations.items()):
            if reservation.task == task:
                del state.reservations[rank]
                ready.open_all(self._state)
