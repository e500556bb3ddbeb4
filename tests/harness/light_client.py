"""`rota` as after `pip install` without extras: run as a program, it hides the packages that only extras bring.

python tests/harness/light_client.py up --port 7070
"""

from __future__ import annotations

import re
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions, requires
from types import ModuleType


def packages_of_extras() -> set[str]:
    """Names of distributions that only extras need."""
    plain, of_extras = set[str](), set[str]()
    for line in requires("rota") or ():
        name = _normal(re.split(r"[^\w.-]", line, maxsplit=1)[0])
        (of_extras if "extra ==" in line else plain).add(name)
    return of_extras - plain - {"rota"}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class WithoutExtras:
    """Finds what is installed, except modules of the packages that extras bring."""

    find_distributions = staticmethod(PathFinder.find_distributions)

    def __init__(self) -> None:
        hidden = packages_of_extras() | {"starlette"}  # comes with FastAPI
        installed = packages_distributions().items()
        self.hidden = {module for module, names in installed if {_normal(name) for name in names} <= hidden}

    def find_spec(
        self, name: str, path: list[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if name.partition(".")[0] in self.hidden else PathFinder.find_spec(name, path, target)


def main() -> None:
    finders = [finder for finder in sys.meta_path if finder is not PathFinder]
    sys.meta_path[:] = [*finders, WithoutExtras()]  # type: ignore[list-item]
    from rota.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
