"""Shapes: every distinct demand once, known by a number. Numbers never change meaning, so a cache never goes stale."""

from __future__ import annotations

import msgspec

from rota.model.resources import Resources, Shape
from rota.store.database import AnyConnection

_INSERT = """
    insert into shapes (cpu_milli, memory_bytes, disk_bytes, gpus, ports, iops, gpu_milli, bandwidth_kbit, custom,
        require)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict do nothing returning id"""
_FIND = """
    select id from shapes
    where (cpu_milli, memory_bytes, disk_bytes, gpus, ports, iops, gpu_milli, bandwidth_kbit, custom, require)
        = ($1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb, $10::jsonb)"""
_READ = """
    select id, cpu_milli, memory_bytes, disk_bytes, gpus, ports, iops, gpu_milli, bandwidth_kbit, custom, require
    from shapes where id = any($1)"""


async def number_of(connection: AnyConnection, shape: Shape) -> int:
    demand = shape.resources
    values = (
        demand.cpu_milli, demand.memory_bytes, demand.disk_bytes, demand.gpus, demand.ports, demand.iops,
        demand.gpu_milli, demand.bandwidth_kbit,
        msgspec.json.encode(demand.custom, order="sorted").decode(),
        msgspec.json.encode(shape.require, order="sorted").decode(),
    )  # fmt: skip
    number = await connection.fetchval(_FIND, *values)
    if number is None:
        number = await connection.fetchval(_INSERT, *values)
    if number is None:  # another node was faster
        number = await connection.fetchval(_FIND, *values)
    return int(number)


async def read_shapes(connection: AnyConnection, numbers: list[int]) -> dict[int, Shape]:
    rows = await connection.fetch(_READ, numbers)
    return {
        row["id"]: Shape(
            Resources(
                cpu_milli=row["cpu_milli"], memory_bytes=row["memory_bytes"], disk_bytes=row["disk_bytes"],
                gpus=row["gpus"], ports=row["ports"], custom=msgspec.json.decode(row["custom"]),
                iops=row["iops"], gpu_milli=row["gpu_milli"], bandwidth_kbit=row["bandwidth_kbit"],
            ),
            msgspec.json.decode(row["require"]),
        )
        for row in rows
    }  # fmt: skip
