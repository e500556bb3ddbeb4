"""The policies by the names that the command line accepts."""

from __future__ import annotations

from rota.simulate.traces import baselines
from rota.simulate.traces.drive import Policy
from rota.simulate.traces.rota_policy import RotaPolicy
from rota.simulate.traces.workload import BadTrace, Workload

ROTA = "rota"
IN_TIME = (ROTA, "fcfs", "fcfs-easy", "sjf-easy")
FILLING = (ROTA, "random", "first-fit", "best-fit")


def policy(name: str, workload: Workload) -> Policy:
    """A fresh policy for one run of the workload."""
    match name:
        case "rota":
            return RotaPolicy(workload)
        case "fcfs":
            return baselines.Backfill(workload, baselines.arrival, easy=False)
        case "fcfs-easy":
            return baselines.Backfill(workload, baselines.arrival, easy=True)
        case "sjf-easy":
            return baselines.Backfill(workload, baselines.shortest, easy=True)
    raise BadTrace(f"there is no policy {name!r}; there are {', '.join(IN_TIME)}")
