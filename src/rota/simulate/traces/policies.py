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
    if name == ROTA:
        return RotaPolicy(workload)
    if name not in IN_TIME:
        raise BadTrace(f"there is no policy {name!r}; there are {', '.join(IN_TIME)}")
    order = baselines.shortest if name == "sjf-easy" else baselines.arrival
    return baselines.Backfill(workload, order, easy=name != "fcfs")
