# Two commands matter: `make run` and `make test`. Both set up everything they need.
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3.11 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
STAMP := .venv/.complete
PIP := -m pip --disable-pip-version-check --quiet

.PHONY: help env run test check quick coverage other-pythons bench requirements docs lock clean
help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

env: $(STAMP) ## build .venv with the product and its tests' needs

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) install --require-hashes -r constraints.txt
	$(BIN)/python $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

lock: ## pin every dependency with hashes, naming no host
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python $(PIP) install uv
	.venv-lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --group dev pyproject.toml -o constraints.txt

run: env ## the main job: decide a turn, show why, replay it, verify the ledger
	$(BIN)/python scripts/first_run.py

test: env check quick-others ## every check and test
	$(BIN)/python -m pytest -q

check: env ## formatting, lint, types and import rules
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
