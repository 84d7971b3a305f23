"""A second, naive model of placement, written from document 001 and its companion.

It shares no code with the product. It takes the table and the facts as plain values and says what
must come out: route or error, rule, gate, and the flags.
"""

from typing import Any

Plain = dict[str, Any]

ACTIONS = ["block", "force_local", "force_cloud", "require_confirmation", "warn"]
NOWHERE: Plain = {
    "route": "",
    "model": "",
    "fallback_allowed": False,
    "requires_confirmation": False,
    "log_escalation": False,
}


def place(table: Plain, facts: Plain, *, unreadable: bool = False) -> Plain:
    """Place a question, or say what follows the failure of one that was placed."""
    held = _held(table, facts, unreadable)
    actions = [rule["action"] for rule in table.get("policy_rules", [])]
    strongest = min(
        (each for each in actions if each in ACTIONS), key=ACTIONS.index, default="none"
    )
    action = strongest
    if strongest != "block" and facts["human_override"] != "none":
        # An override replaces the effective action, and surfaces as POLICY_FORCE_*.
        action = {"force_local": "force_local", "force_remote": "force_cloud"}[
            facts["human_override"]
        ]
    if facts["failed"] is not None:
        said = _after_failure(table, facts, held, action)
    else:
        said = _by_policy(facts, held, action) or _by_rules(table, facts, held)
    said = _gated(table, facts, _bound(table, facts, said))
    if "require_confirmation" in actions and not said["error_code"]:
        said["requires_confirmation"] = True
    return said


def _bound(table: Plain, facts: Plain, said: Plain) -> Plain:
    """Hold a question within the zones that policy rules, a taint and rows of the table name."""
    rows = [row for row in table["rules"] if row["id"] == said["rule_id"]]
    if said["log_escalation"]:
        rows = [row for row in table["rules"] if row["condition"]["privacy_level"] == "auto"]
    named = {rule["zone"] for rule in table.get("policy_rules", []) if "zone" in rule}
    named |= {row["action"]["zone"] for row in rows if "zone" in row["action"]}
    named |= {*facts.get("stays_within", []), *(facts.get("taint_zones") or [])} - {"cloud"}
    named |= {_within(table, label) for label in facts.get("labels") or []} - {"local", "cloud"}
    # What another of them lies within adds nothing.
    wider = {outer for each in named for outer in _wider(table, each)}
    zones = sorted(named - wider)
    if not zones:
        return said
    zones = ["local"] if "local" in zones else zones
    return said | {"zones": zones, "gate": "zone" if said["gate"] == "open" else said["gate"]}


def _wider(table: Plain, zone: str) -> set[str]:
    """All the zones that one lies within."""
    outer = table.get("zones", {}).get(zone, [])
    outer = {outer} if isinstance(outer, str) else {*outer}
    return (outer | {each for one in outer for each in _wider(table, one)}) - {"cloud"}


def _within(table: Plain, label: str) -> str:
    """The zone of a label; one that the table does not know stays here."""
    return str(table.get("labels", {}).get(label, {"within": "local"})["within"])


def _cloud_model(table: Plain, facts: Plain, zones: list[str]) -> str:
    for name, zone in facts.get("cloud_models", []) if zones else []:
        if {*zones} <= {zone} | _wider(table, zone):
            return str(name)
    return "" if zones else str(facts["cloud_model"])


def _held(table: Plain, facts: Plain, unreadable: bool) -> str:
    """Name what keeps a question here, apart from its privacy level."""
    if unreadable:
        return "TABLE_UNREADABLE"
    if facts["taint"]:
        return "TAINT_LOCAL"
    if any(_within(table, label) == "local" for label in facts.get("labels") or []):
        return "LABEL_LOCAL"
    stays = table.get("sensitive", {}).get("stays_local", [])
    masks = table.get("sensitive", {}).get("mask", [])
    found = facts["found"]
    if not stays and not masks:
        return ""
    if found is None or found == "failed":
        return "SENSITIVE_UNKNOWN"
    return "SENSITIVE_LOCAL" if any(_stays(kind, stays, masks, facts) for kind in found) else ""


