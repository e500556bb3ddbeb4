"""The images of this node: found in the engine's store, or pulled in the background while nobody holds resources.

Tenants learn only whether an image can be had. Why it can't is for the operator, in the log: a registry's answers would
tell tenants what the node's network looks like.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import signal
import time
from dataclasses import dataclass, field

import structlog

from rota.execute.images.proxy import PullProxy
from rota.execute.images.pull_queue import PullQueue
from rota.execute.images.registries import NODES_OWN, Host, Registries, connected, full_name, registry_of
from rota.execute.sandbox.container import PODMAN, Engine
from rota.execute.sandbox.engine_calls import error_line
from rota.model.units import duration_text
from rota.public_addresses import ForbiddenTarget, Resolve, Unresolved, judged_address, resolve

log = structlog.get_logger()

DEFAULT_PULL_SECONDS = 300.0
DEFAULT_IMAGE_BYTES = 10 * 1024**3
_FIND_SECONDS = 20.0
_FIRST_WAIT_MS = 1_000
_LONGEST_WAIT_MS = 30_000
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY")


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRules:
    """What the node's operator allows."""

    registries: Registries = field(default_factory=Registries)
    pull_seconds: float = DEFAULT_PULL_SECONDS
    image_bytes: int = DEFAULT_IMAGE_BYTES  # as it is received


class NotPulled(Exception):
    """The text is for the operator."""


def wait_ms(attempt: int) -> int:
    """When a task that waits for its image asks again; longer each time, as each try may be on another node."""
    return min(_FIRST_WAIT_MS << min(attempt - 1, 20), _LONGEST_WAIT_MS)


class Images:
    def __init__(self, engine: Engine, rules: PullRules, *, resolving: Resolve = resolve) -> None:
        self._engine = engine
        self._rules = rules
        self._resolving = resolving
        self._queue = PullQueue()
        self._searches: dict[str, asyncio.Task[bool]] = {}
        self._pulls: set[asyncio.Task[None]] = set()
        self.known: dict[str, str] = {}  # images that were seen here → their names for the engine

    async def find(self, image: str) -> bool:
        """Whether the image is here; then it is known. Asks the engine once for all attempts that wait for it."""
        search = self._searches.get(image)
        if search is None:
            search = self._searches[image] = asyncio.create_task(self._find(image), name=f"find {image}")
            search.add_done_callback(lambda _: self._searches.pop(image, None))
        return await asyncio.shield(search)

    def want(self, tenant: int, image: str) -> bool:
        """The image will be pulled, when its turn comes. False: it can't be had."""
        now = time.monotonic()
        if self._queue.has_failed(image, now):
            return False
        why = self._forbidden(full_name(image))
        if why:
            self._queue.refuse(image, now)
            log.warning("an image may not be pulled", image=image, why=why)
            return False
        self._queue.ask(tenant, image, now)
        self._pull_next()
        return True

    def forget(self, name: str) -> None:
        """The engine could not run it: perhaps it was removed."""
        self.known = {image: other for image, other in self.known.items() if other != name}

    async def close(self) -> None:
        """Ends pulls that are still running."""
        tasks = [*self._searches.values(), *self._pulls]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _find(self, image: str) -> bool:
        """By its name as it was given, then by its full name: engines differ in what they do with short ones."""
        for name in dict.fromkeys((image, full_name(image))):
            try:
                await self._call(_FIND_SECONDS, self._engine.env, "image", "inspect", "--format", "{{.Id}}", name)
            except NotPulled:
                continue
            self.known[image] = name
            return True
        return False

    def _pull_next(self) -> None:
        while (image := self._queue.next(time.monotonic())) is not None:
            pull = asyncio.create_task(self._pull(image), name=f"pull {image}")
            self._pulls.add(pull)
            pull.add_done_callback(self._pulls.discard)

    async def _pull(self, image: str) -> None:
        name = full_name(image)
        why = "the worker stopped"
        try:
            await self._fetch(name)
            self.known[image] = name
            why = ""
        except NotPulled as failure:
            why = str(failure)
        finally:
            self._queue.ended(image, failed=bool(why), now=time.monotonic())
            if why:
                log.warning("an image could not be pulled", image=image, why=why)
        self._pull_next()

    def _forbidden(self, name: str) -> str:
        """Why nobody is asked for it; "" if its registry is."""
        if name.partition("/")[0] == NODES_OWN:
            return "it is one of the node's own, and the node has none of that name"
        registry = registry_of(name)
        if not self._rules.registries.lists(registry):
            return f"{registry} is not a registry of this node; --registry {registry} allows it"
        return ""

    async def _fetch(self, name: str) -> None:
        registry, registries = registry_of(name), self._rules.registries
        if self._goes_directly(registry):
            await self._judge(registry)
            await self._call(self._rules.pull_seconds, self._engine.env, "pull", "--quiet", name)
            return
        proxy = PullProxy(registries, resolving=self._resolving, limit_bytes=self._rules.image_bytes)
        async with proxy:
            env = self._engine.env | dict.fromkeys(_PROXIES, proxy.url) | {"NO_PROXY": ""}
            try:
                await self._call(self._rules.pull_seconds, env, "pull", "--quiet", name)
            except NotPulled as failure:
                raise NotPulled("; ".join([*dict.fromkeys(proxy.troubles), str(failure)])) from None

    def _goes_directly(self, registry: Host) -> bool:
        """No proxy of ours: docker's daemon pulls by itself, the operator has a proxy, or engines use none for it."""
        return self._engine.kind != PODMAN or any(map(self._engine.env.get, _PROXIES)) or _is_this_machine(registry)

    async def _judge(self, registry: Host) -> None:
        if any(map(self._engine.env.get, _PROXIES)):
            return  # only the operator's proxy can resolve it
        host, private = connected(registry), self._rules.registries.private
        try:
            await judged_address(host.name, host.port, private=private, resolving=self._resolving)
        except ForbiddenTarget as error:
            raise NotPulled(f"{error}; --private-registries allows it for listed registries") from None
        except Unresolved as error:
            raise NotPulled(str(error)) from None

    async def _call(self, patience_seconds: float, env: dict[str, str], *words: str) -> None:
        """NotPulled: the last line of the engine's output. A killed engine leaves no process of its own."""
        try:
            process = await asyncio.create_subprocess_exec(
                self._engine.program,
                *words,
                env=env,
                cwd="/",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise NotPulled(f"the engine can't be run: {error.strerror}") from None
        try:
            async with asyncio.timeout(patience_seconds):
                _, output = await process.communicate()
        except TimeoutError:
            raise NotPulled(f"it took longer than {duration_text(int(patience_seconds * 1000))}") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode != 0:
            raise NotPulled(error_line(output.decode("utf-8", "replace")) or f"exit code {process.returncode}")


def _is_this_machine(registry: Host) -> bool:
    try:
        return ipaddress.ip_address(registry.name).is_loopback
    except ValueError:
        return registry.name == NODES_OWN
