"""Clients as they come, each with a call, a stream and a large body.

A client that is not on the machine is skipped.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, running

FOLDER = Path(__file__).parent
LARGE = 3_000_000
CALL = {"model": "big", "messages": [{"role": "user", "content": "hello"}]}

GO = """
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func post(url, more string) {
	body := `{"model":"big","messages":[{"role":"user","content":"hello"}]` + more + `}`
	url += "/v1/chat/completions"
	answer, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	told, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(told))
	fmt.Println(answer.StatusCode)
}

func main() {
	size, _ := strconv.Atoi(os.Args[2])
	post(os.Args[1], "")
	post(os.Args[1], `,"stream":true`)
	post(os.Args[1], `,"metadata":{"pad":"`+strings.Repeat("x", size)+`"}`)
}
"""


@pytest.fixture
def served(town: Town) -> Iterator[Running]:
    with running(town.home) as live:
        yield live


def ran(*command: object) -> list[str]:
    program = shutil.which(str(command[0]))
    if program is None:
        pytest.skip(f"there is no `{command[0]}` here")
    done = subprocess.run(
        [program, *map(str, command[1:])], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def assert_called(told: list[str], town: Town, calls: int) -> None:
    """Assert that all calls were served, the second one as a stream and the last in full."""
    assert [line for line in told if line.isdigit()] == ["200"] * calls
    assert told.count("data: [DONE]") == 1
    assert [len(each.body) > LARGE for each in town.openai.requests][:3] == [False, False, True]


def test_javas_client_is_served(served: Running, town: Town) -> None:
    told = ran("java", FOLDER / "JavaClient.java", served.url, LARGE)
    assert_called(told, town, 4)


def test_nodes_fetch_is_served(served: Running, town: Town) -> None:
    assert_called(ran("node", FOLDER / "node_client.mjs", served.url, LARGE), town, 3)


def test_gos_client_is_served(served: Running, town: Town, tmp_path: Path) -> None:
    source = tmp_path / "main.go"
    source.write_text(GO)
    assert_called(ran("go", "run", source, served.url, LARGE), town, 3)


@pytest.mark.parametrize("version", ["--http1.0", "--http1.1", "--http2"])
def test_curl_is_served(served: Running, town: Town, tmp_path: Path, version: str) -> None:
    large = {"pad": "x" * LARGE}
    told: list[str] = []
    for body in (CALL, {**CALL, "stream": True}, {**CALL, "metadata": large}):
        path = tmp_path / "body.json"
        path.write_bytes(msgspec.json.encode(body))
        url = f"{served.url}/v1/chat/completions"
        given = ("-H", "content-type: application/json", "--data-binary", f"@{path}", url)
        told += ran("curl", "-sS", version, "-w", "\\n%{http_code}\\n", *given)
    assert_called(told, town, 3)
