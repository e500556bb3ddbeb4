"""What runs a script without a `#!` line: the suffix of its file's name, else sh, else a refusal that says what to do."""

from __future__ import annotations

import pytest

from rota.model.request.interpreters import NoInterpreter, interpreter_by_suffix, interpreter_of


@pytest.mark.parametrize(
    ("file", "program"),
    [
        ("fit.py", ["python3"]),
        ("jobs/model.R", ["Rscript"]),
        ("a.awk", ["awk", "-f"]),
        ("clean.BASH", ["bash"]),
        ("nightly.sh", None),
        ("nightly", None),
        (".profile", None),
    ],
)
def test_the_suffix_of_a_scripts_name_chooses_its_program(file: str, program: list[str] | None) -> None:
    assert interpreter_of(file, "text") == interpreter_by_suffix(file) == program


@pytest.mark.parametrize("file", ["fit.py", "main.go"])
def test_a_first_line_that_names_the_program_wins(file: str) -> None:
    assert interpreter_of(file, "#!/usr/bin/env ruby\n") is None


def test_a_script_that_nobody_knows_how_to_run_is_refused_with_what_to_do() -> None:
    with pytest.raises(NoInterpreter) as refused:
        interpreter_of("src/main.go", "package main")
    assert str(refused.value) == (
        "src/main.go has no #! line, and no program is known that runs .go files; "
        "begin it with a line such as #!/usr/bin/env python3"
    )
    assert interpreter_by_suffix("src/main.go") is None, "a file on the node may be a program"
