"""A second, naive model of the policy chain, written from document 002 and its companion.

It shares no code with the product. It takes files and facts as plain values, in the shapes users
write them, and says what must come out. Patterns must stay in what `re` and RE2 agree on.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

Plain = dict[str, Any]

EMBEDDED = "embedded:smollm2-135m"
EMBEDDED_ENTRY: Plain = {"location": "local", "tier": "fast", "aliases": ["local"],
                         "capabilities": {"max_context_tokens": 2048, "max_output_tokens": 1024,
                                          "supports_images": False,
                                          "supports_tools": False,
                                          "supports_system_prompt": True,
                                          "supports_structured_output": True},
                         "price": {"input": 0, "output": 0}}  # fmt: skip
TIERS = ["fast", "balanced", "deep"]
PATTERN_DEFAULTS: Plain = {"mode": "apply", "k": 10, "cost_weight": "0.05",
                           "min_confidence": "0.05", "min_sample_size": 5}  # fmt: skip


class Refused(Exception):
    """The message begins with an alias that is unknown, or with nothing behind it."""


def run(
    models: Plain, routing: Plain, facts: Plain, home: str = "/home/me", zones: Plain | None = None
) -> Plain:
    """Run the chain: what is chosen, by which slot and rule, and what every slot said."""
    return _Chain(models, routing, facts, home, zones or {}).run()


def canonical(name: str) -> str:
    """An id splits at its first `:` or `/`, and is compared with a colon there."""
    at = min((i for i in (name.find(":"), name.find("/")) if i > 0), default=-1)
    return name if at < 0 else name[:at] + ":" + name[at + 1 :]


def exact(value: Any, places: int) -> Fraction:
    """A number as it is written, kept to so many decimals."""
    return Fraction(round(Fraction(str(value)) * 10**places), 10**places)


def components(path: str, home: str = "") -> list[str]:
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part and part != ".":
            parts.append(part)
    return parts


def holds(when: Plain, facts: Plain, message: str, use: str) -> bool | None:
    """Whether all the predicates of a `when` hold; an empty one holds always, None is unknown."""
    return every(_holds(name, value, facts, message, use) for name, value in when.items())


def every(answers: Iterable[bool | None]) -> bool | None:
    """Three-valued `and`."""
    found = list(answers)
    return False if False in found else None if None in found else True


def denied(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


Asked = Callable[[Plain, str, str], bool | None]


def _left(facts: Plain) -> Fraction | None:
    own = [each for each in facts.get("budgets", []) if each["name"] in facts["tenant_budgets"]]
    return min((exact(each["left_usd"], 6) for each in own), default=None)


def _who(facts: Plain, name: str) -> str:
    found = (facts.get("caller") or {}).get(name, "")
    return found.lower() if name == "agent" else found


def _path(facts: Plain) -> str | None:
    return facts.get("session", {}).get("workspace_path")


def _known(test: bool, unless: object) -> bool | None:
    return None if unless is None else test


EXPRESSIONS: dict[str, Asked] = {
    "true": lambda f, m, u: True,
    "has_images": lambda f, m, u: f.get("has_images", False),
    "has_system_prompt and not is_worker": lambda f, m, u: f.get("has_system_prompt", False)
    and not f.get("session", {}).get("is_worker", False),
    "estimated_input_tokens > 99.5": lambda f, m, u: tokens(f, u) > 99,
    "100 >= estimated_input_tokens": lambda f, m, u: tokens(f, u) <= 100,
    "estimated_input_tokens == 2048": lambda f, m, u: tokens(f, u) == 2048,
    "estimated_input_tokens != 0.5": lambda f, m, u: True,
    "cost_today_usd >= 5": lambda f, m, u: exact(f.get("cost_today_usd", 0), 6) >= 5,
    "not (cost_today_usd > 4.9999995)": lambda f, m, u: exact(f.get("cost_today_usd", 0), 6) < 5,
    "local_time >= '06:00' and local_time < '22:00'": lambda f, m, u: in_window(
        f.get("local_time", "12:00"), "06:00", "22:00"
    ),
    "local_time == '12:00' or tenant == 'acme'": lambda f, m, u: f.get("local_time", "12:00")
    == "12:00" or _who(f, "tenant") == "acme",
    "tenant in ['acme', 'other'] and agent != 'aider'": lambda f, m, u: _who(f, "tenant")
    == "acme" and _who(f, "agent") != "aider",
    "agent == 'Aider'": lambda f, m, u: False,
    "key_name == 'ci' or key_id in ['k7']": lambda f, m, u: _who(f, "key_name") == "ci"
    or _who(f, "key_id") == "k7",
    "tool_names contains 'shell'": lambda f, m, u: "shell" in f.get("tool_names", []),
    "'.sql' in file_extensions_in_context": lambda f, m, u: ".sql"
    in [each.lower() for each in f.get("file_extensions_in_context", [])],
    "file_extensions_in_context contains '.SQL'": lambda f, m, u: False,
    "workspace_path == '/w/x'": lambda f, m, u: _path(f) == "/w/x",
    "workspace_path starts_with '/w'": lambda f, m, u: _known(
        (_path(f) or "").startswith("/w"), _path(f)
    ),
    "team_budget_left_usd < 5": lambda f, m, u: _known((_left(f) or 0) < 5, _left(f)),
    "not (team_budget_left_usd < 5)": lambda f, m, u: _known((_left(f) or 0) >= 5, _left(f)),
    "message contains 'auth' or message matches '^Fix'": lambda f, m, u: "auth" in m
    or m.startswith("Fix"),
    "length(message) > 12": lambda f, m, u: len(m) > 12,
    "estimated_input_tokens / length(tool_names) > 50": lambda f, m, u: _known(
        bool(f.get("tool_names")) and tokens(f, u) > 50 * len(f["tool_names"]),
        f.get("tool_names") or None,
    ),
    "max_output_tokens >= 100 and has_images": lambda f, m, u: every((
        _known((f.get("max_output_tokens") or 0) >= 100, f.get("max_output_tokens")),
        f.get("has_images", False),
    )),
    "delegate_tier == null": lambda f, m, u: f.get("delegate_tier") is None,
}  # fmt: skip
"""What expressions of the branches' language say of the facts of a turn; None is no answer."""


