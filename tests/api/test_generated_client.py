"""A client in another language, generated from the OpenAPI document alone, submits a task and waits for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.harness.cluster import Cluster

PACKAGES = ("@hey-api/openapi-ts@0.84.4", "typescript@5.8.3")  # both run on Node 18
PLUGINS = ("@hey-api/client-fetch", "@hey-api/sdk", "@hey-api/typescript")
PROGRAM = """
import { client } from './client/client.gen';
import { getTask, submitTask, waitForTasks } from './client/sdk.gen';
import type { EndedTask, Task } from './client/types.gen';

declare const process: { argv: string[] };

async function main(): Promise<void> {
    client.setConfig({ baseUrl: process.argv[2], auth: process.argv[3] });
    const made = await submitTask({ body: { command: ['sh', '-c', 'exit 3'], name: 'from-typescript' }, throwOnError: true });
    let ended: EndedTask[] = [];
    while (ended.length === 0) {
        ended = (await waitForTasks({ body: { ids: [made.data.id], timeout: 20 }, throwOnError: true })).data.ended;
    }
    const task: Task = (await getTask({ path: { task: String(made.data.id) }, throwOnError: true })).data;
    const refused = await submitTask({ body: { command: [] } });
    const problem: string | undefined = refused.error?.errors?.[0].pointer;
    console.log(JSON.stringify([ended[0].state, ended[0].exit_code, task.name, task.attempts, task.result, problem]));
}

main();
"""


@pytest.fixture(scope="session")
def tools() -> Path:
    """The generator and the compiler, installed once beside the Python packages of the tests."""
    folder = Path(sys.prefix) / "generated-client-tools"
    binaries = folder / "node_modules" / ".bin"
    if not (binaries / "openapi-ts").exists() or not (binaries / "tsc").exists():
        folder.mkdir(exist_ok=True)
        options = ("--prefix", str(folder), "--no-audit", "--no-fund", "--no-package-lock", "--no-save")
        _run("npm", "install", *options, *PACKAGES, cwd=folder)
    return binaries


@pytest.mark.timeout(300)
def test_a_typescript_client_is_generated_and_runs_a_task(database: str, tmp_path: Path, tools: Path) -> None:
    with Cluster(database, tmp_path / "cluster") as cluster:
        cluster.add_server()
        cluster.add_worker()
        url = cluster.urls[0]
        document = httpx.get(f"{url}/openapi.json", trust_env=False).raise_for_status()
        (tmp_path / "openapi.json").write_bytes(document.content)
        (tmp_path / "program.ts").write_text(PROGRAM)
        plugins = [word for plugin in PLUGINS for word in ("--plugins", plugin)]
        _run(tools / "openapi-ts", "--input", "openapi.json", "--output", "client", *plugins, cwd=tmp_path)
        _run(
            tools / "tsc",
            *("--strict", "--skipLibCheck", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"),
            *("--module", "commonjs", "--moduleResolution", "node", "program.ts"),
            cwd=tmp_path,
        )
        said = _run("node", "program.js", url, cluster.tokens.admin, cwd=tmp_path)
    assert json.loads(said) == ["failed", 3, "from-typescript", 1, None, "/command"]


def _run(*command: str | Path, cwd: Path) -> str:
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, f"{command}: {ran.stdout[-3000:]}{ran.stderr[-3000:]}"
    return ran.stdout
