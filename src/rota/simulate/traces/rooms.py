"""The simulator's own books of what is free on a machine, device by device. Written apart from the core on purpose.

The driver checks every decision against these books, so a core that gives out more than there is cannot pass unseen.
A policy that names no devices has a part of a GPU put on the fullest device with room for it.
"""

from __future__ import annotations

from rota.model.resources import Resources
from rota.simulate.traces.workload import Machine

DEVICE_MILLI = 1000


class Room:
    """What is free on one machine. `devices` has the free thousandths of each GPU."""

    __slots__ = ("cpu_milli", "devices", "largest", "machine", "memory_bytes", "whole")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine.id
        self.cpu_milli = machine.capacity.cpu_milli
        self.memory_bytes = machine.capacity.memory_bytes
        self.devices = [DEVICE_MILLI] * machine.capacity.gpus
        self.whole = len(self.devices)  # devices nobody uses
        self.largest = DEVICE_MILLI if self.devices else 0  # the most that is free on one device

    def copy(self) -> Room:
        other = Room.__new__(Room)
        other.machine, other.cpu_milli, other.memory_bytes = self.machine, self.cpu_milli, self.memory_bytes
        other.devices, other.whole, other.largest = list(self.devices), self.whole, self.largest
        return other

    def fits(self, demand: Resources) -> bool:
        return (
            demand.cpu_milli <= self.cpu_milli
            and demand.memory_bytes <= self.memory_bytes
            and demand.gpus <= self.whole
            and demand.gpu_milli <= self.largest
        )

    def take(self, demand: Resources, devices: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Takes the demand out of the devices named, or of those it chooses; which they were, for `give`."""
        assert self.fits(demand), f"machine {self.machine} has no room for {demand}"
        self.cpu_milli -= demand.cpu_milli
        self.memory_bytes -= demand.memory_bytes
        if not demand.gpus and not demand.gpu_milli:
            return ()
        if not devices:
            devices = self._choose(demand)
        amount = demand.gpu_milli or DEVICE_MILLI
        wanted = 1 if demand.gpu_milli else demand.gpus
        assert len(set(devices)) == wanted, f"machine {self.machine}: devices {devices} for {demand}"
        for place in devices:
            assert self.devices[place] >= amount, f"machine {self.machine}: device {place} has no room for {demand}"
            self.devices[place] -= amount
        self._count()
        return devices

    def give(self, demand: Resources, devices: tuple[int, ...]) -> None:
        self.cpu_milli += demand.cpu_milli
        self.memory_bytes += demand.memory_bytes
        for place in devices:
            self.devices[place] += demand.gpu_milli or DEVICE_MILLI
        if devices:
            self._count()

    def gpu_milli(self) -> int:
        """All that is free on its GPUs."""
        return sum(self.devices)

    def _choose(self, demand: Resources) -> tuple[int, ...]:
        if not demand.gpu_milli:
            return tuple(place for place, free in enumerate(self.devices) if free == DEVICE_MILLI)[: demand.gpus]
        fitting = [place for place, free in enumerate(self.devices) if free >= demand.gpu_milli]
        return (min(fitting, key=lambda place: (self.devices[place], place)),)

    def _count(self) -> None:
        self.whole = self.devices.count(DEVICE_MILLI)
        self.largest = max(self.devices)


def gpu_milli_of(demand: Resources) -> int:
    return DEVICE_MILLI * demand.gpus + demand.gpu_milli
