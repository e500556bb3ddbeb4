"""Results of commands and scripts, and how dependents read them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from rota.client._sync.client import Client
from rota.client.errors import TaskFailed
from rota.dispatch.parent_results import bounded
from rota.execute.processes import task_files
from rota.model.attempt import MOST_INPUT_BYTES, MOST_INPUT_BYTES_A_TASK, Input, input_variables


def shell(client: Client, text: str, **options: object) -> object:
    return client.submit(["sh", "-c", text], **options).result(30)  # type: ignore[arg-type]


def test_what_a_script_writes_is_its_result(client: Client, rota: Callable[..., CompletedProcess[str]]) -> None:
    handle = client.submit(["sh", "-c", """echo '{"rows": [1, 2.5, null]}' > "$ROTA_RESULT" """])
    assert handle.result(30) == {"rows": [1, 2.5, None]}
    assert json.loads(rota("result", str(handle.id)).stdout) == {"rows": [1, 2.5, None]}
    assert json.loads(rota("result", str(handle.id), "-o", "json").stdout)["result"] == {"rows": [1, 2.5, None]}
    assert shell(client, "true") is None
    assert shell(client, ': > "$ROTA_RESULT"') is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo not json", "bad-result: the file named by ROTA_RESULT is not JSON"),
        ("printf '\"\\377\"'", "bad-result: the file named by ROTA_RESULT is not JSON"),
        ("echo NaN", "bad-result: the file named by ROTA_RESULT is not JSON"),
        ("head -c 30000000 /dev/zero", "result-too-large: the file named by ROTA_RESULT has more than"),
    ],
)
def test_what_is_no_result_fails_the_task_with_the_reason(client: Client, text: str, why: str) -> None:
    with pytest.raises(TaskFailed) as failed:
        shell(client, f'{text} > "$ROTA_RESULT"')
    assert why in str(failed.value)


def test_a_result_file_that_is_a_link_or_a_pipe_is_refused(client: Client) -> None:
    for text in ('ln -s /etc/passwd "$ROTA_RESULT"', 'mkfifo "$ROTA_RESULT"', 'mkdir "$ROTA_RESULT"'):
        with pytest.raises(TaskFailed, match="bad-result: the file named by ROTA_RESULT can't be read"):
            shell(client, text)


def test_a_failed_script_has_no_result(client: Client) -> None:
    with pytest.raises(TaskFailed, match="exited with code 3"):
        shell(client, 'echo 1 > "$ROTA_RESULT"; exit 3')


def test_dependents_get_what_the_tasks_before_them_returned(client: Client) -> None:
    left = client.submit(["sh", "-c", 'echo "[1]" > "$ROTA_RESULT"'], name="left")
    right = client.submit(function="sample_tasks:add", args=[2, 3], name="right")
    after = [left.id, right.id]
    parts = f'"$ROTA_RESULT_LEFT" "$ROTA_RESULT_{right.id}"'
    script = client.submit(["sh", "-c", f'printf "[%s,%s]" {parts} > "$ROTA_RESULT"'], after=after)
    function = client.submit(function="talking_tasks:add_up", after=after)
    assert script.result(30) == [[1], 5]
    assert function.result(30) == [[1], 5]


def test_a_result_too_large_to_be_handed_on_is_left_out(client: Client) -> None:
    text = f"""printf '"%{MOST_INPUT_BYTES}s"' x > "$ROTA_RESULT" """
    large = client.submit(["sh", "-c", text], name="large")
    after = client.submit(["sh", "-c", 'echo "${ROTA_RESULT_LARGE-absent}"'], after=[large.id])
    after.wait(30)
    assert after.log() == "absent\n"
    assert len(str(large.result(30))) == MOST_INPUT_BYTES


def test_names_become_variables_and_ids_win() -> None:
    inputs = [Input(7, "make-it.so", b"1"), Input(8, "7", b"2"), Input(9, "make it so", b"3"), Input(10, "big", None)]
    assert input_variables(inputs) == {
        "ROTA_RESULT_MAKE_IT_SO": "3",
        "ROTA_RESULT_7": "1",
        "ROTA_RESULT_8": "2",
        "ROTA_RESULT_9": "3",
    }


def test_all_a_task_is_handed_is_bounded() -> None:
    inputs = [Input(task, "part", b"x" * MOST_INPUT_BYTES) for task in range(20)]
    kept = bounded(inputs)
    assert sum(len(one.result or b"") for one in kept) == MOST_INPUT_BYTES_A_TASK
    assert [one.task for one in kept if one.result is None] == [16, 17, 18, 19]


def test_a_result_is_read_from_a_plain_file_only(tmp_path: Path) -> None:
    file = tmp_path / task_files.RESULT_NAME
    secret = tmp_path / "secret"
    secret.write_text("[1]")
    os.link(secret, file)
    with pytest.raises(task_files.BadResult, match="not a plain file of its own"):
        task_files.read_result(str(tmp_path), 100)
    secret.unlink()
    assert task_files.read_result(str(tmp_path), 100) == b"[1]"
    file.write_text("[" * 100_000)
    with pytest.raises(task_files.BadResult, match="not JSON"):
        task_files.read_result(str(tmp_path), 1_000_000)
    file.write_text(str(10**400))
    assert task_files.read_result(str(tmp_path), 1000) == str(10**400).encode()