def _stays(kind: str, stays: list[str], masks: list[str], facts: Plain) -> bool:
    """Tell whether a kind stays: what is listed by its name beats what is listed by its group."""
    group, name = kind.split(".")
    for listed in (name, group):
        if listed in stays:
            return True
        if listed in masks:
            return bool(facts.get("masking") != "done")
    return False


def _by_policy(facts: Plain, held: str, action: str) -> Plain | None:
    if action == "block":
        return _error("E-ROUTE-001", "POLICY_BLOCK", "closed")
    if action == "force_local":
        return _routed("local", "POLICY_FORCE_LOCAL", "local")
    if action == "force_cloud":
        if facts["privacy_level"] == "local" or held:
            return _error("E-ROUTE-002", "POLICY_FORCE_CLOUD", "closed")
        return _routed("cloud", "POLICY_FORCE_CLOUD", "open")
    return None


def binds(table: Plain) -> bool:
    """Whether the auto rows bind: as the table says, else by the model that is meant to serve."""
    own = table.get("local_model", "embedded:")
    return bool(table.get("auto", "" if own.startswith("embedded") else "binding") == "binding")


def _by_rules(table: Plain, facts: Plain, held: str) -> Plain:
    level, local = facts["privacy_level"], facts["local_model"]
    if level == "local":
        return _routed("local", "PRIVACY_LOCAL", "local")
    if held:
        return _routed("local", held, "local")
    if level == "cloud":
        return _routed("cloud", "PRIVACY_CLOUD", "open")
    limit = table["defaults"]["token_threshold"]
    if local["max_tokens"] is not None:
        limit = min(limit, local["max_tokens"])
    fits = facts["token_count"] <= limit
    knows = facts["intent"] is None or facts["intent"] in local["supported_intents"]
    if fits and local["available"] and knows:
        gate = "local" if binds(table) else "open"
        return _routed("local", "AUTO_LOCAL", gate) | {"fallback_allowed": True}
    return _routed("cloud", "AUTO_CLOUD", "open")


def _after_failure(table: Plain, facts: Plain, held: str, action: str) -> Plain:
    failed = facts["failed"]
    if failed["route"] == "cloud":
        return _error("E-CLOUD-001", "CLOUD_EXECUTION_FAILURE", "open")
    if not failed["fallback_allowed"]:
        return _error("E-LOCAL-001", "LOCAL_EXECUTION_FAILURE_NO_FALLBACK", "local")
    if facts["privacy_level"] == "local" or held or action in {"block", "force_local"}:
        return _error("E-ROUTE-002", "LOCAL_EXECUTION_FAILURE", "local")
    return _routed("cloud", "LOCAL_EXECUTION_FAILURE", "open") | {
        "log_escalation": True,
        "requires_confirmation": _asks(table),
    }


def _asks(table: Plain) -> bool:
    rules = {rule["id"]: rule for rule in table["failure_rules"]}
    return bool(rules["LOCAL_EXECUTION_FAILURE"]["action"].get("requires_confirmation", False))


def _gated(table: Plain, facts: Plain, said: Plain) -> Plain:
    """A local route needs a model there, a cloud route a network and a model; never the other."""
    if said["error_code"]:
        return said
    if said["route"] == "local":
        if not facts["local_model"]["available"]:
            return said | _error("E-LOCAL-001", said["rule_id"], said["gate"])
        return said | {"model": facts["local_model"]["model_name"]}
    if facts["network_state"] == "offline":
        return said | _error("E-NET-001", "NETWORK_UNAVAILABLE", said["gate"])
    model = _cloud_model(table, facts, said.get("zones", []))
    if not model:
        return said | _error("E-CLOUD-001", said["rule_id"], said["gate"])
    return said | {"model": model}


def _routed(route: str, rule_id: str, gate: str) -> Plain:
    return NOWHERE | {"route": route, "rule_id": rule_id, "gate": gate, "error_code": ""}


def _error(code: str, rule_id: str, gate: str) -> Plain:
    return NOWHERE | {"rule_id": rule_id, "gate": gate, "error_code": code}
