"""The keeper and the warm child stay light: what each program imports, found in a fresh interpreter."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

from rota.execute.keeper.orders import SpawnOrder
from rota.execute.keeper_link import Spawn

_PRINT_IMPORTS = """
import sys
before = set(sys.modules)
import {module}
print("\\n".join(sorted(set(sys.modules) - before)))
"""


def imports_of(module: str) -> set[str]:
    code = _PRINT_IMPORTS.format(module=module)
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def foreign(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"rota"}


def test_the_keeper_imports_the_standard_library_only() -> None:
    modules = imports_of("rota.execute.keeper.main")
    assert foreign(modules) == set()
    assert "asyncio" not in modules
    assert "rota.wire" not in modules


def test_a_warm_child_imports_the_standard_library_and_msgspec_only() -> None:
    for module in ("rota.execute.child.main", "rota.execute.child.main_concurrent"):
        modules = imports_of(module)
        assert foreign(modules) - {"typing_extensions"} == {"msgspec"}  # msgspec loads the other where it is installed
        assert "rota.wire" not in modules


def test_the_unpacker_imports_the_standard_library_only() -> None:
    modules = imports_of("rota.execute.files.unpack")
    assert foreign(modules) == set()


def test_the_agent_and_the_keeper_agree_on_the_fields_of_a_spawn_order() -> None:
    assert [field.name for field in dataclasses.fields(SpawnOrder)] == list(Spawn.__struct_fields__)
