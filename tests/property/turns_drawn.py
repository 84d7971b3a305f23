"""Random policies and facts of turns, from small vocabularies, as the product reads them."""

import json
import random
from typing import Any

from tests.models import chain_model
from tests.models.chain_model import Plain

from pointsman.kernel.json_text import read_json
from pointsman.placement.rules.zones import outer_zones
from pointsman.turns.chain.override import split_override
from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.facts import read_facts, turn_facts
from pointsman.turns.policy import read_policy, turn_policy
from pointsman.turns.registry.models import in_zones, read_models, registry

HOME = "/home/me"
NAMES = ["p:a", "p:b", "q:c", "q:d", "r:e", "r:e:1b", "s:f"]
CLOUD = ["p:a", "p:b", "q:c", "q:d", "s:f"]
WORDS = ["commit", "Fix", "the", "auth", "bug", "SQL", "review", "/commit", "deploy"]
PATTERNS = [
    "^/commit",
    "fix|deploy",
    "(?i)sql",
    "re.*w",
    "bug$",
    "",
    "[a-c]uth",
    r"\bthe\b",
    "x{2}",
]
PATHS = ["/w", "/w/x", "/w/x/y", "/wx", "/", "~/code", "~", "/w/../v"]
PLACES = [
    "/w",
    "/w/x",
    "/w/x/y/z",
    "/wxy",
    "/home/me/code/a",
    "/home/me",
    "/v",
    "/w/x/../q",
    "/w//x/",
]
KEYS = ["ci", "k7", "bob"]
TENANTS = ["acme", "zeta"]
AGENTS = ["claude-cli", "Aider", "aider"]
ZONES = {"eu": "cloud", "us": "cloud", "site": ["eu", "us"], "lab": "site"}
"""The zones of every policy, and what each lies within."""
LABELS = ["customers", "plans"]
TOOLS = ["read_file", "shell", "mcp__jira"]
SKILLS = ["system_design", "sql", "review"]
ENDINGS = [".sql", ".SQL", ".py", ".md"]
TIMES = ["00:00", "05:59", "06:00", "12:00", "21:59", "22:00", "23:59"]
COUNTS = [0, 1, 99, 100, 101, 2048, 2049, 5000]
DOLLARS = ["0", "0.000001", "4.999999", "5", "5.00", "5.000001", "9"]
SLOTS = ["per_message_override", "manual_sticky", "rule", "pattern", "delegate_request",
         "workspace_default", "global_default"]  # fmt: skip


