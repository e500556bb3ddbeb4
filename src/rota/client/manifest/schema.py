"""The JSON Schema (draft 2020-12) of `rota.yaml`, for editors: `rota validate --schema`, `/v1/schemas/rota.yaml.json`.

Made from the structure and notes that check a manifest. It checks types and allowed words; units, names of tasks and
cycles are checked by `rota validate`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rota.client.manifest.fields import NOT_BY_DEFAULT, NOTES, WORK, ManifestTask, Note
from rota.client.manifest.schedule import SCHEDULE_NOTES, ScheduleSection
from rota.model.request.task_request import MAX_BATCH
from rota.model.schedule.schedule import RuleKind

ADDRESS = "https://rota.dev/schemas/rota.yaml.json"
TASK_NAME = r"^(?=.*[^0-9])[\p{L}\p{N}_][\p{L}\p{N}_-]{0,99}$"

_VARIABLE = {"$ref": "#/$defs/Variable"}
_SCALARS = ("integer", "number", "boolean")

Schema = dict[str, Any]


def manifest_schema(task: type[msgspec.Struct] = ManifestTask) -> Schema:
    _, components = msgspec.json.schema_components([task, ScheduleSection], ref_template="#/$defs/{name}")
    fields = {name: _field(schema, NOTES.get(name)) for name, schema in components.pop("Task")["properties"].items()}
    rules = components.pop("Schedule")["properties"]
    when = {name: _field(schema, SCHEDULE_NOTES.get(name)) for name, schema in rules.items()}
    fields["schedule"] = {"anyOf": [{"$ref": "#/$defs/Schedule"}, {"type": "null"}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ADDRESS,
        "title": "rota.yaml",
        "description": "One task, or with tasks: a graph, for rota submit -f; with schedule: a schedule.",
        "type": "object",
        "if": {"anyOf": [{"required": ["tasks"]}, {"required": ["defaults"]}]},
        "then": {"$ref": "#/$defs/Graph"},
        "else": {"$ref": "#/$defs/Task"},
        "$defs": {
            "Graph": {
                "description": "Tasks, and their order.",
                "type": "object",
                "required": ["tasks"],
                "additionalProperties": False,
                "properties": {
                    "name": {
                        "description": "The graph's name; its tasks have it as the tag graph.",
                        "type": ["string", "null"], "minLength": 1, "maxLength": 200, "examples": ["etl"],
                    },
                    "schedule": {"anyOf": [{"$ref": "#/$defs/Schedule"}, {"type": "null"}]},
                    "defaults": {"anyOf": [{"$ref": "#/$defs/Defaults"}, {"type": "null"}]},
                    "tasks": {
                        "description": "The tasks, by their names in this file.",
                        "type": "object", "minProperties": 1, "maxProperties": MAX_BATCH,
                        "propertyNames": {"pattern": TASK_NAME},
                        "additionalProperties": {"$ref": "#/$defs/Step"},
                        "examples": [{"extract": {"command": ["./extract.sh"]},
                                      "load": {"command": ["./load.sh"], "after": ["extract"]}}],
                    },
                },
            },
            "Defaults": {
                "description": "Fields of every task that does not set them; mappings are merged.",
                "$ref": "#/$defs/Fields",
                "not": {"anyOf": [{"required": [name]} for name in (*NOT_BY_DEFAULT, "schedule")]},
            },
            "Step": {
                "description": "One task of a graph. Fields that are not set come from defaults.",
                "$ref": "#/$defs/Fields",
                "not": {"required": ["schedule"]},
            },
            "Schedule": {
                "description": "When it runs: exactly one rule, and the policies for missed and overlapping runs. "
                "rota submit -f makes the schedule.",
                "type": "object",
                "additionalProperties": False,
                "properties": when,
                "oneOf": [{"required": [kind.value]} for kind in RuleKind],
            },
            "Task": {
                "description": "One task, with exactly one of the fields that say what to run.",
                "$ref": "#/$defs/Fields",
                "oneOf": [{"required": [name]} for name in WORK],
            },
            "Fields": {"type": "object", "additionalProperties": False, "properties": fields},
            "Variable": {
                "description": "A value given with --set NAME=VALUE.",
                "type": "string",
                "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}",
                "examples": ["${NAME}"],
            },
            **components,
        },
    }  # fmt: skip


def schema_text() -> str:
    """The text that is published, and stored in docs/."""
    return msgspec.json.format(msgspec.json.encode(manifest_schema()), indent=2).decode() + "\n"


def _field(schema: Schema, note: Note | None) -> Schema:
    """The schema of a field with its note. A number or truth value may also be a variable."""
    default = {"default": schema["default"]} if schema.get("default") is not None else {}
    bare = {key: value for key, value in schema.items() if key != "default"}
    options = bare.get("anyOf", [bare])
    kinds = {option.get("type") for option in options}
    if note is not None and note.choices:
        nothing = [None] if "null" in kinds else []
        bare = {"anyOf": [{"enum": [*note.choices, *nothing]}, _VARIABLE]}
    elif kinds & set(_SCALARS) and "string" not in kinds:
        bare = {"anyOf": [*options, _VARIABLE]}
    if note is None:
        return bare | default
    examples = {"examples": list(note.examples)} if note.examples else {}
    return {"description": note.description} | examples | bare | default
