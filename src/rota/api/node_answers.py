"""Nodes and their keys as answers show them."""

from __future__ import annotations

import asyncpg
import msgspec

from rota.api.answers import amounts_of, filled
from rota.api.leaders import Load
from rota.model.answers.cluster import NodeDocument, NodeKeyDocument
from rota.node_identity import fingerprint
from rota.store.nodes import resources_of


def node_of(row: asyncpg.Record, load: Load | None) -> NodeDocument:
    """`load` is from the pool's leader, which drops a silent node's connection: a connected node is not silent."""
    connected = load is not None and load.free is not None
    return filled(
        NodeDocument,
        row,
        state=row["state_if_connected"] if connected and row["state"] == "silent" else row["state"],
        capacity=amounts_of(resources_of(row["capacity"])),
        free=None if load is None or load.free is None else amounts_of(load.free),
        running=None if load is None else load.attempts,
        frozen=None if load is None else load.frozen,
        labels=msgspec.json.decode(row["labels"]),
        key=None if row["public_key"] is None else node_key_of(row),
    )


def node_key_of(row: asyncpg.Record) -> NodeKeyDocument:
    return NodeKeyDocument(
        fingerprint=fingerprint(row["public_key"]), joined_at=row["joined_at"], joined_with=row["joined_with"]
    )
