"""The commands of the deployment files, run as plain processes with what is mounted there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import pytest
import yaml
from tests.gateway.house import eventually
from tests.servers import free_port

from pointsman.storage.home import open_home

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
HOSTED = {"host": "pointsman"}


def args(file: str) -> list[str]:
    found = yaml.safe_load((KUBERNETES / file).read_text())
    words: list[str] = found["spec"]["template"]["spec"]["containers"][0]["args"]
    return words


@pytest.fixture
def surroundings(tmp_path: Path, postgres_url: str) -> dict[str, str]:
    """What a container gets: an identity as a secret holds it, policy files, and the store."""
    made = open_home(tmp_path / "made")
    identity = tmp_path / "identity"
    identity.mkdir()
    for name, source in (
        ("identity.json", made.path / "identity.json"),
        ("signing", made.path / "keys" / "signing"),
        ("content", made.path / "keys" / "content"),
    ):
        (identity / name).write_bytes(source.read_bytes())
        (identity / name).chmod(0o444)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "pointsman").write_text(
        f"#!{sys.executable}\nfrom pointsman.cli.main import main\nmain()\n"
    )
    (tools / "pointsman").chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "POINTSMAN_HOME": str(tmp_path / "home"),
        "POINTSMAN_IDENTITY": str(identity),
        "POINTSMAN_CONFIG": str(KUBERNETES / "config"),
        "POINTSMAN_STORE": postgres_url,
        "POINTSMAN_ADMIN_TOKEN": "pa_test-admin-token-of-the-deployment-tests",
    }


@contextmanager
def started(words: list[str], surroundings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [str(DEPLOY / "home.sh"), *words],
        env=surroundings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_a_replica_starts_answers_its_probes_and_ends_when_told(
    surroundings: dict[str, str],
) -> None:
    port = str(free_port())
    words = [port if word == "8484" else word for word in args("gateway.yaml")]
    url = f"http://127.0.0.1:{port}"
    with started(words, surroundings) as process, httpx.Client(trust_env=False) as client:

        def answers(path: str) -> bool:
            assert process.poll() is None, process.communicate()[0].decode()
            try:
                return client.get(url + path, headers=HOSTED, timeout=5).status_code == 200
            except httpx.TransportError:
                return False

        eventually(lambda: answers("/health"), seconds=180)
        eventually(lambda: answers("/health/readiness"), seconds=180)
        assert client.get(url + "/health", headers={"host": "elsewhere"}).status_code == 421
        check = re.search(r'CMD \["python", "-c", "(.+)"\]', (DEPLOY / "Dockerfile").read_text())
        assert check is not None
        code = check[1].replace("8484", port)
        subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
        home = Path(surroundings["POINTSMAN_HOME"])
        assert (home / "keys" / "signing").stat().st_mode & 0o077 == 0
        assert not (home / "ledger.db").exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(180) == 0


def test_migrating_and_a_worker_need_nothing_else(surroundings: dict[str, str]) -> None:
    with started(args("migrate.yaml"), surroundings) as process:
        out = process.communicate(timeout=300)[0].decode()
        assert process.returncode == 0, out
    with started([*args("worker.yaml"), "--once", "--json"], surroundings) as process:
        out = process.communicate(timeout=300)[0].decode()
        assert process.returncode == 0, out
    assert json.loads(out) == []


def test_a_worker_ends_when_told(surroundings: dict[str, str]) -> None:
    with started(args("worker.yaml"), surroundings) as process:
        import psycopg

        def is_waiting() -> bool:
            with psycopg.connect(surroundings["POINTSMAN_STORE"]) as connection:
                wanted = "SELECT to_regclass('pointsman_queue.procrastinate_workers')"
                if connection.execute(wanted).fetchone() == (None,):
                    return False
                count = "SELECT count(*) FROM pointsman_queue.procrastinate_workers"
                return connection.execute(count).fetchone() == (1,)

        eventually(is_waiting, seconds=180)
        process.send_signal(signal.SIGTERM)
        assert process.wait(180) == 0, process.communicate()[0].decode()
