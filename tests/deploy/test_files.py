"""The deployment files say what they mean to say, and name only what there is."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from tests.deploy.shapes import COMPOSE, SPECS

from pointsman.cli.main import COMMANDS
from pointsman.gateway.api.status.handlers import GAUGES
from pointsman.gateway.route_table import ROUTES
from pointsman.gateway.telemetry.metrics import COUNTERS, HISTOGRAMS
from pointsman.storage.policies.settings import read_settings
from pointsman.turns.policy import read_policy
from pointsman.turns.registry.models import read_models, registry

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
METRIC = re.compile(r"\bpointsman_[a-z_]+\b")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
SUFFIXES = ("_bucket", "_sum", "_count")
LABELS = {
    "pointsman_requests_total": {"status"},
    "pointsman_decisions_total": {"policy", "model"},
    "pointsman_rejections_total": {"reason"},
    "pointsman_upstream_requests_total": {"model", "result"},
    "pointsman_fallbacks_total": {"model"},
    "pointsman_tokens_total": {"model", "type"},
    "pointsman_spend_microusd_total": {"model"},
    "pointsman_refused_keys_total": {"reason"},
    "pointsman_refused_calls_total": {"model"},
    "pointsman_absurd_charges_total": {"model"},
    "pointsman_privacy_local_total": {"rule"},
    "pointsman_second_opinions_total": {"result"},
    "pointsman_beside_total": {"kind", "result"},
    "pointsman_witness_up": {"witness"},
    "pointsman_witness_failing_seconds": {"witness"},
    "pointsman_witnessed_entries": {"chain"},
    "pointsman_request_seconds": {"model"},
    "pointsman_first_byte_seconds": {"model"},
    "pointsman_provider_state": {"provider"},
    "pointsman_provider_requests_left": {"provider"},
    "pointsman_provider_tokens_left": {"provider"},
    "pointsman_budget_remaining_usd": {"budget", "key"},
}


def manifests() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for path in sorted(KUBERNETES.glob("*.yaml")):
        if path.name != "kustomization.yaml":
            found += [(path.name, each) for each in yaml.safe_load_all(path.read_text()) if each]
    return found


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for _, each in manifests() if each["kind"] == kind]


def told_metrics() -> set[str]:
    return {*COUNTERS, *HISTOGRAMS, *GAUGES}


def base(name: str) -> str:
    for suffix in SUFFIXES:
        if name.removesuffix(suffix) in HISTOGRAMS:
            return name.removesuffix(suffix)
    return name


def expressions() -> list[str]:
    board = json.loads((DEPLOY / "monitoring" / "grafana.json").read_text())
    found = [each["expr"] for panel in board["panels"] for each in panel["targets"]]
    alerts = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())
    return found + [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]


def test_every_metric_that_is_drawn_or_watched_is_exposed() -> None:
    named = {base(name) for each in expressions() for name in METRIC.findall(each)}
    assert named - told_metrics() == set()


def test_every_metric_that_is_exposed_is_drawn() -> None:
    board = (DEPLOY / "monitoring" / "grafana.json").read_text()
    drawn = {base(name) for name in METRIC.findall(board)}
    assert told_metrics() - drawn == set()


def test_metrics_are_grouped_by_labels_that_they_have() -> None:
    for each in expressions():
        names = {base(name) for name in METRIC.findall(each)}
        labels = {part.strip() for group in GROUPED.findall(each) for part in group.split(",")}
        for name in names:
            assert labels - {"le", "instance"} <= LABELS.get(name, set()), each


def test_panels_lie_beside_each_other() -> None:
    board = json.loads((DEPLOY / "monitoring" / "grafana.json").read_text())
    cells: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in (at["y"],)}
        assert not mine & cells
        assert at["x"] + at["w"] <= 24
        cells |= mine
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_an_alert_says_what_is_wrong_and_what_to_look_at() -> None:
    alerts = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert len(rules) >= 8
    for rule in rules:
        assert {"alert", "expr", "for", "labels", "annotations"} == set(rule)
        assert {"summary", "action"} == set(rule["annotations"])
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_compose_runs_three_replicas_that_can_write_nothing() -> None:
    found = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    jsonschema_rs.validate(COMPOSE, found)
    services = found["services"]
    assert services["gateway"]["deploy"]["replicas"] == 3
    for name in ("migrate", "gateway", "worker"):
        assert services[name]["read_only"], name
        assert services[name]["command"][0] == "pointsman"
        assert services[name]["command"][1] in COMMANDS
    for name, service in services.items():
        assert {*service.get("depends_on", ())} <= services.keys(), name
    (DEPLOY / "compose" / found["x-pointsman"]["build"]["context"]).resolve(strict=True)
    for volume in found["x-pointsman"]["volumes"][1:]:
        assert (DEPLOY / "compose" / volume.split(":")[0]).exists()
    template = re.search(r"server-template \S+ (\d+) (\w+):(\d+)", haproxy())
    assert template is not None
    assert template.groups() == ("3", "gateway", "8484")


def haproxy() -> str:
    return (DEPLOY / "compose" / "haproxy.cfg").read_text()


def test_the_proxy_asks_for_readiness_at_a_route_and_a_name_that_are_served() -> None:
    asked = re.search(r"http-check send meth GET uri (\S+) hdr Host (\S+)", haproxy())
    assert asked is not None
    assert ("GET", asked[1]) in ROUTES
    assert asked[2] in settings().server.hosts


def settings() -> Any:
    return read_settings((KUBERNETES / "config" / "pointsman.yaml").read_bytes(), "pointsman.yaml")


def test_the_policy_files_that_are_mounted_are_valid() -> None:
    folder = KUBERNETES / "config"
    known = registry(
        read_models((folder / "models.yaml").read_bytes(), "models.yaml"), lambda _name: None
    )
    read_policy((folder / "routing.yaml").read_bytes(), "routing.yaml", known, "/")
    assert settings().server.port == 8484


@pytest.mark.parametrize(
    ("file", "found"), manifests(), ids=[f"{name}-{each['kind']}" for name, each in manifests()]
)
def test_a_manifest_has_the_shape_of_its_kind(file: str, found: dict[str, Any]) -> None:
    assert {"apiVersion", "kind", "metadata"} <= set(found)
    assert re.fullmatch(r"[a-z0-9-]{1,63}", found["metadata"]["name"])
    if found["kind"] in SPECS:
        jsonschema_rs.validate(SPECS[found["kind"]], found["spec"])
    else:
        assert found["kind"] in {"Namespace", "ServiceAccount"}, file


def test_selectors_find_the_pods_they_mean() -> None:
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for kind in ("Deployment", "Job")
        for each in of_kind(kind)
    }
    for each in of_kind("Deployment"):
        labels = pods[each["metadata"]["name"]]
        assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
    gateway = pods["pointsman-gateway"]
    (service,) = of_kind("Service")
    (budget,) = of_kind("PodDisruptionBudget")
    for wanted in (service["spec"]["selector"], budget["spec"]["selector"]["matchLabels"]):
        assert [name for name, labels in pods.items() if wanted.items() <= labels.items()] == [
            "pointsman-gateway"
        ]
    assert gateway["app.kubernetes.io/component"] == "gateway"
    (scaler,) = of_kind("HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] in pods
    assert scaler["spec"]["minReplicas"] > budget["spec"]["minAvailable"]


def test_pods_mount_what_they_name_and_probe_what_is_served() -> None:
    for kind in ("Deployment", "Job"):
        for each in of_kind(kind):
            pod = each["spec"]["template"]["spec"]
            volumes = {volume["name"] for volume in pod["volumes"]}
            for container in pod["containers"]:
                assert {mount["name"] for mount in container["volumeMounts"]} == volumes
                assert container["args"][0] == "pointsman"
                assert container["args"][1] in COMMANDS
                probes = [container[name] for name in container if name.endswith("Probe")]
                for probe in probes:
                    asked = probe["httpGet"]
                    assert ("GET", asked["path"]) in ROUTES
                    assert asked["httpHeaders"][0]["value"] in settings().server.hosts


def test_a_pod_has_the_time_to_drain() -> None:
    server = settings().server
    (gateway,) = (e for e in of_kind("Deployment") if e["metadata"]["name"] == "pointsman-gateway")
    allowed = gateway["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert server.drain_s + server.grace_s < allowed
    found = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    stop = int(found["x-pointsman"]["stop_grace_period"].removesuffix("s"))
    assert server.drain_s + server.grace_s < stop


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
def test_kustomize_puts_the_manifests_together() -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES)], capture_output=True, text=True, check=True
    )
    built = [each for each in yaml.safe_load_all(done.stdout) if each]
    kinds = sorted(each["kind"] for each in built)
    assert kinds == sorted([*(each["kind"] for _, each in manifests()), "ConfigMap"])
    (config,) = (each for each in built if each["kind"] == "ConfigMap")
    mounted = {
        volume["configMap"]["name"]
        for each in built
        if each["kind"] in {"Deployment", "Job"}
        for volume in each["spec"]["template"]["spec"]["volumes"]
        if "configMap" in volume
    }
    assert mounted == {config["metadata"]["name"]}


def unit(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd" / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("name", ["pointsman.service", "pointsman-worker.service"])
def test_a_unit_runs_a_command_and_is_confined(name: str) -> None:
    found = unit(name)
    (command,) = found["ExecStart"]
    assert command.split()[1] in COMMANDS
    for key, value in {
        "DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict",
        "CapabilityBoundingSet": "", "PrivateTmp": "yes", "UMask": "0077",
        "RestrictNamespaces": "yes", "Restart": "on-failure",
    }.items():  # fmt: skip
        assert found[key] == [value], key
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read(DEPLOY / "systemd" / name)
    assert {"Unit", "Service", "Install"} == set(parser.sections())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize("name", ["pointsman.service", "pointsman-worker.service"])
def test_systemd_finds_little_that_a_unit_exposes(name: str) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager",
         str(DEPLOY / "systemd" / name)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-300:]


def docker() -> str:
    return (DEPLOY / "Dockerfile").read_text()


def test_the_image_copies_what_there_is_and_runs_as_nobody_special() -> None:
    root = DEPLOY.parent
    for line in re.findall(r"^COPY (?!--from)(.+)$", docker(), re.MULTILINE):
        *sources, _ = [word for word in line.split() if not word.startswith("--")]
        for source in sources:
            assert (root / source).exists(), source
    assert re.search(r"^USER 10001:10001$", docker(), re.MULTILINE)
    assert docker().count("FROM ") == 2
    assert "HEALTHCHECK" in docker()
    assert docker().rstrip().splitlines()[-1].startswith('CMD ["pointsman", "serve"')


@pytest.mark.skipif(shutil.which("sed") is None, reason="there is no sed here")
def test_the_image_pins_what_was_tested() -> None:
    sed = re.search(r"RUN (sed .+) constraints.txt > pins.txt", docker())
    assert sed is not None
    done = subprocess.run(
        f"{sed[1]} constraints.txt", shell=True, cwd=DEPLOY.parent, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    assert len(lines) > 30
    assert all(re.match(r"^[A-Za-z0-9._\[\]-]+==\S+", line) for line in lines)
    assert not any(line.rstrip().endswith("\\") for line in lines)
