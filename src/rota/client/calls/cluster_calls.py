"""The requests about the cluster and its users: me, nodes, servers, tenants, plans."""

from __future__ import annotations

from collections.abc import Mapping

from rota.client.calls.call import Call, delete, get, patch, post, segment
from rota.model.answers import cluster as documents


def me() -> Call[documents.Me]:
    return get("/v1/me", documents.Me)


def nodes(*, everything: bool = False) -> Call[documents.NodeList]:
    """`everything`: also nodes that have been away for more than a day."""
    return get("/v1/nodes", documents.NodeList, {"all": "true" if everything else None})


def node(name: str) -> Call[documents.NodeDocument]:
    """By its name, or its id as text."""
    return get(f"/v1/nodes/{segment(name)}", documents.NodeDocument)


def drain(name: str, *, deadline: str | None = None) -> Call[documents.DrainedNode]:
    """`deadline`: how long its tasks may still run, such as `10m`; None: until they end."""
    body = None if deadline is None else {"deadline": deadline}
    return post(f"/v1/nodes/{segment(name)}/drain", documents.DrainedNode, body, repeatable=True)


def undrain(name: str) -> Call[documents.NodeDocument]:
    return post(f"/v1/nodes/{segment(name)}/undrain", documents.NodeDocument, repeatable=True)


def reload(name: str) -> Call[documents.NodeDocument]:
    return post(f"/v1/nodes/{segment(name)}/reload", documents.NodeDocument, repeatable=True)


def remove_node(name: str) -> Call[None]:
    """Refused unless the node has left or is lost."""
    return delete(f"/v1/nodes/{segment(name)}")


def forget_node_key(name: str) -> Call[None]:
    """Its agent is refused from now on, until the node joins again."""
    return delete(f"/v1/nodes/{segment(name)}/key")


def worker_keys() -> Call[documents.WorkerKeyList]:
    return get("/v1/worker-keys", documents.WorkerKeyList)


def add_worker_key(pool: str, *, uses: int, lasts: str) -> Call[documents.NewWorkerKey]:
    return post("/v1/worker-keys", documents.NewWorkerKey, {"pool": pool, "uses": uses, "lasts": lasts})


def revoke_worker_key(number: int) -> Call[None]:
    return delete(f"/v1/worker-keys/{number}")


def servers() -> Call[documents.ServerList]:
    return get("/v1/servers", documents.ServerList)


def database() -> Call[documents.DatabaseCheck]:
    """For operators: the versions, and the watchdog query."""
    return get("/v1/database", documents.DatabaseCheck)


def tenants() -> Call[documents.TenantList]:
    return get("/v1/tenants", documents.TenantList)


def add_tenant(name: str, plan: str, *, trusted: bool = False) -> Call[documents.TenantDocument]:
    return post("/v1/tenants", documents.TenantDocument, {"name": name, "plan": plan, "trusted": trusted})


def change_tenant(name: str, changes: Mapping[str, object]) -> Call[documents.TenantDocument]:
    return patch(f"/v1/tenants/{name}", documents.TenantDocument, changes)


def pause_tenant(name: str) -> Call[documents.PausedTenant]:
    return post(f"/v1/tenants/{name}/pause", documents.PausedTenant, repeatable=True)


def resume_tenant(name: str) -> Call[documents.TenantDocument]:
    return post(f"/v1/tenants/{name}/resume", documents.TenantDocument, repeatable=True)


def change_settings(name: str, changes: Mapping[str, object]) -> Call[documents.TenantDocument]:
    """What administrators of a tenant decide: `support` and `share_control`."""
    return patch(f"/v1/tenants/{segment(name)}/settings", documents.TenantDocument, changes)


def plans() -> Call[documents.PlanList]:
    return get("/v1/plans", documents.PlanList)


def plan(name: str) -> Call[documents.PlanDocument]:
    return get(f"/v1/plans/{name}", documents.PlanDocument)


def change_plan(name: str, changes: Mapping[str, object]) -> Call[documents.PlanDocument]:
    """A change to None means unlimited; limits that are not named stay as they are."""
    return patch(f"/v1/plans/{name}", documents.PlanDocument, changes)
