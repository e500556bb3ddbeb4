"""The restrictions of a token: which tasks it is for, and from which networks it may be used. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network, ip_address


@dataclass(frozen=True, slots=True, kw_only=True)
class Restrictions:
    """Which tasks and networks a token is for. Empty: all."""

    pools: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # globs
    own: bool = False  # only those that its user submitted
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @property
    def of_tasks(self) -> bool:
        return bool(self.pools or self.names or self.own)

    def text(self) -> str:
        """What it is for, as people read it."""
        parts = [
            self.names and f"tasks with names like {', '.join(self.names)}",
            self.pools and f"tasks in the pools {', '.join(self.pools)}",
            self.own and "tasks of its own user",
        ]
        return ", and for ".join(part for part in parts if part) or "all tasks"

    def allows_name(self, name: str) -> bool:
        return not self.names or any(fnmatchcase(name, glob) for glob in self.names)

    def allows_pool(self, pool: str) -> bool:
        return not self.pools or pool in self.pools

    def allows_address(self, address: str | None) -> bool:
        if not self.networks:
            return True
        try:
            found = ip_address(address or "")
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None)
        return any((mapped or found) in network for network in self.networks)


UNRESTRICTED = Restrictions()
