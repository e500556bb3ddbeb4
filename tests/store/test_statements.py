"""The SQL files: each is used, each is found by its name, and numbers of states come from the enums."""

from __future__ import annotations

import re
from pathlib import Path

import rota.store
from rota.model.task import State
from rota.store.statements import columns, sql

SOURCE = Path(rota.store.__file__).parents[1]
FILES = {
    f"{path.parent.name}/{path.stem}": path.read_text()
    for path in (SOURCE / "store" / "sql").glob("*/*.sql")
    if path.parent.name != "migrations"
}
PYTHON = "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if "simulate" not in path.parts)


def test_every_file_is_run_or_included() -> None:
    included = {
        part if "/" in part else f"{name.split('/')[0]}/{part}"
        for name, text in FILES.items()
        for part in re.findall(r"\{([a-z_/]+)\}", text)
    }
    chosen = {
        f"{folder}/{part}"
        for folder in ("audit", "graphs", "listing", "selection")
        for part in re.findall(r'"(by_\w+)"', PYTHON)
    }
    run = set(re.findall(r'"([a-z_]+/[a-z_]+)"', PYTHON))
    assert sorted(FILES.keys() - included - chosen - run) == []


def test_a_state_is_written_by_its_name() -> None:
    numbers = [name for name, text in FILES.items() if re.search(r"\bstate (?:=|<>|in) \(?[1-9]", text)]
    assert numbers == [], "write {READY}, {DeliveryState.WAITING}, …"


def test_names_stand_for_numbers_and_for_other_files() -> None:
    assert f"state = {State.READY.value} " in sql("queue/load_ready")
    assert "queue.concurrency_key" in sql("queue/load_ready")
    assert "tasks.name = $5" in sql("listing/list_chosen", chosen="by_name")


def test_rows_become_columns() -> None:
    assert columns([(1, "a"), (2, "b")], 1, 0) == [["a", "b"], [1, 2]]
    assert columns([State.READY, State.DONE], "value", "label") == [[3, 10], ["ready", "done"]]
    assert columns([], "value") == [[]]


def test_all_sql_is_in_the_store() -> None:
    statement = re.compile(r'\.(?:fetch|fetchrow|fetchval|execute)\(\s*f?"')
    outside = [
        path for path in SOURCE.rglob("*.py") if "store" not in path.parts and statement.search(path.read_text())
    ]
    assert outside == []
