"""One word, one meaning: the glossary is sorted and every entry is used; words that had a private meaning stay away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRIVATE = (
    "company", "companies", "nursery", "cradle", "newborn", "bear", "birth", "births", "born", "chorus", "solo", "voices",
    "hearsay", "desk", "litter", "scales", "whereabouts", "spares", "walls", "walled", "flight", "flights", "pilot",
    "boarding", "landed", "attend",
)  # fmt: skip
ORDINARY = re.compile(r"in[- ]flight")  # of requests, as everybody says it
ORDINARY_NAMES = frozenset((Path(__file__).parent / "ordinary_words.txt").read_text().split())


def texts() -> dict[Path, str]:
    product = [path for path in sorted((ROOT / "src").rglob("*")) if path.suffix in (".py", ".pyi", ".sql", ".c")]
    pages = [
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "examples").rglob("*.*"),
    ]
    return {path: path.read_text() for path in [*product, *pages] if "migrations" not in path.parts}


def test_no_word_with_a_private_meaning_is_left() -> None:
    word = re.compile(rf"(?<![a-zA-Z])({'|'.join(PRIVATE)})(?![a-zA-Z])", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if word.search(ORDINARY.sub("", line))
    ]
    assert found == []


def entries() -> dict[str, str]:
    rows = re.findall(r"^\| \*\*(.+?)\*\*(.*?)\| ", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    return {word: note.strip(" ()") for word, note in rows}


def test_the_glossary_is_sorted() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\*", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    assert rows == sorted(rows, key=str.lower)
    assert len(rows) > 60


@pytest.mark.parametrize("word", sorted(entries()))
def test_each_word_of_the_glossary_is_used(word: str) -> None:
    plain = re.sub(r"[^a-z]+", "[ _-]?", word.split(" / ")[0].lower())
    used = re.compile(rf"(?<![a-z]){plain}(?![a-z]{{4}})", re.IGNORECASE)
    pages = ("ARCHITECTURE.md", "glossary.md")
    assert any(used.search(text) for path, text in texts().items() if path.name not in pages), f"nothing says {word!r}"


def test_each_name_of_a_module_is_an_ordinary_word_or_in_the_glossary() -> None:
    """A new module with another word: use the ordinary term, or explain the word in the glossary."""
    glossary = {part for word in entries() for part in re.split(r"[ /-]+", word.lower())}
    explained = glossary | {f"{word}s" for word in glossary} | ORDINARY_NAMES
    modules = [path.relative_to(ROOT / "src").with_suffix("") for path in (ROOT / "src").rglob("*.py")]
    words = {word for module in modules for part in module.parts for word in part.strip("_").split("_") if word}
    assert len(words) > 300
    assert sorted(words - explained) == []
