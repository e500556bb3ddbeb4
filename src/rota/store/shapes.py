"""Shapes: every distinct demand is stored once under a number. A number never changes meaning, so caches stay right."""

from __future__ import annotations

import asyncpg
import msgspec

from rota.model.resources import Resources, Shape
from rota.store.database import AnyConnection
from rota.store.statements import sql

_INSERT = sql("shapes/insert_shape")
_FIND = sql("shapes/find_shape")
_READ = sql("shapes/read_shapes")


async def number_of(connection: AnyConnection, shape: Shape) -> int:
    demand = shape.resources
    values = (
        demand.cpu_milli,
        demand.memory_bytes,
        demand.disk_bytes,
        demand.gpus,
        demand.ports,
        demand.iops,
        demand.gpu_milli,
        demand.bandwidth_kbit,
        msgspec.json.encode(demand.custom, order="sorted").decode(),
        msgspec.json.encode(shape.require, order="sorted").decode(),
    )
    number = await connection.fetchval(_FIND, *values)
    if number is None:
        number = await connection.fetchval(_INSERT, *values)
    if number is None:  # another node has inserted it
        number = await connection.fetchval(_FIND, *values)
    return int(number)


async def read_shapes(connection: AnyConnection, numbers: list[int]) -> dict[int, Shape]:
    rows = await connection.fetch(_READ, numbers)
    return {row["id"]: shape_of(row) for row in rows}


def shape_of(row: asyncpg.Record) -> Shape:
    """From a row with the columns of a shape, without its number."""
    return Shape(
        Resources(
            cpu_milli=row["cpu_milli"],
            memory_bytes=row["memory_bytes"],
            disk_bytes=row["disk_bytes"],
            gpus=row["gpus"],
            ports=row["ports"],
            custom=msgspec.json.decode(row["custom"]),
            iops=row["iops"],
            gpu_milli=row["gpu_milli"],
            bandwidth_kbit=row["bandwidth_kbit"],
        ),
        msgspec.json.decode(row["require"]),
    )
