"""What `make dist` builds: the same bytes each time, whole, and with a bill of what is inside."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "dist" / "build.py"
EPOCH = 1_700_000_000


def build(out: Path, **more: str) -> Path:
    """Build in a process of its own, as `make dist` does; return the folder."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), **more}
    command = [sys.executable, str(SCRIPT), "--out", str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


def only(folder: Path, ending: str) -> Path:
    (path,) = folder.glob(f"*{ending}")
    return path


@pytest.mark.slow
def test_two_builds_are_equal_byte_for_byte(dist: Path, tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        again = build(tmp_path / "again", TZ="Asia/Kathmandu", PYTHONHASHSEED="7")
    finally:
        os.umask(mask)
    names = sorted(path.name for path in dist.iterdir())
    assert len(names) == 4
    assert names == sorted(path.name for path in again.iterdir())
    assert [
        name for name in names if (dist / name).read_bytes() != (again / name).read_bytes()
    ] == []


@pytest.mark.slow
def test_digests_are_those_of_the_files(dist: Path) -> None:
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    assert len(lines) == 3
    for line in lines:
        digest, name = line.split()
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest


@pytest.mark.slow
def test_archive_holds_what_builds_and_not_what_tests(dist: Path) -> None:
    with tarfile.open(only(dist, ".tar.gz")) as packed:
        tops = {name.split("/")[1] for name in packed.getnames() if "/" in name}
    assert {"src", "docs", "web", "pyproject.toml", "LICENSE", "README.md"} <= tops
    assert {"tests", "bench", "campaigns", "evidence"} & tops == set()


@pytest.mark.slow
def test_wheel_alone_runs_the_demo(dist: Path, tmp_path: Path) -> None:
    """The dependencies come from the environment of the tests; the product from the wheel alone."""
    venv.create(tmp_path / "env", with_pip=False)
    (packages,) = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    with zipfile.ZipFile(only(dist, ".whl")) as wheel:
        wheel.extractall(packages)
    shared = [
        sysconfig.get_path("purelib"),
        *(path for path in sys.path if "site-packages" in path),
    ]
    (packages / "dependencies.pth").write_text("\n".join(shared))
    code = "import pointsman.cli.main as it; print(it.__file__); it.main()"
    done = subprocess.run(
        [tmp_path / "env" / "bin" / "python", "-c", code, "demo", "--home", str(tmp_path / "day")],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.splitlines()[0]).is_relative_to(packages)
    identical, total = re.findall(r"(\d+) of (\d+) decisions came out identical", done.stdout)[0]
    assert int(identical) == int(total) > 100


@pytest.mark.slow
def test_bill_names_every_pin_and_what_the_dashboard_is_built_of(dist: Path) -> None:
    bill = json.loads(only(dist, ".cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    parts = {each["bom-ref"]: each for each in bill["components"]}
    assert len(parts) == len(bill["components"])
    pins = re.findall(
        r"^([\w.-]+)==(\S+)",
        (ROOT / "constraints-run.txt").read_text() + (ROOT / "weights.txt").read_text(),
        re.MULTILINE,
    )
    wanted = {f"pkg:pypi/{re.sub('[-_.]+', '-', name).lower()}@{version}" for name, version in pins}
    assert wanted == {ref for ref in parts if ref.startswith("pkg:pypi/")}
    built_in = {each["name"] for ref, each in parts.items() if ref.startswith("pkg:npm/")}
    manifest = json.loads((ROOT / "web" / "package.json").read_text())
    assert built_in == set(manifest["dependencies"])
    assert all(each["hashes"] for each in parts.values())
    (own,) = bill["metadata"]["component"]["hashes"]
    assert own["content"] == hashlib.sha256(only(dist, ".whl").read_bytes()).hexdigest()
    (graph,) = bill["dependencies"]
    assert set(graph["dependsOn"]) <= set(parts)
    assert any(ref.startswith("pkg:pypi/msgspec@") for ref in graph["dependsOn"])


def test_readme_installs_the_version_that_is_built() -> None:
    version = re.findall(r'"(.+)"', (ROOT / "src" / "pointsman" / "version.py").read_text())[-1]
    named = re.findall(r"build/dist/(\S+\.whl)", (ROOT / "README.md").read_text())
    assert len(named) == 2
    assert set(named) == {f"pointsman-{version}-py3-none-any.whl"}
