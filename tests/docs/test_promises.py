"""Every promise that code, tests or docs cite by number is on the page that says what the numbers mean."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/promises.md").read_text()
CITED = re.compile(r"\b([RIF]\d{1,2})\b")


def sources() -> list[Path]:
    folders = ("src", "tests", "docs", "bench")
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".sql", ".md", ".c") and path.name != "promises.md"
    ]


def test_each_number_is_explained_once() -> None:
    explained = re.findall(r"^\| ([RIF]\d+) \|", PAGE, re.MULTILINE)
    assert len(explained) == len(set(explained))
    expected = {f"R{n}" for n in range(1, 59)} | {f"I{n}" for n in range(1, 31)} | {f"F{n}" for n in range(1, 45)}
    assert set(explained) == expected


def test_each_number_that_is_cited_is_explained() -> None:
    explained = set(re.findall(r"^\| ([RIF]\d+) \|", PAGE, re.MULTILINE))
    cited = {(number, path.name) for path in sources() for number in CITED.findall(path.read_text())}
    assert len(cited) > 100, "the pattern finds nothing any more"
    assert sorted(one for one in cited if one[0] not in explained) == []


def test_each_page_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert sorted(page for page in pages if f"({page})" not in index) == []


def test_each_link_between_pages_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
        if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists()
    ]
    assert broken == []


def test_each_test_that_the_fault_table_names_exists() -> None:
    page = (ROOT / "tests/faults/README.md").read_text()
    named = re.findall(r"`((?:[a-z_]+/)+test_[a-z_]+\.py)(?:::(test_[a-z_]+))?`", page)
    assert len(named) > 15
    missing = [
        file
        for file, test in named
        if not (ROOT / "tests" / file).exists() or test not in (ROOT / "tests" / file).read_text()
    ]
    assert missing == []
