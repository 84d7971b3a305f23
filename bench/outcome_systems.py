"""The gateways of the compared outcomes, each with two models and the fallback of its own manual.

`first` is the model that things go wrong with, `second` the model to fall back to; each has an
upstream of its own, prices of $1 and $2 a million tokens, and a timeout of two seconds.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from gateway_systems import KEY, LiteLlm, Pointsman, Portkey, System
from tests.gateway.house import entries, model, provider, write_home
from tests.gateway.outcome_cells import FIRST, SECOND_MODEL, charge, outcome_detail

from pointsman.kernel.record import OUTCOME

Way = Literal["named", "named, list set", "list"]
TIMEOUT_S = 2
PRICE = {"first": 1, "second": 2}
"""Micro-dollars a token, in and out."""


class Sides(NamedTuple):
    """The ports of the two upstreams."""

    first: int
    second: int


class Charge(NamedTuple):
    """A system's own count of what a request cost, in micro-dollars; `None` where it says none."""

    microusd: float | None = None
    is_estimate: bool = False


class Compared(System):
    """A system of the comparison: configured for one way to choose a model."""

    telling: tuple[str, ...] = ()
    """The headers by which it names a model, a retry or a fallback."""
    has_own_count = True

    def __init__(self, way: Way, sides: Sides) -> None:
        self.way = way
        self.sides = sides
        self.model = self.first_name() if way != "list" else self.list_name()

    def first_name(self) -> str:
        """Return the name by which a caller asks for the first model."""
        return "first"

    def list_name(self) -> str:
        """Return the name by which a caller leaves the choice to the list."""
        raise NotImplementedError

    def own_charge(self, folder: Path) -> Charge:
        """Read what the system itself counted, once the request is over."""
        raise NotImplementedError

    def has_recorded(self, folder: Path) -> bool:
        """Tell whether it has recorded the end of the request."""
        raise NotImplementedError


class ComparedPointsman(Compared, Pointsman):
    """Pointsman: a default list of two; fallback as by default."""

    telling = ("x-pointsman-model", "x-pointsman-requested-model", "x-pointsman-fallback-from")

    def first_name(self) -> str:
        return FIRST

    def list_name(self) -> str:
        return "auto"

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:  # noqa: ARG002 - two
        providers = {
            name: {**provider("openai", f"http://127.0.0.1:{side}"), "timeout_s": TIMEOUT_S,
                   "api_key": {"env": "BENCH_KEY"}}
            for name, side in (("main", self.sides.first), ("spare", self.sides.second))
        }  # fmt: skip
        models = {FIRST: model(price="1"), SECOND_MODEL: model(price="2")}
        default = [FIRST] if self.way == "named" else [FIRST, SECOND_MODEL]
        home = write_home(
            folder / "home",
            models={"schema_version": 1, "providers": providers, "models": models},
            routing={"schema_version": 1, "global_default": default},
        )
        return [str(self.program), "serve", "--home", str(home), "--port", str(port)]

    def _ends(self, folder: Path) -> list[dict[str, Any]]:
        return [outcome_detail(each) for each in entries(folder / "home", OUTCOME)]

    def has_recorded(self, folder: Path) -> bool:
        return bool(self._ends(folder))

    def own_charge(self, folder: Path) -> Charge:
        ends = self._ends(folder)
        spent = [end["spent"] for end in ends if end["spent"] is not None]
        return Charge(sum(each["cost_microusd"] for each in spent), charge(ends) == "estimate")


CALLBACK = """
import json
from pathlib import Path
from litellm.integrations.custom_logger import CustomLogger

TARGET = Path(__file__).parent / "costs.jsonl"


class Costs(CustomLogger):
    def _write(self, kind, kwargs):
        with TARGET.open("a") as file:
            cost = kwargs.get("response_cost")
            file.write(json.dumps({"kind": kind, "cost": cost}) + "\\n")

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self._write("success", kwargs)

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        self._write("failure", kwargs)


costs = Costs()
"""


class ComparedLiteLlm(Compared, LiteLlm):
    """LiteLLM's proxy: two models, `fallbacks` of the router, its stock retries."""

    telling = (
        "x-litellm-model-group",
        "x-litellm-model-name",
        "x-litellm-model-api-base",
        "x-litellm-attempted-retries",
        "x-litellm-attempted-fallbacks",
    )

    def list_name(self) -> str:
        return "chain"

    def _model(self, group: str, name: str, port: int) -> dict[str, Any]:
        cost = PRICE[name] / 1_000_000
        params = {
            "model": f"openai/{name}",
            "api_base": f"http://127.0.0.1:{port}/v1",
            "api_key": "os.environ/BENCH_KEY",
            "timeout": TIMEOUT_S,
            "stream_timeout": TIMEOUT_S,
            "input_cost_per_token": cost,
            "output_cost_per_token": cost,
        }
        return {"model_name": group, "litellm_params": params}

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:
        command = super().command(folder, port, upstream)
        config: dict[str, Any] = {
            "model_list": [
                self._model(self.model, "first", self.sides.first),
                self._model("second", "second", self.sides.second),
            ],
            "litellm_settings": {"callbacks": ["costs.costs"]},
        }
        if self.way != "named":
            config["router_settings"] = {"fallbacks": [{self.model: ["second"]}]}
        (folder / "costs.py").write_text(CALLBACK)
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        return command

    def _costs(self, folder: Path) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            return [*map(json.loads, (folder / "costs.jsonl").read_text().splitlines())]
        return []

    def has_recorded(self, folder: Path) -> bool:
        return bool(self._costs(folder))

    def own_charge(self, folder: Path) -> Charge:
        ends = [each for each in self._costs(folder) if each["kind"] == "success"]
        return Charge(sum((each["cost"] or 0) for each in ends) * 1e6)


class ComparedPortkey(Compared, Portkey):
    """Portkey's gateway: the config of its fallback strategy, sent with each request."""

    telling = (
        "x-portkey-provider",
        "x-portkey-last-used-option-index",
        "x-portkey-retry-attempt-count",
    )
    has_own_count = False

    def list_name(self) -> str:
        return "auto"

    def sent_headers(self, upstream: int) -> tuple[str, ...]:  # noqa: ARG002 - two of them
        first = self._target(self.sides.first, "first" if self.way == "list" else None)
        config = first
        if self.way != "named":
            targets = [first, self._target(self.sides.second, "second")]
            config = {"strategy": {"mode": "fallback"}, "targets": targets}
        return (f"x-portkey-config: {json.dumps(config)}",)

    def _target(self, port: int, name: str | None) -> dict[str, Any]:
        target = {
            "provider": "openai",
            "api_key": KEY,
            "custom_host": f"http://127.0.0.1:{port}/v1",
            "request_timeout": TIMEOUT_S * 1000,
        }
        return {**target, "override_params": {"model": name}} if name else target

    def has_recorded(self, folder: Path) -> bool:  # noqa: ARG002 - it records nothing
        return True

    def own_charge(self, folder: Path) -> Charge:  # noqa: ARG002 - it has none
        return Charge()


COMPARED: tuple[type[Compared], ...] = (ComparedPointsman, ComparedLiteLlm, ComparedPortkey)
