"""Where a program's path leads outside, if the task brought the files: nothing of the machine is read for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rota.execute.keeper import launch
from rota.execute.keeper.launch import NotStarted
from rota.execute.sandbox.bubblewrap import Host, Mount, Sandbox
from rota.execute.sandbox.path_lookup import outside

HOST = Host(bwrap="/usr/bin/bwrap", folders=("/usr",), links=(("/bin", "usr/bin"),), files=("/etc/ssl/certs",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An attempt's folder, and beside it a file that it must not see."""
    (tmp_path / "secret").write_text("#!/bin/sh\n")
    (tmp_path / "secret").chmod(0o755)
    (tmp_path / "work" / "bin").mkdir(parents=True)
    (tmp_path / "work" / "bin" / "run").write_text("#!/bin/sh\n")
    (tmp_path / "work" / "bin" / "run").chmod(0o755)
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("target", "where"),
    [
        ("bin/run", "{folder}/bin/run"),
        ("/task/bin/run", "{folder}/bin/run"),
        ("bin/../bin/run", "{folder}/bin/run"),
        ("/usr/bin/env", "/usr/bin/env"),
        ("../usr/bin/env", "/usr/bin/env"),
        ("../../../../../../usr/bin/env", "/usr/bin/env"),
        ("../secret", None),
        ("/etc/shadow", None),
        ("/proc/self/exe", None),
        ("/root/.bashrc", None),
        ("link", None),
        ("gone", "{folder}/gone"),
    ],
)
def test_a_link_that_a_task_brought_is_followed_as_the_task_would(folder: Path, target: str, where: str | None) -> None:
    (folder / "link").symlink_to(target)
    found = outside(HOST, Sandbox(), "/task/link", folder=str(folder))
    assert found == (None if where is None else where.format(folder=folder))


def test_a_folder_that_is_a_link_leads_nowhere_outside_either(folder: Path) -> None:
    (folder / "up").symlink_to("..")
    (folder / "near").symlink_to("bin")
    assert outside(HOST, Sandbox(), "/task/up/secret", folder=str(folder)) is None
    assert outside(HOST, Sandbox(), "/task/up/task/bin/run", folder=str(folder)) == f"{folder}/bin/run"
    assert outside(HOST, Sandbox(), "/task/near/run", folder=str(folder)) == f"{folder}/bin/run"
    assert outside(HOST, Sandbox(), "/task/bin/run/x", folder=str(folder)) == f"{folder}/bin/run/x"


def test_links_in_a_root_of_its_own_lead_about_in_that_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "tool").write_text("")
    (root / "bin").symlink_to("usr/bin")
    (root / "usr" / "bin" / "sh").symlink_to("/bin/tool")
    (root / "usr" / "bin" / "out").symlink_to("../../../../../../bin/tool")
    (root / "usr" / "bin" / "made").symlink_to("/tmp/x")
    (root / "usr" / "bin" / "process").symlink_to("/proc/self/exe")
    (tmp_path / "work").mkdir()

    def locate(path: str) -> str | None:
        sandbox = Sandbox(root=str(root), mounts=(Mount(str(tmp_path / "work"), "/srv/team"),))
        return outside(HOST, sandbox, path, folder=str(tmp_path / "work"))

    tool = f"{root}/usr/bin/tool"
    assert [locate(f"/bin/{name}") for name in ("tool", "sh", "out", "made", "process")] == [tool, tool, tool, "", None]
    assert locate("/bin/none") == f"{root}/usr/bin/none"
    assert locate("/etc/passwd") == f"{root}/etc/passwd", "not this machine's"
    assert locate("/task/x") == f"{tmp_path}/work/x"
    assert locate("/srv/team/x") == f"{tmp_path}/work/x"
    assert locate("/") == f"{root}/"


@pytest.mark.parametrize(
    ("program", "slug", "message"),
    [
        ("./none.sh", "no-such-program", "there is no program ./none.sh in its work folder"),
        ("bin/run/x", "no-such-program", "there is no program bin/run/x in its work folder"),
        ("./a\nb\x1b[0m", "no-such-program", r"there is no program ./a\nb\x1b[0m in its work folder"),
        ("./bin", "not-executable", "./bin is a folder"),
        ("./pipe", "not-executable", "./pipe is not a file"),
        ("./plain", "not-executable", "./plain may not be executed"),
        ("/task/plain", "not-executable", "/task/plain may not be executed"),
        ("./lost", "no-such-program", "there is no /no/such/interpreter, which ./lost names in its first line"),
        ("plain", "not-executable", "/task/plain may not be executed"),
        ("none", "no-such-program", "there is no program none on this node's PATH (/task:/usr/bin)"),
    ],
)
def test_a_program_that_a_task_brought_and_that_can_not_be_run_is_refused_by_name(
    folder: Path, program: str, slug: str, message: str
) -> None:
    os.mkfifo(folder / "pipe", 0o755)
    (folder / "plain").write_text("echo")
    (folder / "lost").write_text("#!/no/such/interpreter\n")
    (folder / "lost").chmod(0o755)
    with pytest.raises(NotStarted) as refused:
        launch.command(
            [program],
            search="/task:/usr/bin",
            folder="/task",
            locate=lambda path: outside(HOST, Sandbox(), path, folder=str(folder)),
        )
    assert (refused.value.slug, refused.value.message) == (slug, message)
