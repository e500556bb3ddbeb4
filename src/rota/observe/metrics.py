"""Counters and gauges for Prometheus, read from the running objects on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class ResourceFigures:
    name: str
    utilisation: float
    demand: float | None  # asked for by ready tasks in memory, as a part of the capacity


@dataclass(frozen=True, slots=True)
class PoolFigures:
    pool: str
    epoch: int
    nodes: int
    ready_in_memory: int
    running: int
    started: int
    settled: int
    superseded: int
    thawed: int
    unsettled: int
    frozen: int = 0
    missing_nodes: int = 0
    late_tasks: int = 0
    unplaceable_tasks: int = 0
    idle_nodes: int = 0
    resources: tuple[ResourceFigures, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """From the database, so the same on every server node. What could not be read is None, and absent from the text."""

    live_tasks: int | None = None
    dead_letters: int | None = None
    nodes: Mapping[tuple[str, str], int] | None = None  # by pool and state


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """`pools` are those that this server node leads."""

    admitted: int
    cluster: ClusterFigures
    pools: list[PoolFigures]


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Histogram(
            "rota_http_request_seconds",
            "Time to answer, by route and status.",
            ["method", "route", "status"],
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )

    def count_connections(self, connections: Sized, ended: Mapping[str, int]) -> None:
        """From now on, of the HTTP server: how many are open, and how many were ended for which reason."""
        self.registry.register(_Connections(connections, ended))

    def count_days(self, days_left: Callable[[], float]) -> None:
        """From now on, until the certificate of this server node expires."""
        gauge = Gauge(
            "rota_tls_certificate_days_left", "Days until this node's certificate expires.", registry=self.registry
        )
        gauge.set_function(days_left)

    def text(self, figures: NodeFigures) -> bytes:
        scratch = CollectorRegistry()
        scratch.register(_Figures(figures))
        return generate_latest(self.registry) + generate_latest(scratch)


class _Connections(Collector):
    def __init__(self, connections: Sized, ended: Mapping[str, int]) -> None:
        self._connections = connections
        self._ended = ended

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("rota_http_connections", "Open HTTP connections.", len(self._connections))
        ended = CounterMetricFamily(
            "rota_http_connections_ended", "HTTP connections refused or ended by this node.", labels=["reason"]
        )
        for reason, count in sorted(self._ended.items()):
            ended.add_metric([reason], count)
        yield ended


class _Figures(Collector):
    def __init__(self, figures: NodeFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        figures = self._figures
        yield CounterMetricFamily("rota_tasks_admitted", "Tasks admitted by this node.", figures.admitted)
        yield from _cluster(figures.cluster)
        for name, description, field, kind in (
            ("rota_pool_epoch", "Epoch of this term.", "epoch", GaugeMetricFamily),
            ("rota_pool_nodes", "Connected nodes.", "nodes", GaugeMetricFamily),
            ("rota_pool_ready_in_memory", "Ready tasks held in memory.", "ready_in_memory", GaugeMetricFamily),
            ("rota_pool_running", "Attempts authorised and not settled.", "running", GaugeMetricFamily),
            ("rota_pool_frozen", "Attempts that stand still: their node is cut off.", "frozen", GaugeMetricFamily),
            ("rota_pool_unsettled", "Results that wait for settlement.", "unsettled", GaugeMetricFamily),
            ("rota_pool_missing_nodes", "Nodes missing to start in time.", "missing_nodes", GaugeMetricFamily),
            ("rota_pool_late_tasks", "Ready tasks in memory that would start late.", "late_tasks", GaugeMetricFamily),
            (
                "rota_pool_unplaceable",
                "Ready tasks in memory no node could hold.",
                "unplaceable_tasks",
                GaugeMetricFamily,
            ),
            ("rota_pool_idle_nodes", "Nodes without work.", "idle_nodes", GaugeMetricFamily),
            ("rota_attempts_started", "Attempts authorised in this term.", "started", CounterMetricFamily),
            ("rota_attempts_settled", "Results settled in this term.", "settled", CounterMetricFamily),
            ("rota_attempts_thawed", "Frozen attempts that went on.", "thawed", CounterMetricFamily),
            ("rota_results_superseded", "Late or repeated results.", "superseded", CounterMetricFamily),
        ):
            family = kind(name, description, labels=["pool"])
            for pool in figures.pools:
                family.add_metric([pool.pool], getattr(pool, field))
            yield family
        labels, asked = ["pool", "resource"], "Asked for by ready tasks in memory, as a part of the capacity."
        utilisation = GaugeMetricFamily("rota_pool_utilisation", "Used part of the capacity.", labels=labels)
        demand = GaugeMetricFamily("rota_pool_demand_ratio", asked, labels=labels)
        for pool in figures.pools:
            for one in pool.resources:
                utilisation.add_metric([pool.pool, one.name], one.utilisation)
                if one.demand is not None:
                    demand.add_metric([pool.pool, one.name], one.demand)
        yield utilisation
        yield demand


def _cluster(figures: ClusterFigures) -> Iterator[Metric]:
    if figures.live_tasks is not None:
        yield GaugeMetricFamily("rota_tasks_live", "Tasks of the cluster that have not ended.", figures.live_tasks)
    if figures.dead_letters is not None:
        yield GaugeMetricFamily("rota_dead_letters", "Dead letters of the cluster.", figures.dead_letters)
    if figures.nodes is not None:
        nodes = GaugeMetricFamily(
            "rota_nodes", "Nodes seen within a day, by state as in `rota node list`.", labels=["pool", "state"]
        )
        for (pool, state), count in sorted(figures.nodes.items()):
            nodes.add_metric([pool, state], count)
        yield nodes
