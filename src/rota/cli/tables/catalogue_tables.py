"""Tables of tiers, categories, lanes and pools."""

from __future__ import annotations

from rota.cli.tables.render import NOTHING, facts, limit, number, size, span, table
from rota.model.answers import catalogue as documents


def tiers(answer: documents.TierList) -> str:
    columns = ("NAME", "CPU>", "MEMORY>", "DISK>", "IOPS>", "GPUS>", "BANDWIDTH>")
    return table(columns, [_tier_row(one) for one in answer.tiers], empty="no tiers")


def tier(one: documents.TierDocument) -> str:
    names = ("tier", "cpu", "memory", "disk", "disk operations/s", "gpus", "bandwidth")
    return facts(zip(names, _tier_row(one), strict=True))


def _tier_row(one: documents.TierDocument) -> tuple[str, ...]:
    return (
        one.name,
        number(one.cpu),
        size(one.memory_bytes),
        size(one.disk_bytes),
        number(one.iops) if one.iops else NOTHING,
        str(one.gpus) if one.gpus else NOTHING,
        f"{size(one.bandwidth_bits)}bit/s" if one.bandwidth_bits else NOTHING,
    )


def categories(answer: documents.CategoryList) -> str:
    columns = ("NAME", "TOLERANCE>", "LANE", "CAP>", "ISOLATION")
    rows = [_category_row(one) for one in answer.categories]
    return table(columns, rows, empty="no categories: make one with rota category set")


def category(one: documents.CategoryDocument) -> str:
    return facts(zip(("category", "tolerance", "lane", "cap", "isolation"), _category_row(one), strict=True))


def _category_row(one: documents.CategoryDocument) -> tuple[str, ...]:
    return (
        one.name,
        span(one.tolerance_seconds),
        one.lane or NOTHING,
        span(one.cap_seconds),
        one.isolation or NOTHING,
    )


def lanes(answer: documents.LaneList) -> str:
    columns = ("NAME", "NUMBER>", "LEVEL>", "GATED", "PROMOTES")
    return table(columns, [_lane_row(one) for one in answer.lanes], empty="no lanes")


def lane(one: documents.LaneDocument) -> str:
    return facts(zip(("lane", "number", "level", "gated", "promotes"), _lane_row(one), strict=True))


def _lane_row(one: documents.LaneDocument) -> tuple[str, ...]:
    return one.name, str(one.number), str(one.level), _yes(one.gated), _yes(one.promotes)


def pools(answer: documents.PoolList) -> str:
    columns = (
        "NAME",
        "ELASTIC",
        "PEAK>",
        "KEPT FOR URGENT>",
        "RUNNING TASKS>",
        "PAUSED",
        "ISOLATION",
        "IDENTIFIED NODES",
    )
    return table(columns, [_pool_row(one) for one in answer.pools], empty="no pools")


def pool(one: documents.PoolDocument) -> str:
    names = (
        "pool",
        "elastic",
        "peak mark",
        "kept for urgent",
        "running tasks",
        "paused",
        "isolation",
        "identified nodes only",
    )
    return facts(zip(names, _pool_row(one), strict=True))


def _pool_row(one: documents.PoolDocument) -> tuple[str, ...]:
    return (
        one.name,
        _yes(one.elastic),
        f"{one.peak_percent} %",
        f"{one.urgent_kept_percent} %",
        limit(one.running_tasks),
        _yes(one.paused),
        ", ".join(one.isolations),
        _yes(one.identified_nodes),
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"
