"""The interface of the core: `apply(event, now)` takes facts in, `plan(now, at_most)` decides.

Deterministic and synchronous: the same events give the same decisions, on any machine, under any hash seed. The leader
and the simulator are its two callers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from rota.decide import concurrency_keys, fairness, messages, node_resources, ready
from rota.decide.demand import Demand, demand
from rota.decide.explain import Explanation, Probe, explain
from rota.decide.forecasts.forecast import Forecast, Planned, forecast
from rota.decide.grants import Grants
from rota.decide.messages import AttemptEnded, Decision, Event
from rota.decide.overview import Overview, overview
from rota.decide.placement import Placement
from rota.decide.planning import plan
from rota.decide.policy import Policy
from rota.decide.state import CoreState, Need
from rota.decide.wording import Names
from rota.model.queue import NEVER_US
from rota.model.resources import Shape


class Core:
    def __init__(self, policy: Policy | None = None) -> None:
        self.state = CoreState(policy=policy or Policy())
        self.placement = Placement(self.state)
        self._grants = Grants(self.state, self.placement)

    # ---- bookkeeping ----------------------------------------------------------------------------------------------

    def apply(self, event: Event, now_us: int) -> None:
        """Takes one fact in. Never decides anything: `plan` does."""
        state, grants = self.state, self._grants
        if type(event) is AttemptEnded:  # as frequent as starts: not worth matching against all other events
            grants.end(event.task, event.run_us, now_us, calls_per_grant=event.calls_per_grant)
            return
        match event:
            case messages.TasksReady(tasks):
                needs = state.needs
                for task in tasks:
                    if needs[task.shape].has_gpu:
                        self.placement.appetite.learn(state.shapes[task.shape].resources)
                    ready.add(state, task)
            case messages.CapChanged(number, cap_ms) if number in state.running:
                state.running[number].cap_us = cap_ms * 1000
            case messages.StartRefused(number):
                grants.end(number, None, now_us, refused=True)
            case messages.PlaceRefused(task):
                grants.refuse_place(task, now_us)
            case messages.KeysFreed(freed):
                for tenant, name in freed:
                    grants.wake(concurrency_keys.learn(state, (tenant, name, True), None))
            case messages.KeysCooled(until_us):
                grants.wake(concurrency_keys.cool(state, until_us))
            case messages.KeysSeen(elsewhere):
                for (tenant, name), places in elsewhere.items():
                    grants.wake(concurrency_keys.learn(state, (tenant, name, True), places))
            case messages.TasksGone(gone):
                for number in gone:
                    grants.gone(number)
            case messages.NodeJoined(number, capacity, labels, draining):
                node = node_resources.make_node(state, number, capacity, labels, draining=draining)
                grants.join(node, now_us)
            case messages.NodeClosed(number, why) if number in state.nodes:
                grants.close(state.nodes[number], why)
            case messages.NodeOpened(number) if number in state.nodes:
                grants.reopen(state.nodes[number])
            case messages.NodeLeft(number) if number in state.nodes:
                grants.leave(state.nodes[number])
            case messages.ShapeKnown(number, demand):
                self._learn_shape(number, demand)
            case messages.TenantKnown():
                self._learn_tenant(event)
            case messages.AttemptAdopted(attempt):
                grants.adopt(attempt, now_us)
            case messages.LaneKnown(lane, level, gated):
                ready.change_lane(state, lane, level, gated=gated)
            case messages.PolicyKnown(policy):
                state.policy = policy
                ready.open_all(state)
            case messages.SharesKnown(charged, saved_us):
                fairness.restore(state, charged, saved_us, now_us)

    def _learn_shape(self, number: int, demand: Shape) -> None:
        state = self.state
        state.shapes[number] = demand
        state.needs[number] = need = node_resources.need_of(state.dimensions, number, demand)
        need.share_ppm = node_resources.share_ppm(state, need)

    def _learn_tenant(self, event: messages.TenantKnown) -> None:
        tenant = ready.tenant_of(self.state, event.tenant)
        tenant.weight = event.weight
        limits = (event.cpu_milli_limit, event.memory_bytes_limit, event.running_limit, event.paused)
        if limits != (tenant.cpu_milli_limit, tenant.memory_bytes_limit, tenant.running_limit, tenant.paused):
            tenant.cpu_milli_limit, tenant.memory_bytes_limit, tenant.running_limit, tenant.paused = limits
            tenant.limited = limits != (None, None, None, False)
            tenant.stuck.clear()
        tenant.urgent_ppm = event.urgent_ppm
        if tenant.longest_cap_us not in (event.longest_cap_us, NEVER_US):
            tenant.earlier_caps_us[tenant.longest_cap_us] = None  # tasks that were admitted then still have it
        tenant.longest_cap_us = event.longest_cap_us

    # ---- deciding -------------------------------------------------------------------------------------------------

    def plan(self, now_us: int, at_most: int) -> list[Decision]:
        """The next decisions, in order, at most so many. `planning` has one function for each step:

        1. Ranks of lanes in order; gated ones only below the peak mark. 2. Within a rank, the tenant that has held
        least. 3. That tenant's own first task, within its limits. 4. A node with free resources, unless they are
        reserved. 5. Else a node where it waits behind short work. 6. Else others give way, or it gets a reservation.
        """
        self.placement.trim()
        fairness.charge_the_long(self.state, self._grants.dues, now_us)
        if self.state.policy.paused:
            return []
        return plan(self.state, self.placement, self._grants, now_us, at_most)

    # ---- questions ------------------------------------------------------------------------------------------------

    def shares(self, now_us: int) -> dict[int, int]:
        """Tenants' charges, to be saved for the next leader."""
        return fairness.saved(self.state, now_us)

    def explain(self, task: int | Probe, now_us: int, names: Names) -> Explanation | None:
        """Why the task waits; None if the core does not know it."""
        planned = [task] if isinstance(task, Probe) and task.is_expected else []
        return self.explain_all([task], now_us, names, cache(lambda: self.forecast(now_us, planned)))[0]

    def explain_all(
        self, asked: Sequence[int | Probe], now_us: int, names: Names, expected: Callable[[], Forecast]
    ) -> list[Explanation | None]:
        """Why each of them waits. `expected` is asked for the forecast if an estimate depends on it."""
        return explain(self.state, self.placement, asked, now_us, names, expected)

    def forecast(self, now_us: int, planned: Sequence[Planned] = ()) -> Forecast:
        """When ready and planned tasks will start and end, if no other task arrives."""
        return forecast(self.state, now_us, planned)

    def demand(self, now_us: int) -> Demand:
        return demand(self.state, now_us)

    def overview(self) -> Overview:
        return overview(self.state)

    def watched_keys(self) -> list[tuple[int, str]]:
        """Keys (tenant, name) counted across pools that the next poll should read."""
        return concurrency_keys.watched(self.state)

    def has_room(self, shape: int) -> bool:
        return self.placement.pick(self.state.needs[shape]) is not None

    def need(self, shape: int) -> Need:
        return self.state.needs[shape]