class Draw(random.Random):
    """Draws parts of policies and facts from small vocabularies, so that they meet often."""

    def chance(self, one_in: int) -> bool:
        return self.randrange(one_in) == 0

    def some(self, members: list[Any], least: int = 0) -> list[Any]:
        return self.sample(members, self.randint(least, min(len(members), least + 2)))

    def models(self) -> Plain:
        names = sorted(self.sample(NAMES, self.randint(2, 6)))
        self.shuffle(names)
        aliases = ["one", "two", "three", "sonnet-4.6"]
        self.shuffle(aliases)
        entries = {
            self.spelled(name): self.model(name, aliases[index : index + 1])
            for index, name in enumerate(names)
        }
        return {
            "schema_version": 1,
            "providers": {name: {"kind": "openai"} for name in "pqrs"},
            "models": entries,
        }

    def model(self, name: str, aliases: list[str]) -> Plain:
        entry: Plain = {"location": "cloud" if name in CLOUD else "local", "aliases": aliases}
        if self.chance(2):
            entry["tier"] = self.choice(chain_model.TIERS)
        flags = ["supports_images", "supports_tools", "supports_system_prompt",
                 "supports_structured_output", "supports_thinking"]  # fmt: skip
        entry["capabilities"] = {flag: not self.chance(4) for flag in self.some(flags, 1)}
        if self.chance(2):
            entry["capabilities"]["max_context_tokens"] = self.choice([100, 2048, 5000])
        if name in CLOUD and self.chance(3):
            entry["zone"] = self.choice([*ZONES, "cloud"])
        if not self.chance(3):
            entry["price"] = {
                "input": self.choice(["0", "1.5", "300"]),
                "output": self.choice([0, 6]),
            }
        return entry

    def default(self, known: list[str]) -> str | list[str]:
        if not self.chance(3):
            return self.spelled(self.choice(known))
        return [self.spelled(name) for name in self.sample(known, self.randint(1, 3))]

    def spelled(self, name: str) -> str:
        return name.replace(":", "/", 1) if self.chance(4) else name

    def routing(self, known: list[str]) -> Plain:
        drawn: Plain = {"schema_version": 1, "rules": self.rules(known, "g")}
        if not self.chance(4):
            drawn["global_default"] = self.default(known)
        if self.chance(2):
            tiers = self.some(chain_model.TIERS, 1)
            drawn["tiers"] = {tier: self.spelled(self.choice(known)) for tier in tiers}
        if self.chance(2):
            drawn["pattern"] = self.pattern()
        if self.chance(6):
            drawn["trace_deferred"] = "off"
        if self.chance(2):
            each = self.choice(["tenant", "all"])
            drawn["budgets"] = [{"name": "month", "limit_usd": 9, "each": each}]
        drawn["workspaces"] = {
            path: self.workspace(known, number) for number, path in enumerate(self.some(PATHS, 1))
        }
        return drawn

    def workspace(self, known: list[str], number: int) -> Plain:
        drawn: Plain = {"rules": self.rules(known, f"w{number}") if self.chance(2) else []}
        if not self.chance(3):
            drawn["default"] = self.default(known)
        if self.chance(3):
            drawn["tiers"] = {tier: self.choice(known) for tier in chain_model.TIERS}
        if self.chance(3):
            drawn["pattern"] = self.pattern()
        return drawn

    def pattern(self) -> Plain:
        whole: Plain = {
            "mode": self.choice(["apply", "apply", "apply", "observe", "off"]),
            "k": self.choice([1, 2, 3, 10]),
            "cost_weight": self.choice(["0", "0.05", "0.3", "0.7", 1]),
            "min_confidence": self.choice(["0", "0.05", "0.5", 1]),
            "min_sample_size": self.choice([1, 5, 12]),
        }
        return {key: whole[key] for key in self.sample(sorted(whole), self.randint(0, 5))}

    def rules(self, known: list[str], prefix: str) -> list[Plain]:
        drawn = []
        for number in range(self.choice([0, 0, 1, 2, 5])):
            rule: Plain = {"when": self.when(2), **self.target(known)}
            if not self.chance(4):
                rule["name"] = f"{prefix}{number}"
            drawn.append(rule)
        return drawn

    def target(self, known: list[str]) -> Plain:
        if not self.chance(4):
            return {"use": self.spelled(self.choice(known))}
        names = self.sample(known, self.randint(2, min(3, len(known))))
        weights = [1, *(self.choice([0, 1, 9, 90]) for _ in names[1:])]
        self.shuffle(weights)
        split = dict(zip(map(self.spelled, names), weights, strict=True))
        by = self.choice([{}, {"by": "session"}, {"by": "key"}, {"by": "turn"}])
        return {"split": split, **by}

    def when(self, depth: int) -> Plain:
        return dict(self.predicate(depth) for _ in range(self.choice([0, 1, 1, 1, 2])))

    def predicate(self, depth: int) -> tuple[str, Any]:
        leaves = {
            "message_matches": lambda: self.choice(PATTERNS),
            "message_contains_any": lambda: self.words(WORDS),
            "estimated_input_tokens_gt": lambda: self.choice(COUNTS),
            "estimated_input_tokens_lt": lambda: self.choice(COUNTS),
            "has_images": lambda: self.chance(2),
            "has_tool_calls_in_history": lambda: self.chance(2),
            "skills_matching_message_includes": lambda: self.words(SKILLS),
            "file_extensions_in_context": lambda: self.words(ENDINGS),
            "workspace_path_matches": lambda: self.choice(["^/w/x", "home", "y$"]),
            "time_of_day_between": lambda: [self.choice(TIMES), self.choice(TIMES)],
            "cost_today_exceeds_usd": lambda: float(self.choice(DOLLARS)),
            "team_budget_remaining_lt": lambda: float(self.choice(DOLLARS)),
            "key_is": lambda: self.words(KEYS),
            "tenant_is": lambda: self.words(TENANTS),
            "agent_is": lambda: self.words(AGENTS),
            "tool_names_include": lambda: self.words(TOOLS),
            "expr": lambda: self.choice(sorted(chain_model.EXPRESSIONS)),
            "label_includes": lambda: self.words(LABELS),
            "zone_is": lambda: self.words([*ZONES, "local", "cloud"]),
        }
        trees = {
            "any_of": lambda: [self.when(depth - 1) for _ in range(self.randint(1, 3))],
            "all_of": lambda: [self.when(depth - 1) for _ in range(self.randint(1, 3))],
            "not": lambda: self.when(depth - 1),
        }
        if depth and self.chance(3):
            name = self.choice(sorted(trees))
            return name, trees[name]()
        name = self.choice(sorted(leaves))
        return name, leaves[name]()

    def words(self, members: list[str]) -> str | list[str]:
        return self.choice(members) if self.chance(3) else self.some(members, 1)

    def facts(self, known: list[str]) -> Plain:
        drawn: Plain = {"message": self.message(known), "session": self.session(known)}
        drawn["caller"], drawn["tool_names"] = self.caller(), self.some(TOOLS)
        names = self.some(["session", "key", "turn"])
        drawn["split_units"] = {name: f"u{self.randrange(50)}" for name in names}
        for flag in ("has_images", "has_tool_calls_in_history", "has_tool_definitions",
                     "has_system_prompt", "requires_structured_output"):  # fmt: skip
            if self.chance(5):
                drawn[flag] = True
        optional = {
            "estimated_input_tokens": lambda: self.estimate(known),
            "skills_matching_message": lambda: self.some(SKILLS),
            "file_extensions_in_context": lambda: self.some(ENDINGS),
            "local_time": lambda: self.choice(TIMES),
            "cost_today_usd": lambda: self.choice(DOLLARS),
            "pattern_rows": lambda: self.rows(known),
        }
        rare = {
            "privacy_level": lambda: self.choice(["local", "local", "cloud", "auto"]),
            "network_state": lambda: self.choice(["offline", "degraded", "online"]),
            "availability": lambda: self.availability(known),
            "delegate_tier": lambda: self.choice(chain_model.TIERS),
            "configured": lambda: self.some(known, 1),
            "allowed_models": lambda: self.some(known, 1),
            "budgets": lambda: [
                {"name": name, "left_usd": self.choice(["-1", "0", "0.0003", "0.03", "9"])}
                for name in self.some(["day", "month"])
            ],
            "excluded_models": lambda: [self.spelled(self.choice(known))],
            "named_model": lambda: self.spelled(self.choice([*known, "p:gone"])),
            "max_output_tokens": lambda: self.choice([1, 100, 32_000]),
            "labels": lambda: self.some(LABELS, 1),
            "stays_within": lambda: self.some([*ZONES, *ZONES, "local"], 1),
            "stops": lambda: [self.stop() for _ in range(self.randint(1, 2))],
        }
        drawn |= {name: make() for name, make in optional.items() if self.chance(2)}
        return drawn | {name: make() for name, make in rare.items() if self.chance(6)}

    def message(self, known: list[str]) -> str:
        text = " ".join(self.some(WORDS, 1))
        alias = self.choice(["one", "two", "local", "sonnet-4.6", self.spelled(self.choice(known))])
        starts = ["", "", "", "", "", f"@{alias} ", f"@{alias}\t", f"\\@{alias} ", f"x @{alias} ",
                  f"@{alias}, ", "@nobody ", f" @{alias} ", f"@{alias}\u00a0", "@ "]  # fmt: skip
        return (
            self.choice(starts) + text
            if not self.chance(60)
            else f"@{alias}" + self.choice(["", " "])
        )

    def session(self, known: list[str]) -> Plain:
        drawn: Plain = {}
        if self.chance(5):
            drawn["sticky_model"] = self.spelled(self.choice([*known, "p:gone"]))
        if not self.chance(3):
            drawn["workspace_path"] = self.choice(PLACES)
        if self.chance(6):
            drawn["is_worker"] = True
        return drawn

    def caller(self) -> Plain:
        names = {"key_id": KEYS, "key_name": KEYS, "tenant": TENANTS, "agent": AGENTS}
        return {name: self.choice(names[name]) for name in self.some(sorted(names))}

    def stop(self) -> Plain:
        scope = self.choice(["provider", "provider", "provider", "tenant", "all"])
        name = {"provider": self.choice("pqrs"), "tenant": "acme", "all": ""}[scope]
        return {"id": "s1", "scope": scope, "name": name, "reason": "drill", "by": "bob"}

    def estimate(self, known: list[str]) -> int | Plain:
        if self.chance(2):
            return self.choice(COUNTS)
        named = {self.spelled(name): self.choice(COUNTS) for name in self.some(known)}
        return {**named, "*": self.choice(COUNTS)} if self.chance(2) else named

    def availability(self, known: list[str]) -> Plain:
        scopes = [*(name.partition(":")[0] for name in known), *known]
        states = ["unavailable", "unavailable", "rate_limited", "half_open", "degraded", "healthy"]
        return {name: self.choice(states)
                for name in self.some(list(dict.fromkeys(scopes)), 1)}  # fmt: skip

    def rows(self, known: list[str]) -> list[Plain]:
        keys = {
            (self.choice("xyz"), self.choice([*known, "p:gone"])) for _ in range(self.randint(0, 5))
        }
        drawn = []
        for fingerprint, model in sorted(keys):
            row: Plain = {
                "fingerprint_id": fingerprint,
                "model": self.spelled(model),
                "cost_usd": self.choice(["0", "0.004", "0.004", "0.03", "1"]),
                "sample_size": self.choice([0, 1, 4, 5, 50]),
                "similarity": self.choice(["0.1", "0.83", "0.83", 1]),
            }
            if not self.chance(5):
                row["success"] = self.choice(["0", "0.5", "0.842", "0.9", "0.91", 1])
            drawn.append(row)
        self.shuffle(drawn)
        return drawn


class Case:
    """One random policy, as plain values and as the product reads it."""

    def __init__(self, seed: int) -> None:
        self.draw = Draw(seed)
        self.models = self.draw.models()
        self.known = [*map(chain_model.canonical, self.models["models"]), chain_model.EMBEDDED]
        self.routing = self.draw.routing(self.known)
        self.ready = made_ready(self.models, self.routing)


def made_ready(models: Plain, routing: Plain) -> CompiledTurnPolicy:
    """Give the policy of two files, through the readers the product uses."""
    known = registry(read_models(json.dumps(models).encode(), "models.yaml"), lambda _name: None)
    known = in_zones(known, outer_zones(ZONES))
    text = json.dumps(routing).encode()
    return compile_policy(turn_policy(read_policy(text, "routing.yaml", known, HOME), known, HOME))


def exact_facts(facts: Plain, ready: CompiledTurnPolicy) -> Any:
    """Give the facts of one turn, through the readers the product uses."""
    given = read_facts(read_json(json.dumps(facts).encode(), "facts"))
    return turn_facts(given, *split_override(given.message, ready.aliases))
