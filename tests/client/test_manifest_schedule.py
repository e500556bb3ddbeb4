"""`schedule:` in a manifest: its request, its name, and its faults with their positions."""

from __future__ import annotations

import jsonschema_rs
import msgspec
import pytest
import yaml

from rota.client.calls.manifest_calls import scheduled
from rota.client.manifest.schedule import SCHEDULE_NOTES, ScheduleSection
from rota.client.manifest.schema import manifest_schema
from rota.model.schedule.schedule import RuleKind
from tests.client.manifests import faults, manifest

VALIDATOR = jsonschema_rs.Draft202012Validator(manifest_schema())
GRAPH = """\
name: etl
schedule: {daily: 02:30, zone: Europe/Berlin, overlap: skip, max_runs: 3}
tasks:
  extract: {command: [extract.sh]}
  load: {command: [load.sh], after: [extract]}
"""


def test_a_graph_and_its_schedule_are_one_file() -> None:
    found = manifest(GRAPH)
    VALIDATOR.validate(yaml.safe_load(GRAPH.replace("02:30", "'02:30'")))
    body = msgspec.json.decode(scheduled(found, options={}).body or b"")
    assert {key: value for key, value in body.items() if key != "tasks"} == {
        "name": "etl", "graph": "etl", "daily": "02:30", "zone": "Europe/Berlin", "overlap": "skip", "max_runs": 3,
    }  # fmt: skip
    assert [one["ref"] for one in body["tasks"]] == ["extract", "load"]


def test_one_task_is_scheduled_under_its_name_and_options_override_the_file() -> None:
    found = manifest("name: nightly\nschedule: {every: PT3H, anchor: 2030-01-01T00:00Z}\ncommand: [x.sh]\n")
    assert msgspec.json.decode(scheduled(found, options={"cron": "0 3 * * *"}, name="other").body or b"") == {
        "name": "other", "cron": "0 3 * * *", "task": {"command": ["x.sh"], "name": "nightly"},
    }  # fmt: skip
    own = manifest("schedule: {name: mine, hourly: 15}\ncommand: [x.sh]\n")
    assert own.schedule is not None
    assert (own.schedule.name, own.schedule.hourly) == ("mine", 15)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("schedule: {daily: 25:00}\ncommand: [x]\nname: n",
         ["1:19: schedule.daily: '25:00' is not a time of day; write 02:30"]),
        ("schedule: {daily: 02:30, cron: '61 * * * *', dayly: x}\ncommand: [x]\nname: n",
         ["1:11: schedule: give one of at, hourly, daily, weekly, monthly, annually, cron, every; daily and cron are given",
          "1:32: schedule.cron: '61' is not a minute; it is *, 0-59, lists, ranges, steps",
          "1:46: schedule.dayly: there is no field 'dayly'; did you mean 'daily'?"]),
        ("schedule: {daily: 02:30, weekly: 'mon@08:00'}\ncommand: [x]\nname: n",
         ["1:11: schedule: give one of at, hourly, daily, weekly, monthly, annually, cron, every; daily and weekly are given"]),
        ("schedule: {cron: '61 * * * *', zone: Mars/Base}\ncommand: [x]\nname: n",
         ["1:18: schedule.cron: '61' is not a minute; it is *, 0-59, lists, ranges, steps",
          "1:38: schedule.zone: 'Mars/Base' is not an IANA time zone; write Europe/Berlin or UTC"]),
        ("schedule: {cron: '61 * * * *', overlap: maybe}\ncommand: [x]\nname: n\ncpu: lots",
         ["1:18: schedule.cron: '61' is not a minute; it is *, 0-59, lists, ranges, steps",
          "1:41: schedule.overlap: 'maybe' is not one of allow, skip, queue, replace",
          "4:6: cpu: 'lots' is not a number of cores; write 1.5 or 500m"]),
        ("schedule: {daily: 25:00}\ncomand: [x]\nname: 'n!'",
         ["1:11: schedule.name: a schedule has a name: letters, digits, . _ -, up to 100; 'n!' is not one",
          "1:19: schedule.daily: '25:00' is not a time of day; write 02:30",
          "2:1: comand: there is no field 'comand'; did you mean 'command'?"]),
        ("schedule: {daily: 02:30}\ncommand: [x]",
         ["1:11: schedule.name: a schedule has a name: letters, digits, . _ -, up to 100; it is missing"]),
        ("schedule: {daily: 02:30}\ncommand: [x]\nname: n\nat: 2030-01-31T09:00:00Z",
         ["4:5: at: the schedule says when; leave at out, or use delay"]),
        ("schedule: {daily: 02:30}\nname: n\ntasks: {a: {command: [x]}, b: {command: [x], after: [17]}}",
         ["3:53: tasks.b.after: a run's tasks come after refs of the same run only"]),
        ("schedule: nightly\ncommand: [x]", ['1:11: schedule: "nightly" is not an object']),
        ("tasks: {a: {command: [x], schedule: {daily: 02:30}}}", ["1:27: tasks.a.schedule: there is no field 'schedule'"]),
    ],
)  # fmt: skip
def test_faults_of_a_schedule_are_reported_at_their_position_without_a_server(text: str, messages: list[str]) -> None:
    assert faults(text) == [f"rota.yaml:{message}" for message in messages]


def test_the_schema_and_the_notes_know_the_same_fields() -> None:
    fields = set(ScheduleSection.__struct_fields__)
    published = manifest_schema()["$defs"]["Schedule"]
    assert set(SCHEDULE_NOTES) == fields == set(published["properties"])
    for name, note in SCHEDULE_NOTES.items():
        for example in [*note.examples, *note.choices]:
            rule = {} if name in set(RuleKind) else {"every": "PT3H"}
            told = {"name": "n", "command": ["x"], "schedule": {**rule, name: example}}
            VALIDATOR.validate(told)
            assert faults(msgspec.json.encode(told)) == []
    for wrong in ({}, {"daily": "02:30", "cron": "@daily"}, {"daily": 5}, {"daily": "02:30", "x": 1}):
        told = {"command": ["x"], "name": "n", "schedule": wrong}
        assert not VALIDATOR.is_valid(told)
        assert faults(msgspec.json.encode(told)) != []