def _holds(name: str, value: Any, facts: Plain, message: str, use: str) -> bool | None:
    path = facts.get("session", {}).get("workspace_path")
    cost = facts.get("cost_today_usd", 0)
    words = [value] if isinstance(value, str) else value
    who = facts.get("caller") or {}
    answers = {
        "message_matches": lambda: re.search(value, message) is not None,
        "message_contains_any": lambda: any(w.lower() in message.lower() for w in words),
        "estimated_input_tokens_gt": lambda: tokens(facts, use) > value,
        "estimated_input_tokens_lt": lambda: tokens(facts, use) < value,
        "has_images": lambda: facts.get(name, False) == value,
        "has_tool_calls_in_history": lambda: facts.get("has_tool_calls_in_history", False) == value,
        "skills_matching_message_includes": lambda: any(
            w in facts.get("skills_matching_message", []) for w in words
        ),
        "file_extensions_in_context": lambda: any(
            w.lower() == e.lower() for w in words for e in facts.get(name, [])
        ),
        "workspace_path_matches": lambda: path is not None and re.search(value, path) is not None,
        "time_of_day_between": lambda: in_window(facts.get("local_time", "12:00"), *value),
        "cost_today_exceeds_usd": lambda: exact(cost, 6) > exact(value, 6),
        "team_budget_remaining_lt": lambda: any(
            exact(each["left_usd"], 6) < exact(value, 6)
            for each in facts.get("budgets", [])
            if each["name"] in facts["tenant_budgets"]
        ),
        "key_is": lambda: any(w in (who.get("key_id", ""), who.get("key_name", "")) for w in words),
        "tenant_is": lambda: who.get("tenant", "") in words,
        "agent_is": lambda: who.get("agent", "").lower() in [w.lower() for w in words],
        "tool_names_include": lambda: any(w in facts.get("tool_names", []) for w in words),
        "expr": lambda: EXPRESSIONS[value](facts, message, use),
        "any_of": lambda: denied(every(denied(holds(e, facts, message, use)) for e in value)),
        "all_of": lambda: every(holds(each, facts, message, use) for each in value),
        "not": lambda: denied(holds(value, facts, message, use)),
        "label_includes": lambda: any(w in facts.get("labels", []) for w in words),
        "zone_is": lambda: any(w in zones(facts) for w in words),
    }
    return answers[name]()


