"""Pulls by a real podman from a registry of the test's own, through the proxy or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rota.execute.images.node_images import Images, PullRules
from rota.execute.images.registries import Registries
from rota.execute.processes import engine
from rota.execute.sandbox.container import Engine
from rota.public_addresses import Resolve
from tests.execute.containers.images import podman
from tests.execute.images.registry import Registry, serving

NAME = "registry.test"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry()) as registry:
        yield registry
        shown = podman("images", "--format", "{{.Repository}}:{{.Tag}}").split()
        ours = [name for name in shown if name.startswith((f"{NAME}:{registry.port}/", f"127.0.0.1:{registry.port}/"))]
        for name in ours:
            podman("rmi", "--force", name)


@pytest.fixture
def proven(registry: Registry, tmp_path: Path) -> Engine:
    assert shutil.which("podman") is not None, "there is no podman here: scripts/install-test-tools"
    listed = [f'[[registry]]\nlocation = "{host}:{registry.port}"\ninsecure = true\n' for host in (NAME, "127.0.0.1")]
    (tmp_path / "registries.conf").write_text("".join(listed))
    found = engine.candidates("podman", {"PATH": "/usr/bin:/bin", "HOME": "/root"})[0]
    return replace(found, env=found.env | {"CONTAINERS_REGISTRIES_CONF": str(tmp_path / "registries.conf")})


def resolving(*addresses: str) -> Resolve:
    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return resolve


@contextlib.asynccontextmanager
async def images(
    proven: Engine, *listed: str, private: bool = True, at: str = "127.0.0.1", **rules: object
) -> AsyncIterator[Images]:
    pulls = PullRules(registries=Registries(listed=listed, private=private), **rules)  # type: ignore[arg-type]
    images = Images(proven, pulls, resolving=resolving(at))
    try:
        yield images
    finally:
        await images.close()


async def pulled(images: Images, image: str) -> list[str]:
    """What the operator's log says meanwhile."""
    with capture_logs() as logs:
        if images.want(1, image):
            await asyncio.gather(*images._pulls)
    return [entry["why"] for entry in logs]


async def test_an_image_of_a_listed_registry_is_pulled_through_the_proxy(proven: Engine, registry: Registry) -> None:
    image = f"{NAME}:{registry.port}/team/tool:1"
    async with images(proven, f"{NAME}:{registry.port}") as here:
        assert not await here.find(image)
        assert await pulled(here, image) == []
        assert here.known == {image: image}
        assert any("/blobs/" in path for path in registry.asked)  # nothing but the proxy resolves this name
        here.forget(image)
        assert await here.find(image)


async def test_an_image_of_another_registry_is_refused_and_nobody_is_asked(proven: Engine, registry: Registry) -> None:
    """Also one on the loopback address, whatever is listening there."""
    async with images(proven, "docker.io") as here:
        for host in (NAME, "127.0.0.1", "localhost"):
            name = f"{host}:{registry.port}"
            whys = await pulled(here, f"{name}/tool:1")
            assert whys == [f"{name} is not a registry of this node; --registry {name} allows it"]
            assert not here.want(1, f"{name}/tool:1")
        assert await pulled(here, "localhost/none:1") == [
            "it is one of the node's own, and the node has none of that name"
        ]
    assert registry.asked == []


async def test_a_listed_registry_with_a_private_address_needs_the_operators_leave(
    proven: Engine, registry: Registry
) -> None:
    for host in (NAME, "127.0.0.1"):
        async with images(proven, f"{host}:{registry.port}", private=False) as here:
            (why,) = await pulled(here, f"{host}:{registry.port}/tool:1")
            assert f"{host} is not a public address; --private-registries allows it" in why
    assert registry.asked == []
    async with images(proven, f"127.0.0.1:{registry.port}") as here:
        assert await pulled(here, f"127.0.0.1:{registry.port}/tool:1") == []


async def test_a_redirect_into_the_nodes_network_is_not_followed(proven: Engine, registry: Registry) -> None:
    with serving(Registry()) as inside:
        registry.redirect_blobs_to = f"http://inside.test:{inside.port}"
        async with images(proven, f"{NAME}:{registry.port}") as here:
            (why,) = await pulled(here, f"{NAME}:{registry.port}/tool:1")
            assert f"inside.test:{inside.port}: another port than 443 and 80" in why
    assert inside.asked == []


async def test_a_pull_that_takes_too_long_is_ended_and_so_is_one_of_a_stopping_worker(proven: Engine) -> None:
    gone = asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(1000):
                pass
        writer.close()
        gone.set()

    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as slow:
        port = slow.sockets[0].getsockname()[1]
        async with images(proven, f"127.0.0.1:{port}", pull_seconds=0.5) as here:
            assert await pulled(here, f"127.0.0.1:{port}/a:1") == ["it took longer than 500ms"]
        async with asyncio.timeout(10):
            await gone.wait()  # the engine is dead
            gone.clear()
        async with images(proven, f"127.0.0.1:{port}") as here:
            assert here.want(1, f"127.0.0.1:{port}/b:1")
        assert here._pulls == set()


async def test_an_image_that_is_too_large_is_not_received(proven: Engine, registry: Registry) -> None:
    async with images(proven, f"{NAME}:{registry.port}", image_bytes=500) as here:
        (why,) = await pulled(here, f"{NAME}:{registry.port}/large:1")
        assert "it is larger than 500; --image-limit allows more" in why
