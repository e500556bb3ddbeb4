"""Which functions may share a process, and within which limits it runs. Pure.

A warm child belongs to one tenant, also a trusted one: what one tenant's calls leave in a process, in its modules, its
threads or its files, is nothing for another's. Its walls, if any, are part of what it is: calls that see other folders
or another network go into another child. So do calls whose code came in another package, walls or none. What may share
a process is written into an attempt's shape, so that calls are put ahead only among their own.
"""

from __future__ import annotations

import functools

import msgspec

from rota.execute.keeper_link import DEFAULT_PROCESSES, UnitLimits
from rota.execute.machine.device_files import Assigned
from rota.execute.sandbox.bubblewrap import SANDBOX_PROCESSES
from rota.model.isolation import Isolation
from rota.model.resources import Resources
from rota.wire import Run


class ProcessKey(msgspec.Struct, frozen=True, array_like=True):
    """Calls of equal companies may share a process."""

    isolation: str = "none"
    tenant: int = 0  # 0: nobody's yet
    network: bool = False
    mounts: tuple[str, ...] = ()
    owner: str = ""  # the tenant's name, where there are mounts
    package: str = ""  # the artifact their code is in; a child never has two
    devices: tuple[str, ...] = ()  # files that the one call which has them sees; its child serves no other
    gpus: tuple[int, ...] = ()  # those its calls were given: what uses them reads once which they are
    assigned: Assigned = ()  # the same of other kinds


class SharingTerms(msgspec.Struct, frozen=True):
    process_key: ProcessKey = ProcessKey()
    processes: int = 0  # how many it may have; 0: nobody said
    mark: bytes = b""  # what makes its shape another one than that of calls it must not be put among


class _SharingFields(msgspec.Struct):
    """The part of a spec that decides it (`spec.RunSpec`); the rest is skipped, only the child reads it."""

    isolation: str = "none"
    network: bool = False
    processes: int = 0
    mounts: list[str] = []
    owner: str = ""
    package: str = ""
    image: str = ""


PLAIN = SharingTerms()  # of what is no function
UNOWNED = ProcessKey()  # a child that was started ahead: it is that of the first who needs a plain one
_MOST_REMEMBERED = 4096
_decode = msgspec.json.Decoder(_SharingFields).decode
_encode = msgspec.msgpack.Encoder().encode


def terms_of(run: Run) -> SharingTerms:
    """Admission writes these fields only where they say something: a spec without them is looked at no further."""
    spec = run.spec
    if b'"isolation"' not in spec and b'"processes"' not in spec and b'"package"' not in spec:
        return _trusted(run.tenant)
    try:
        fields = _decode(spec)
    except (msgspec.DecodeError, UnicodeDecodeError):
        fields = _SharingFields(
            isolation=Isolation.SANDBOX
        )  # no child will be able to read it: let it be a harmless one
    if fields.image:
        fields.isolation = Isolation.CONTAINER  # Python and the functions are the node's: there is no child for it
    if fields.isolation == Isolation.NONE:
        if not fields.processes and not fields.package:
            return _trusted(run.tenant)  # the word was in an argument
        process_key = ProcessKey(tenant=run.tenant, package=fields.package)
    else:
        mounts = tuple(sorted(set(fields.mounts)))
        process_key = ProcessKey(fields.isolation, run.tenant, fields.network, mounts, fields.owner, fields.package)
    return SharingTerms(process_key, fields.processes, _encode((process_key, fields.processes)))


@functools.lru_cache(_MOST_REMEMBERED)
def _trusted(tenant: int) -> SharingTerms:
    process_key = ProcessKey(tenant=tenant)
    return SharingTerms(process_key, 0, _encode((process_key, 0)))


def limits_of(grant: Resources, terms: SharingTerms) -> UnitLimits:
    """A grant, as the limits of the child that runs its calls."""
    sandbox = SANDBOX_PROCESSES if terms.process_key.isolation == Isolation.SANDBOX else 0
    return UnitLimits(
        memory_bytes=grant.memory_bytes,
        pids=(terms.processes or DEFAULT_PROCESSES) + sandbox,
        cpu_milli=grant.cpu_milli,
        iops=grant.iops,
        disk_bytes=grant.disk_bytes,
    )