def zones(facts: Plain) -> list[str]:
    """The zones that a turn stays within."""
    if facts.get("privacy_level") == "local":
        return ["local"]
    return facts.get("stays_within") or ["cloud"]


def drawn(rule: str, targets: list[tuple[str, int]], by: str, facts: Plain) -> str:
    """The model whose slots hold a unit, by the published method; no unit is in slot 0."""
    unit = (facts.get("split_units") or {}).get(by, "")
    slot, total = 0, sum(weight for _, weight in targets)
    if unit:
        said = [f"routing rule {rule}".encode(), b"s:" + unit.encode()]
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in said)
        first = hashlib.sha256(b"wb1\0" + framed).digest()[:8]
        slot = int.from_bytes(first, "big") * total // 2**64
    for model, weight in targets:
        if slot < weight:
            return model
        slot -= weight
    raise AssertionError(slot)


def in_window(now: str, start: str, end: str) -> bool:
    """From the start on, up to but without the end; `HH:MM` sorts as text."""
    if start == end:
        return True
    return start <= now < end if start < end else now >= start or now < end


def tokens(facts: Plain, model: str) -> int:
    """The estimate for a model, else the one for any."""
    given = facts.get("estimated_input_tokens") or 0
    named = given if isinstance(given, dict) else {"*": given}
    return {canonical(name): count for name, count in named.items()}.get(model, named.get("*", 0))


def recommended(rows: list[Plain], settings: Plain) -> str | None:
    """The model similar turns speak for, if they speak for one."""
    ordered = sorted(
        rows,
        key=lambda r: (-exact(r["similarity"], 9), r["fingerprint_id"], canonical(r["model"])),
    )
    groups: dict[str, list[Plain]] = {}
    for row in ordered[: settings["k"]]:
        if row["sample_size"]:
            groups.setdefault(canonical(row["model"]), []).append(row)
    if not groups:
        return None
    success = {m: _mean([r for r in g if r.get("success") is not None], "success", 9)
               for m, g in groups.items()}  # fmt: skip
    cost = {m: _mean(g, "cost_usd", 6) or Fraction(0) for m, g in groups.items()}
    weight = exact(settings["cost_weight"], 9)
    spread = max(cost.values()) - min(cost.values())
    score = {}
    for model in groups:
        thrift = (max(cost.values()) - cost[model]) / spread if spread else Fraction(0)
        score[model] = exact((1 - weight) * (success[model] or 0) + weight * thrift, 9)
    best, *others = sorted(groups, key=lambda m: (-score[m], m))
    if score[best] <= 0 or all(each is None for each in success.values()):
        return None
    rest = score[best] - score[others[0]] if others else score[best]
    is_sure = exact(rest / score[best], 9) >= exact(settings["min_confidence"], 9)
    samples = sum(r["sample_size"] for r in groups[best])
    return best if is_sure and samples >= settings["min_sample_size"] else None


def _mean(rows: list[Plain], name: str, places: int) -> Fraction | None:
    total = sum(r["sample_size"] for r in rows)
    weighted = sum(exact(r[name], places) * r["sample_size"] for r in rows)
    return weighted / total if total else None


