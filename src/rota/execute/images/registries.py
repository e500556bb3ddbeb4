"""Which registries this node asks for images. Pure.

Tenants name images, so they choose whom the node talks to: only registries that the operator listed, and of these only
public addresses unless the operator says otherwise. An image without a registry is one of docker.io.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DOCKER_HUB = "docker.io"
PUBLIC_REGISTRIES = (
    *(DOCKER_HUB, "ghcr.io", "quay.io", "registry.gitlab.com", "registry.k8s.io"),
    *("gcr.io", "public.ecr.aws", "mcr.microsoft.com", "nvcr.io"),
)
NONE = "none"
NODES_OWN = "localhost"  # images that were made on the node: never pulled
USUAL_PORTS = (443, 80)
_HTTPS = 443
_HUB_HOSTS = {DOCKER_HUB: "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}
_ENTRY = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Host:
    """A host and a port that an engine wants to connect to."""

    name: str
    port: int

    def __str__(self) -> str:
        return self.name if self.port == _HTTPS else f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registries:
    """The operator's list: NAME, NAME:PORT or *.DOMAIN."""

    listed: tuple[str, ...] = PUBLIC_REGISTRIES
    private: bool = False  # listed registries may have loopback, link-local and private addresses

    def lists(self, host: Host) -> bool:
        """Without a port an entry means the usual ones."""
        ports = ("", f":{host.port}") if host.port in USUAL_PORTS else (f":{host.port}",)
        name = host.name.lower()
        domains = [f"*.{name.split('.', dots)[-1]}" for dots in range(1, name.count(".") + 1)]
        return any(f"{entry}{port}" in self.listed for entry in (name, *domains) for port in ports)


def parse_registries(entries: tuple[str, ...], *, private: bool) -> Registries:
    """ValueError: the sentence for the operator. No entry means the well-known public registries."""
    if not entries:
        return Registries(private=private)
    if entries == (NONE,):
        return Registries(listed=(), private=private)
    for entry in entries:
        if entry == NONE:
            raise ValueError("none means that no image is pulled; it can't be given with registries")
        if not _ENTRY.fullmatch(entry.lower()):
            raise ValueError(f"{entry[:80]!r} is not a registry: NAME, NAME:PORT, *.DOMAIN, or none")
    return Registries(listed=tuple(entry.lower() for entry in entries), private=private)


def full_name(image: str) -> str:
    """With its registry: `alpine:3` is docker.io/library/alpine:3."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == NODES_OWN):
        return image
    return f"{DOCKER_HUB}/{image}" if slash else f"{DOCKER_HUB}/library/{image}"


def registry_of(name: str) -> Host:
    """The registry in an image's full name, as it is listed."""
    host, _, port = name.partition("/")[0].partition(":")
    return Host(host.lower(), int(port) if port else _HTTPS)


def connected(registry: Host) -> Host:
    """The host that answers for a registry."""
    return Host(_HUB_HOSTS.get(registry.name, registry.name), registry.port)
