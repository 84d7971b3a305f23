"""Machines that share one ledger, and publish policies in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from tests.gateway.house import keeps

from pointsman.app import Pointsman
from pointsman.errors import LedgerBroken
from pointsman.kernel.entry import Entry
from pointsman.storage.policies.policies import InForce
from pointsman.storage.stores.entries import LedgerReader

SETTINGS = "policy: {source: ledger}\n"
MODELS = """
schema_version: 1
providers:
  acme: {kind: openai, base_url: "https://llm.example/v1", api_key: {env: ACME_KEY}}
models:
  acme:one: {location: cloud, price: {input: 3, output: 15}}
  acme:two: {location: cloud, price: {input: 1, output: 5}}
"""
TABLE = json.dumps(keeps("secret", taint="off"))


def routing(default: str = "acme:one") -> str:
    return f"schema_version: 1\nglobal_default: {default}\n"


class Machine(Pointsman):
    """A machine with files of its own; all share one ledger."""

    def write(self, name: str, text: str) -> None:
        (self.home.path / name).write_text(text)

    def say(self, default: str, by: str = "anna") -> str:
        """Publish the files with another default model."""
        self.write("routing.yaml", routing(default))
        return self.publish(self.publishing().candidate(), by).id

    def now(self) -> InForce:
        """Look, and give what is in force."""
        self.publishing().look()
        return self.in_force()

    @property
    def default(self) -> str | None:
        return self.now().ready.policy.global_default

    def entries(self, kind: str) -> list[Entry]:
        with closing(LedgerReader(self.home.database)) as reader:
            return [each.entry for each in reader.of_kind(kind)]


Machines = Callable[[], Machine]


@contextmanager
def opened_machines(folder_of_all: Path, url: str) -> Iterator[Machines]:
    """Give machines: on PostgreSQL each has a folder of its own, on SQLite they share one."""
    first = folder_of_all / "m0"
    made: list[Machine] = []
    with ExitStack() as stack:

        def machine() -> Machine:
            folder = first
            if url and made:
                folder = folder_of_all / f"m{len(made)}"
                folder.mkdir(mode=0o700)
                shutil.copy2(first / "identity.json", folder)
                shutil.copytree(first / "keys", folder / "keys", copy_function=shutil.copy2)
            else:
                folder.mkdir(mode=0o700, exist_ok=True)
            if not (folder / "pointsman.yaml").exists():
                (folder / "pointsman.yaml").write_text(SETTINGS)
                (folder / "models.yaml").write_text(MODELS)
                (folder / "routing.yaml").write_text(routing())
            made.append(Machine(folder, store=url))
            stack.callback(closed, made[-1])
            return made[-1]

        yield machine


def closed(machine: Machine) -> None:
    # Some tests take entries out of its chain, which is noticed when its end is signed.
    with suppress(LedgerBroken):
        machine.close()