def zones_around(entry: Plain, zones: Plain) -> list[str]:
    """A model's zone and all that it lies within."""
    found = [entry["zone"]] if entry.get("zone", "cloud") != "cloud" else []
    for zone in found:
        wider = zones.get(zone, [])
        wider = [wider] if isinstance(wider, str) else wider
        found += [each for each in wider if each not in found]
    return found


class _Chain:
    def __init__(
        self, models: Plain, routing: Plain, facts: Plain, home: str, zones: Plain
    ) -> None:
        self.zones = zones
        given = {canonical(name): entry for name, entry in models.get("models", {}).items()}
        self.models = {EMBEDDED: EMBEDDED_ENTRY, **given}
        self.routing = routing
        self.facts = facts
        self.session = facts.get("session", {})
        self.is_worker = bool(self.session.get("is_worker"))
        self.chosen_here = False  # a local model was chosen by hand and could not serve
        self.workspace = self._workspace(home)
        self.override, self.message = self._split()

    def run(self) -> Plain:
        chain: list[Plain] = []
        for slot in (self._override, self._sticky, self._rule, self._pattern, self._delegate,
                     self._workspace_default, self._global_default):  # fmt: skip
            chain.append(slot())
            is_named = not self.is_worker and self.facts.get("named_model") is not None
            is_over = chain[-1]["policy"] in (
                ["delegate_request", "manual_sticky"] if is_named else ["delegate_request"]
            )
            if chain[-1]["verdict"] == "chose" or (is_over and chain[-1]["verdict"] == "rejected"):
                break
        last = chain[-1]
        won = last["verdict"] == "chose"
        if won:
            last["unknown"] = self._unknown(last["candidate"])
        if won and last["policy"] == "rule" and self.routing.get("trace_deferred") != "off":
            shadow = self._pattern()
            if shadow["candidate"] is not None:
                shadow["verdict"] = "deferred"
            chain.append(shadow)
        return {
            "chosen_model": last["candidate"] if won else "",
            "policy": last["policy"] if won else None,
            "rule_name": last["rule_name"] if won else None,
            "chain": chain,
        }

    def _split(self) -> tuple[str | None, str]:
        message = self.facts["message"]
        if message.startswith("\\@"):
            return None, message[1:]
        token = re.match(r"@([A-Za-z0-9_.:/-]*)(?=[ \t\n\r\f\v]|\Z)", message)
        if token is None:
            return None, message
        known = {a: m for m, entry in self.models.items() for a in entry.get("aliases", [])}
        model = known.get(token[1]) or ({m: m for m in self.models}).get(canonical(token[1]))
        text = message[token.end() :].lstrip(" \t\n\r\f\v")
        if model is None or not text:
            raise Refused(message)
        return model, text

    def _workspace(self, home: str) -> Plain:
        path = self.session.get("workspace_path")
        own = components(path) if path is not None and path.startswith("/") else None
        best: tuple[int, Plain] = (-1, {})
        for name, entry in self.routing.get("workspaces", {}).items():
            parts = components(name, home)
            if own is not None and own[: len(parts)] == parts and len(parts) > best[0]:
                best = (len(parts), entry)
        return best[1]

    def _failure(self, model: str) -> str | None:
        """The first veto, in the fixed order of the contract."""
        facts, entry = self.facts, self.models.get(model)
        allowed, configured = facts.get("allowed_models"), facts.get("configured")
        states = {canonical(n): s for n, s in facts.get("availability", {}).items()}
        excluded = map(canonical, facts.get("excluded_models", []))
        is_cloud = entry is not None and entry["location"] == "cloud"
        needs = (entry or {}).get("capabilities", {})
        most = needs.get("max_context_tokens")
        stops = facts.get("stops", [])
        vetoes = [
            ("privacy_blocked", self.chosen_here and (entry is None or is_cloud)),
            ("stopped", entry is not None and any(each["scope"] != "provider"
                            or each["name"] == model.partition(":")[0] for each in stops)),
            ("privacy_blocked", facts.get("privacy_level") == "local" and is_cloud),
            ("privacy_blocked", is_cloud and not all(
                zone in zones_around(entry, self.zones)
                for zone in facts.get("stays_within", []))),
            ("not_permitted", allowed is not None and model not in map(canonical, allowed)),
            ("not_configured", entry is None
             or (configured is not None and model not in map(canonical, configured))),
            ("provider_unavailable", (facts.get("network_state") == "offline" and is_cloud)
             or {states.get(model.partition(":")[0]), states.get(model)}
             & {"unavailable", "rate_limited"}
             or model in excluded),
            ("no_vision_support",
             facts.get("has_images") and not needs.get("supports_images", True)),
            ("exceeds_context_window", most is not None and tokens(facts, model) > most),
            ("no_tool_support",
             facts.get("has_tool_definitions") and not needs.get("supports_tools", True)),
            ("no_system_prompt_support",
             facts.get("has_system_prompt") and not needs.get("supports_system_prompt", True)),
            ("no_structured_output_support", facts.get("requires_structured_output")
             and not needs.get("supports_structured_output", True)),
            ("over_budget", entry is not None and self._is_over_budget(entry, model)),
        ]  # fmt: skip
        return next((code for code, failed in vetoes if failed), None)

    def _unknown(self, model: str) -> list[str]:
        """What the turn needs, and the model neither has nor lacks as far as is known."""
        known, facts = self.models[model].get("capabilities", {}), self.facts
        needs = [("supports_images", "has_images"), ("supports_tools", "has_tool_definitions"),
                 ("supports_system_prompt", "has_system_prompt"),
                 ("supports_structured_output", "requires_structured_output")]  # fmt: skip
        return [name for name, fact in needs if facts.get(fact) and known.get(name) is None]

    def _is_over_budget(self, entry: Plain, model: str) -> bool:
        """A price that is not known may overdraw any budget; a free call overdraws none."""
        left = [exact(each["left_usd"], 6) for each in self.facts.get("budgets", [])]
        price = entry.get("price") or ({"input": 0} if entry["location"] == "local" else None)
        if not left or price is None:
            return bool(left)
        # The longest answer: as asked for, at most as the model can, else 4,096 tokens.
        answer = self.facts.get("max_output_tokens") or 4096
        answer = min(answer, entry.get("capabilities", {}).get("max_output_tokens", answer))
        rate = max(exact(price.get(kind, 0), 6) for kind in ("input", "cache_write"))
        dollars = rate * tokens(self.facts, model)
        cost = exact((dollars + exact(price.get("output", 0), 6) * answer) / 10**6, 6)
        return cost > 0 and any(cost > each for each in left)

    def _said(self, policy: str, candidate: str | None, rule: str | None = None) -> Plain:
        failure = None if candidate is None else self._failure(candidate)
        verdict = "not_applicable" if candidate is None else "rejected" if failure else "chose"
        return {"policy": policy, "verdict": verdict, "candidate": candidate,
                "validation_failure": failure, "rule_name": rule, "rule_attempts": [],
                "unknown": [], "passed_over": []}  # fmt: skip

    def _override(self) -> Plain:
        return self._by_hand("per_message_override", self.override)

    def _sticky(self) -> Plain:
        chosen = self.facts.get("named_model") or self.session.get("sticky_model")
        return self._by_hand("manual_sticky", chosen and canonical(chosen))

    def _by_hand(self, policy: str, chosen: str | None) -> Plain:
        """A local model that a person chose is never replaced by one in the cloud."""
        said = self._said(policy, None if self.is_worker else chosen)
        if said["verdict"] == "rejected" and self._is_local(chosen):
            self.chosen_here = True
        return said

    def _is_local(self, model: str | None) -> bool:
        return self.models.get(model or "", {}).get("location") == "local"

    def _rule(self) -> Plain:
        """The first rule that matches and validates; the rejected ones before it are named."""
        said, attempts, passed = self._said("rule", None), [], []
        own, shared = self.workspace.get("rules", []), self.routing.get("rules", [])
        unnamed = [index for index, rule in enumerate(shared) if "name" not in rule]
        for rules in (own, shared):
            for index, rule in enumerate(rules):
                # A name made up for a workspace's rule gives way to the one of a global rule.
                made = f"rule_{index}" + "_" * (rules is own and index in unnamed)
                name = rule.get("name", made)
                targets = self._targets(rule)
                answer = holds(rule["when"], self._known(), self.message, targets[0][0])
                passed += [name] if answer is None else []
                if not answer:
                    continue
                use = drawn(name, targets, rule.get("by", "session"), self.facts)
                said = self._said("rule", use, name)
                if said["verdict"] == "chose":
                    return {**said, "rule_attempts": attempts, "passed_over": passed}
                attempts = [*attempts, said["rule_name"]]
        return {**said, "rule_attempts": attempts, "passed_over": passed}

    def _targets(self, rule: Plain) -> list[tuple[str, int]]:
        """The models of a rule with their weights; a rule without a split has one."""
        known = {a: m for m, entry in self.models.items() for a in entry.get("aliases", [])}
        if "split" not in rule:
            return [(canonical(rule["use"]), 1)]
        return [(known.get(canonical(n), canonical(n)), w) for n, w in rule["split"].items()]

    def _known(self) -> Plain:
        """The facts, and which budgets each tenant has of its own."""
        budgets = self.routing.get("budgets", [])
        theirs = [each["name"] for each in budgets if each.get("each") == "tenant"]
        return {**self.facts, "tenant_budgets": theirs}

    def _pattern(self) -> Plain:
        if self.is_worker or self.facts.get("delegate_tier") is not None:
            return self._said("pattern", None)
        given = self.workspace.get("pattern", self.routing.get("pattern", {}))
        settings = {**PATTERN_DEFAULTS, **given}
        found = recommended(self.facts.get("pattern_rows", []), settings)
        return self._said("pattern", found if settings["mode"] == "apply" else None)

    def _delegate(self) -> Plain:
        """The tier asked for, then upwards; a tier asked for must have a model."""
        tier = self.facts.get("delegate_tier")
        said = self._said("delegate_request", None)
        if tier is None:
            return said
        models = [self._tier_model(step) for step in TIERS[TIERS.index(tier) :]]
        said["verdict"] = "rejected"
        for model in models if models[0] is not None else []:
            if model is not None and said["verdict"] != "chose":
                said = self._said("delegate_request", model)
        return said

    def _tier_model(self, tier: str) -> str | None:
        for tiers in (self.workspace.get("tiers", {}), self.routing.get("tiers", {})):
            if tier in tiers:
                return canonical(tiers[tier])
        named = [name for name, entry in self.models.items() if entry.get("tier") == tier]
        return min(named, key=lambda name: name == EMBEDDED, default=None)

    def _workspace_default(self) -> Plain:
        return self._first("workspace_default", self.workspace.get("default"))

    def _global_default(self) -> Plain:
        """The defaults in order; then the local model, where the turn may not leave."""
        default = self.routing.get("global_default", EMBEDDED)
        listed = [default] if isinstance(default, str) else default
        stays = self.facts.get("privacy_level") == "local" or self.facts.get("stays_within")
        stays = stays or self.chosen_here
        own = [name for name in self.models if self._is_local(name) and name != EMBEDDED]
        last = (own or [EMBEDDED])[0]
        if stays and last not in map(canonical, listed):
            return self._first("global_default", [*listed, last])
        return self._first("global_default", default)

    def _first(self, policy: str, default: str | list[str] | None) -> Plain:
        """The first of a list that validates; the others lost, and are told of."""
        if default is None or isinstance(default, str):
            return self._said(policy, default and canonical(default))
        lost: list[str] = []
        for name in default:
            said = self._said(policy, canonical(name))
            if said["verdict"] == "chose":
                break
            lost.append("")
        return {**said, "rule_attempts": lost if len(default) > 1 else []}
