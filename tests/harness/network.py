"""A machine of its own on this machine: a network namespace with one cable to us, which can lose every packet.

Unlike a proxy, which acknowledges what it swallows, it is silent as a machine without power is: neither end is told
anything. Needs root, `ip` and `iptables`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess

_numbers = itertools.count()


class FarMachine:
    """Use as a context manager. Processes run there with `prefix` before their command line."""

    def __init__(self) -> None:
        number = (os.getpid() * 8 + next(_numbers)) % 16_384
        self.name = f"rota-{number}"
        network = f"10.231.{number // 64}.{number % 64 * 4}".rpartition(".")
        first = int(network[2])
        self.here, self.there = f"{network[0]}.{first + 1}", f"{network[0]}.{first + 2}"
        self._cable = f"rota{number}a", f"rota{number}b"

    @property
    def prefix(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.name)

    def __enter__(self) -> FarMachine:
        _run("ip", "netns", "add", self.name)
        try:
            near, far = self._cable
            _run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", self.name)
            _run("ip", "address", "add", f"{self.here}/30", "dev", near)
            _run("ip", "link", "set", near, "up")
            _run("ip", "-n", self.name, "address", "add", f"{self.there}/30", "dev", far)
            for device in (far, "lo"):
                _run("ip", "-n", self.name, "link", "set", device, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _run("ip", "netns", "delete", self.name)  # its end of the cable goes with it, and so does ours

    def cut(self) -> None:
        """From now on every packet is lost, in both directions, and nobody is told."""
        for chain, direction in (("INPUT", "-i"), ("OUTPUT", "-o")):
            _run(*self.prefix, "iptables", "-A", chain, direction, self._cable[1], "-j", "DROP")

    def heal(self) -> None:
        _run(*self.prefix, "iptables", "-F")

    def connections(self, *, port: int, here: bool = False) -> int:
        """Established TCP connections to or from this port that one end holds."""
        wanted = f"( sport = :{port} or dport = :{port} )" + (f" and dst {self.there}" if here else "")
        return len(_run(*(() if here else self.prefix), "ss", "-Htn", "state", "established", wanted).splitlines())


def _run(*command: str) -> str:
    with contextlib.suppress(FileNotFoundError):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
        return done.stdout
    raise AssertionError(f"{command[0]} is not installed")
