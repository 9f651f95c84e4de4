"""Node for tests: the client in clients/javascript, or another text of it, run over the tasks of devices/harness.js."""

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from optrr.survey.page import page_files

TESTS = Path(__file__).parent
CLIENT = TESTS.parent / "clients" / "javascript"
_OLDEST_NODE = 20


@cache
def node() -> str:
    """Node's program; the test is skipped without one that is new enough."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("Node is not installed (apt install nodejs)")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < _OLDEST_NODE:
        pytest.skip(f"Node is {version}; the client's tests need {_OLDEST_NODE} or later")
    return program


@cache
def _page() -> TemporaryDirectory[str]:
    """A folder with the survey's page as it is served, removed when the process ends."""
    folder = TemporaryDirectory()
    for name, file in page_files().items():
        (Path(folder.name) / (name or "survey.html")).write_bytes(file.body)
    return folder


def of_the_page(name: str) -> Path:
    """A file of the survey's page beside all that it imports."""
    return Path(_page().name) / name


def run(task: str, given: Any, client: Path = CLIENT / "optrr.js", timeout: float = 600) -> Any:
    """The result of a task of the harness."""
    job = json.dumps({"client": str(client), "task": task, "input": given})
    command = [node(), str(TESTS / "devices" / "node.mjs")]
    done = subprocess.run(command, input=job, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def called(module: Path, function: str, arguments: list[Any]) -> list[Any]:
    """A module's function applied to each argument, one after another, promises awaited."""
    code = f"""
    import {{ {function} }} from {json.dumps(module.as_uri())};
    import {{ readFileSync }} from "node:fs";
    const results = [];
    for (const x of JSON.parse(readFileSync(0, "utf-8"))) results.push(await {function}(x));
    process.stdout.write(JSON.stringify(results));
    """
    command = [node(), "--input-type=module", "-e", code]
    done = subprocess.run(command, input=json.dumps(arguments), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
