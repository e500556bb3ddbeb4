"""Proves this node's sandbox from the inside before any task runs: a worker fails closed.

A small script runs as a sandboxed unit, exactly as a task would, and prints what it sees; `judge` compares that with
what it must see. Only a node whose proof holds offers a sandbox. `rota doctor` shows the same sentences.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from rota.execute.keeper_link import AwaitedEnd, End, Ended, KeeperLink, Refused, SandboxSpec, Spawn, UnitLimits
from rota.execute.linux import work_folder
from rota.execute.sandbox.bubblewrap import UID, WORK

PATIENCE_SECONDS = 20.0

SCRIPT = """
read_status() { while read -r key value rest; do case "$key" in
    CapEff:|CapBnd:|NoNewPrivs:|Seccomp:) echo "$key$value";; esac; done < /proc/self/status; }
echo "uid:$(id -u)"
echo "folder:$(pwd)"
read_status
for path in /home /root/.ssh /etc/shadow /var/lib "$PROOF_HIDDEN"; do [ -e "$path" ] && echo "sees:$path"; done
for path in / /usr /etc /dev; do (: > "$path/.rota-proof") 2>/dev/null && echo "writes:$path"; done
(: > ./proof) 2>/dev/null || echo "writes-not:."
(: > /tmp/proof) 2>/dev/null || echo "writes-not:/tmp"
while read -r name rest; do case "$name" in *:*) echo "interface:${name%%:*}";; esac; done < /proc/net/dev
set -- /proc/[0-9]*; echo "processes:$#"
for open in /proc/self/fd/*; do
    case "${open##*/}" in 0|1|2) continue;; esac
    [ ! -e "$open" ] || [ "$open" -ef "$0" ] || echo "descriptor:${open##*/}"
done
echo "end:"
"""


def judge(output: str, *, uid: int | None = UID) -> list[str]:
    """What is wrong with a sandbox that prints this; nothing, if it holds. `uid` None: any user but root."""
    seen: dict[str, list[str]] = {}
    for line in output.splitlines():
        key, _, value = line.partition(":")
        seen.setdefault(key, []).append(value.strip())
    wrong = []
    if "end" not in seen:
        return ["its script did not come to its end"]
    for key, expected, words in (
        ("folder", WORK, "the folder a task begins in"),
        ("NoNewPrivs", "1", "the ban on new privileges"),
        ("Seccomp", "2", "the system-call filter"),
    ):
        if seen.get(key) != [expected]:
            wrong.append(f"{words} is {', '.join(seen.get(key, ['missing']))}, not {expected}")
    seen_uid = seen.get("uid", ["missing"])
    if seen_uid == ["0"] or (uid is not None and seen_uid != [str(uid)]):
        wrong.append(f"the user number inside is {', '.join(seen_uid)}, not {'a high one' if uid is None else uid}")
    for key in ("CapEff", "CapBnd"):
        if any(set(value) != {"0"} for value in seen.get(key, ["missing"])):
            wrong.append(f"it keeps capabilities ({key} {', '.join(seen.get(key, ['missing']))})")
    wrong += [f"it sees {path}" for path in seen.get("sees", ())]
    wrong += [f"it can write to {path}" for path in seen.get("writes", ())]
    wrong += [f"it can't write to {path}" for path in seen.get("writes-not", ())]
    others = [name for name in seen.get("interface", ()) if name != "lo"]
    wrong += [f"it has the network interface {name}" for name in others]
    wrong += [f"it inherits descriptor {number}" for number in seen.get("descriptor", ())]
    if int(seen.get("processes", ["999"])[0]) > 8:
        wrong.append("it sees the machine's processes")
    return wrong


async def prove(link: KeeperLink, work: Path) -> str:
    """Why this node's sandbox can't be relied on; "" if it can."""
    if not link.facts.bwrap:
        return link.facts.why_no_sandbox
    order = msgspec.structs.replace(proof(work, "proof"), sandbox=SandboxSpec(tmp_bytes=1024 * 1024))
    end, output = await run(link, order)
    if isinstance(end, Refused):
        return end.message
    if not isinstance(end, Ended) or end.status != 0:
        return f"a first try did not work: {output.strip()[-300:] or end}"
    return "; ".join(judge(output))


def proof(work: Path, name: str) -> Spawn:
    """The script as an order, without its isolation."""
    return Spawn(
        program="script",
        arguments=[],
        env={"PATH": "/usr/bin:/bin", "PROOF_HIDDEN": str(work.parent)},
        folder=f"{work}/{name}",
        fence_ms=0,
        script=SCRIPT,
        limits=UnitLimits(memory_bytes=64 * 1024 * 1024, pids=64, cpu_milli=1000, disk_bytes=16 * 1024 * 1024),
    )


async def run(link: KeeperLink, order: Spawn) -> tuple[End, str]:
    """Runs it as a task would run, with patience; its end and all its output."""
    listener = AwaitedEnd()
    out_read, out_write = os.pipe2(os.O_CLOEXEC)
    number = link.spawn(listener, order, [out_write, os.dup(out_write)])
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            end = await listener.end
    except TimeoutError:
        link.kill(number)
        end = await listener.end
    os.set_blocking(out_read, False)
    try:
        output = os.read(out_read, 64 * 1024).decode("utf-8", "replace")
    except BlockingIOError:
        output = ""
    finally:
        os.close(out_read)
    await asyncio.to_thread(work_folder.remove, order.folder)
    return end, output
