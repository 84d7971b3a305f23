"""What is inside and what is installed with the wheel, as a CycloneDX 1.6 bill of materials.

Read from the pins alone, without a network: constraints-run.txt and weights.txt for the Python packages, with the
hash of every file each may be installed from; package-lock.json for what the dashboard's built files contain;
the licences beside the frozen tables of prices. Same pins, same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path

PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)\s*(?:;\s*(?P<marker>.*?))?\s*(?=--hash|$)")
TABLES = {
    "genai-prices": "src/pointsman/turns/price_table/prices.json",
    "litellm-model-prices": "src/pointsman/turns/price_table/catalogue.json",
}
"""Data of others that the wheel carries, and the file it became."""

Json = dict[str, object]


def bill_of_materials(root: Path, wheel: bytes, epoch: int) -> Json:
    """Return the bill of a source tree and the wheel that was built from it."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = re.search(r'VERSION = "([^"]+)"', (root / "src/pointsman/version.py").read_text())
    assert version is not None
    packages = [
        *python_packages((root / "constraints-run.txt").read_text(encoding="utf-8")),
        *python_packages((root / "weights.txt").read_text(encoding="utf-8")),
    ]
    inside = [*dashboard_packages(root / "web" / "package-lock.json"), *data_tables(root)]
    direct = {_folded(re.split(r"[<>=\[;\s]", line)[0]) for line in project["dependencies"]}
    digest = hashlib.sha256(wheel).hexdigest()
    own = f"pkg:pypi/pointsman@{version[1]}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # From the wheel's digest, so that two builds name their bill alike and two releases do not.
        "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32], version=4)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "pointsman",
                "version": version[1],
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": own,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
        },
        "components": [*packages, *inside],
        "dependencies": [
            {
                "ref": own,
                "dependsOn": [
                    *(str(each["bom-ref"]) for each in packages if each["name"] in direct),
                    *(str(each["bom-ref"]) for each in inside),
                ],
            }
        ],
        # The pins say what is installed, not which package asked for which.
        "compositions": [{"aggregate": "incomplete", "dependencies": [own]}],
    }


def python_packages(pins: str) -> list[Json]:
    """Return one component for each pinned package."""
    found: list[Json] = []
    for line in pins.replace("\\\n", " ").splitlines():
        pin = PIN.match(line)
        if pin is None:
            continue
        name = _folded(pin["name"])
        purl = f"pkg:pypi/{name}@{pin['version']}"
        component: Json = {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": pin["version"],
            "purl": purl,
            "hashes": [
                {"alg": "SHA-256", "content": digest}
                for digest in re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
            ],
        }
        if pin["marker"]:
            component["properties"] = [{"name": "pointsman:only-where", "value": pin["marker"]}]
        found.append(component)
    return found


def dashboard_packages(lock: Path) -> list[Json]:
    """Return the packages that Vite bundled into the dashboard: those that run, not those that build."""
    locked = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    found: list[Json] = []
    for path, package in sorted(locked.items()):
        if path == "" or package.get("dev") or package.get("optional"):
            continue
        name = path.rpartition("node_modules/")[2]
        purl = f"pkg:npm/{name}@{package['version']}"
        algorithm, _, digest = package["integrity"].partition("-")
        assert algorithm == "sha512"
        found.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": package["version"],
                "licenses": [{"license": {"id": package["license"]}}],
                "purl": purl,
                "hashes": [{"alg": "SHA-512", "content": base64.b64decode(digest).hex()}],
            }
        )
    return found


def data_tables(root: Path) -> list[Json]:
    """Return the tables of others that were frozen into files of the wheel."""
    return [
        {
            "type": "data",
            "bom-ref": name,
            "name": name,
            "licenses": [{"license": {"id": "MIT"}}],
            "hashes": [
                {
                    "alg": "SHA-256",
                    "content": hashlib.sha256((root / path).read_bytes()).hexdigest(),
                }
            ],
        }
        for name, path in sorted(TABLES.items())
    ]


def to_json(bill: Json) -> str:
    """Return the bill as it is written to its file."""
    return json.dumps(bill, indent=2, ensure_ascii=False) + "\n"


def _folded(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
