"""Who the caller is: for `rota whoami`, and for pages that offer a switch of tenants."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rota.api.answers import answer, filled
from rota.api.described import described, read_query
from rota.api.permissions import OF_TASKS
from rota.api.services import authorise
from rota.model.accounts.permissions import widest_role
from rota.model.answers.accounts import RoleDocument, TenantRole, Whoami
from rota.store.principals import BindingRow, find_principal

router = APIRouter(prefix="/v1", tags=["accounts"])


@router.get("/whoami")
@described(Whoami)
async def get_whoami(request: Request) -> Response:
    """The caller, what its credential may do at the tenant of the request, and at which tenants it has a role."""
    services, caller = await authorise(request)
    read_query(request)
    bindings: tuple[BindingRow, ...] = ()
    if caller.principal_id is not None:
        async with services.database.engine() as connection:
            found = await find_principal(connection, caller.principal_id)
        bindings = () if found is None else found.bindings
    limits = caller.restrictions
    return answer(
        Whoami(
            user=caller.user,
            kind=caller.kind.value,
            tenant=caller.tenant,
            role=caller.role.value,
            scopes=sorted(caller.scopes if caller.task is None else caller.scopes & OF_TASKS),
            credential=caller.credential,
            expires_at=caller.expires_at,
            pools_to_change=None if caller.pools is None else sorted(caller.pools),
            pools=list(limits.pools),
            names=list(limits.names),
            own=limits.own,
            addresses=[str(network) for network in limits.networks],
            graph=None if caller.task is None else caller.task.graph,
            roles=[filled(RoleDocument, row, role=row.role.value) for row in bindings],
            tenants=_tenants(bindings),
        )
    )


def _tenants(bindings: tuple[BindingRow, ...]) -> list[TenantRole]:
    """Those where it has a role of its own, by name; with the role that gives most."""
    named = {row.tenant: row.tenant_id for row in bindings if row.tenant is not None and row.tenant_id is not None}
    at = [row.binding for row in bindings if row.tenant_id is not None]
    return [TenantRole(tenant=name, role=widest_role(at, named[name]).value) for name in sorted(named)]
