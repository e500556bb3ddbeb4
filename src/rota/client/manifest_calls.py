"""The requests a manifest makes: one task is sent alone, a graph as one, all or none of it.

The companion of `calls.py`, under the same rule: values only, nothing here connects.
"""

from __future__ import annotations

from rota.client import calls, documents, graph_calls, insight_calls
from rota.client.conversations import Conversation, ask
from rota.client.insight_documents import PreviewDocument
from rota.client.manifest import Manifest
from rota.model.request import BatchRequest


def submit(manifest: Manifest, fresh_key: str | None) -> calls.Call[documents.Submitted]:
    """The call for a manifest of one task."""
    return calls.submit_request(manifest.tasks[0], fresh_key)


def submit_graph(manifest: Manifest, fresh_key: str | None) -> calls.Call[graph_calls.SubmittedGraph]:
    """Under its name, else that of its file."""
    return graph_calls.submit(manifest.graph_name, manifest.tasks, fresh_key)


def preview(manifest: Manifest) -> calls.Call[PreviewDocument]:
    asked = BatchRequest(tasks=list(manifest.tasks)) if manifest.is_graph else manifest.tasks[0]
    return insight_calls.preview_request(asked)


def submitted(manifest: Manifest, fresh_key: str | None) -> Conversation[dict[str, int]]:
    """Submits it; the ids by the tasks' names."""
    if not manifest.is_graph:
        one = yield from ask(submit(manifest, fresh_key))
        return {manifest.labels()[0]: one.id}
    graph = yield from ask(submit_graph(manifest, fresh_key))
    return graph.tasks
