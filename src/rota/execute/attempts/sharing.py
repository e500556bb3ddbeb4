"""Which calls may share a process, and within which limits it runs. Pure.

A warm child belongs to one tenant, even if trusted: modules, threads and files that one tenant's calls leave in a
process are not for another's. The sandbox is part of the key: calls that see other folders or another network go into
another child. So do calls whose code came in another package. The key is part of an attempt's shape, so that calls are
queued ahead only behind calls they may share a process with.
"""

from __future__ import annotations

import functools

import msgspec

from rota.execute.keeper_link import DEFAULT_PROCESSES, UnitLimits
from rota.execute.machine.device_files import Assigned
from rota.execute.sandbox.bubblewrap import SANDBOX_PROCESSES
from rota.model.isolation import Isolation
from rota.model.resources import CpuLimit, Resources, unsaid_cpu_limit
from rota.wire import Run


class ProcessKey(msgspec.Struct, frozen=True, array_like=True):
    """Calls with equal keys may share a process."""

    isolation: str = "none"
    tenant: int = 0  # 0: no tenant yet
    network: bool = False
    mounts: tuple[str, ...] = ()
    owner: str = ""  # the tenant's name, set if there are mounts
    package: str = ""  # the artifact that holds their code; a child never has two
    devices: tuple[str, ...] = ()  # device files of a sandboxed call; its child serves no other call
    gpus: tuple[int, ...] = ()  # assigned to its calls; libraries read them once, at the start
    assigned: Assigned = ()  # devices of other kinds
    may_submit: bool = False  # through a server socket, because it sees no network


class SharingTerms(msgspec.Struct, frozen=True):
    process_key: ProcessKey = ProcessKey()
    processes: int = 0  # how many it may have; 0: the default
    cpu_burst: bool = True  # it may use idle CPU beyond its grant
    mark: bytes = b""  # the encoded key: part of the shape, so that calls queue only behind their like


class _SharingFields(msgspec.Struct):
    """The fields of a spec that decide the key (`spec.RunSpec`); only the child reads the rest."""

    isolation: str = "none"
    cpu_limit: str = ""
    network: bool = False
    processes: int = 0
    mounts: list[str] = []
    owner: str = ""
    package: str = ""
    image: str = ""
    may_submit: bool = False


SCRATCH_BYTES = 2_000_000  # what the folder of an isolated task may hold that was granted no disk space
PLAIN = SharingTerms()  # for everything but functions
UNOWNED = ProcessKey()  # of a child started ahead: it goes to the first tenant that needs a plain one
_MOST_REMEMBERED = 4096
_decode = msgspec.json.Decoder(_SharingFields).decode
_encode = msgspec.msgpack.Encoder().encode
_NAMES = (b'"isolation"', b'"processes"', b'"package"', b'"cpu_limit"')


def terms_of(run: Run) -> SharingTerms:
    """Admission writes these fields only where they differ from the default: most specs are not decoded at all."""
    spec = run.spec
    if not any(name in spec for name in _NAMES):
        return _trusted(run.tenant)
    try:
        fields = _decode(spec)
    except (msgspec.DecodeError, UnicodeDecodeError):
        fields = _SharingFields(isolation=Isolation.SANDBOX)  # no child can read it: run it in a sandbox
    if fields.image:
        # there are no children in containers: Python and the functions are the node's
        fields.isolation = Isolation.CONTAINER
    if fields.isolation == Isolation.NONE:
        if not fields.processes and not fields.package and not fields.cpu_limit:
            return _trusted(run.tenant)  # the word was in an argument
        process_key = ProcessKey(tenant=run.tenant, package=fields.package)
    else:
        mounts = tuple(sorted(set(fields.mounts)))
        process_key = ProcessKey(
            fields.isolation,
            run.tenant,
            fields.network,
            mounts,
            fields.owner,
            fields.package,
            may_submit=fields.may_submit and not fields.network,
        )
    cpu_burst = may_burst(fields.cpu_limit, fields.isolation)
    return SharingTerms(process_key, fields.processes, cpu_burst, _encode((process_key, fields.processes, cpu_burst)))


@functools.lru_cache(_MOST_REMEMBERED)
def _trusted(tenant: int) -> SharingTerms:
    process_key = ProcessKey(tenant=tenant)
    return SharingTerms(process_key, 0, True, _encode((process_key, 0, True)))


def may_burst(cpu_limit: str, isolation: str) -> bool:
    """Whether a task may use idle CPU beyond its grant. `cpu_limit`: as its spec has it; "": it says nothing."""
    return (cpu_limit or unsaid_cpu_limit(isolation)) == CpuLimit.BURST


def limits_of(grant: Resources, processes: int, isolation: str, *, cpu_burst: bool = False) -> UnitLimits:
    """A grant as the limits of the process that runs on it; `processes` 0: the default.

    An isolated task without disk space still has its script, its result and a little more; a trusted one is not held.
    """
    is_isolated = isolation != Isolation.NONE
    return UnitLimits(
        memory_bytes=grant.memory_bytes,
        pids=(processes or DEFAULT_PROCESSES) + (SANDBOX_PROCESSES if is_isolated else 0),
        cpu_milli=grant.cpu_milli,
        cpu_burst=cpu_burst,
        iops=grant.iops,
        disk_bytes=grant.disk_bytes or (SCRATCH_BYTES if is_isolated else 0),
    )
