"""The requests about an operator's definitions: tiers, categories, lanes, pools, retention."""

from __future__ import annotations

from collections.abc import Mapping

from rota.client.calls.call import Call, delete, get, patch, post, put, segment
from rota.model.answers import catalogue as documents
from rota.model.answers.catalogue import RetentionDocument

Changes = Mapping[str, object]  # fields that are not named stay as they are


def tiers() -> Call[documents.TierList]:
    return get("/v1/tiers", documents.TierList)


def set_tier(name: str, changes: Changes) -> Call[documents.TierDocument]:
    return put(f"/v1/tiers/{segment(name)}", documents.TierDocument, changes)


def remove_tier(name: str) -> Call[None]:
    return delete(f"/v1/tiers/{segment(name)}")


def categories() -> Call[documents.CategoryList]:
    return get("/v1/categories", documents.CategoryList)


def set_category(name: str, changes: Changes) -> Call[documents.CategoryDocument]:
    return put(f"/v1/categories/{segment(name)}", documents.CategoryDocument, changes)


def remove_category(name: str) -> Call[None]:
    return delete(f"/v1/categories/{segment(name)}")


def lanes() -> Call[documents.LaneList]:
    return get("/v1/lanes", documents.LaneList)


def add_lane(name: str, fields: Changes) -> Call[documents.LaneDocument]:
    return post("/v1/lanes", documents.LaneDocument, {"name": name, **fields})


def change_lane(name: str, changes: Changes) -> Call[documents.LaneDocument]:
    return patch(f"/v1/lanes/{segment(name)}", documents.LaneDocument, changes)


def pools() -> Call[documents.PoolList]:
    return get("/v1/pools", documents.PoolList)


def pause_pool(name: str) -> Call[documents.PausedPool]:
    return post(f"/v1/pools/{segment(name)}/pause", documents.PausedPool, repeatable=True)


def resume_pool(name: str) -> Call[documents.PoolDocument]:
    return post(f"/v1/pools/{segment(name)}/resume", documents.PoolDocument, repeatable=True)


def pool(name: str) -> Call[documents.PoolDocument]:
    return get(f"/v1/pools/{segment(name)}", documents.PoolDocument)


def add_pool(name: str, fields: Changes) -> Call[documents.PoolDocument]:
    return post("/v1/pools", documents.PoolDocument, {"name": name, **fields})


def change_pool(name: str, changes: Changes) -> Call[documents.PoolDocument]:
    return patch(f"/v1/pools/{segment(name)}", documents.PoolDocument, changes)


def retention() -> Call[RetentionDocument]:
    return get("/v1/retention", RetentionDocument)


def change_retention(changes: Changes) -> Call[RetentionDocument]:
    return patch("/v1/retention", RetentionDocument, changes)
