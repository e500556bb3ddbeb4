"""The simulator's own record of each machine's free resources, device by device. Shares no code with the core.

The driver checks every decision against it, so a core that overcommits a machine is noticed. If a policy names no
devices, a part of a GPU goes to the fullest device that can hold it.
"""

from __future__ import annotations

from rota.model.resources import Resources
from rota.simulate.traces.workload import Machine

DEVICE_MILLI = 1000


class FreeResources:
    """The free resources of one machine. `devices` has the free thousandths of each GPU."""

    __slots__ = ("cpu_milli", "devices", "largest", "machine", "memory_bytes", "whole")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine.id
        self.cpu_milli = machine.capacity.cpu_milli
        self.memory_bytes = machine.capacity.memory_bytes
        self.devices = [DEVICE_MILLI] * machine.capacity.gpus
        self.whole = len(self.devices)  # unused devices
        self.largest = DEVICE_MILLI if self.devices else 0  # the largest free part of one device

    def copy(self) -> FreeResources:
        other = FreeResources.__new__(FreeResources)
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
        """Takes the demand from the named devices, or chooses some. Returns the devices, for `give`."""
        assert self.fits(demand), f"machine {self.machine} cannot hold {demand}"
        self.cpu_milli -= demand.cpu_milli
        self.memory_bytes -= demand.memory_bytes
        if not demand.gpus and not demand.gpu_milli:
            return ()
        if not devices:
            devices = self._choose(demand)
        amount = demand.gpu_milli or DEVICE_MILLI
        wanted = 1 if demand.gpu_milli else demand.gpus
        assert len(set(devices)) == wanted, f"machine {self.machine}: devices {devices} for {demand}"
        for index in devices:
            assert self.devices[index] >= amount, f"machine {self.machine}: device {index} cannot hold {demand}"
            self.devices[index] -= amount
        self._count()
        return devices

    def give(self, demand: Resources, devices: tuple[int, ...]) -> None:
        self.cpu_milli += demand.cpu_milli
        self.memory_bytes += demand.memory_bytes
        for index in devices:
            self.devices[index] += demand.gpu_milli or DEVICE_MILLI
        if devices:
            self._count()

    def gpu_milli(self) -> int:
        """Free thousandths, summed over its GPUs."""
        return sum(self.devices)

    def _choose(self, demand: Resources) -> tuple[int, ...]:
        if not demand.gpu_milli:
            return tuple(index for index, amount in enumerate(self.devices) if amount == DEVICE_MILLI)[: demand.gpus]
        fitting = [index for index, amount in enumerate(self.devices) if amount >= demand.gpu_milli]
        return (min(fitting, key=lambda index: (self.devices[index], index)),)

    def _count(self) -> None:
        self.whole = self.devices.count(DEVICE_MILLI)
        self.largest = max(self.devices)


def gpu_milli_of(demand: Resources) -> int:
    return DEVICE_MILLI * demand.gpus + demand.gpu_milli


def amounts_of(resources: Resources) -> tuple[int, int, int]:
    """CPU, memory, GPU thousandths."""
    return resources.cpu_milli, resources.memory_bytes, gpu_milli_of(resources)
