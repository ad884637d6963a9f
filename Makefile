# `make` lists the targets. Each does its own set-up: an environment in $(VENV), made once, renewed when the pins change.
#
# Variables: PYTHON (the interpreter of the environment), VENV (its folder), TORCH_INDEX (an index to take torch from,
# and only torch), WORKERS (test processes), PART and FORCE (see test-slow), ARGS (more arguments for the program run).

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=
WORKERS ?= 2
PART ?=
FORCE ?=
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Models in tests are small: a second thread in a process makes them slower.
ONE_THREAD := OMP_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-fast test-slow check format bench changelog clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.demo ## train a small GPT with plain AdamW, then with OPAL and the playbook (no agent needed)
	$(ONE_THREAD) $(BIN)/opal demo $(ARGS)

test: $(VENV)/.test ## all tests that are not slow: what CI runs
	$(PYTEST) -m "not slow" -n $(WORKERS) --dist worksteal $(ARGS)

test-fast: $(VENV)/.test ## tests that are neither slow nor long: under a minute
	$(PYTEST) -m "not slow and not long" -n $(WORKERS) --dist worksteal $(ARGS)

test-slow: $(VENV)/.test ## the full counts, one part per issue; PART=2 for one part, FORCE=1 to repeat what has passed
	$(ONE_THREAD) $(BIN)/python scripts/test_slow.py --workers $(WORKERS) $(if $(FORCE),--force) $(PART)

check: $(VENV)/.test ## format, lint, types, import directions, layout
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PYTEST) -q -n 0 tests/layout

format: $(VENV)/.test ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test ## the cost of the wrapper, side by side with plain torch
	$(ONE_THREAD) $(BIN)/python benchmarks/overhead.py $(ARGS)

changelog: $(VENV)/.test ## show the changelog that the fragments make
	$(BIN)/towncrier build --draft --version Unreleased

clean: ## remove the environment, caches and build outputs; runs are kept
	rm -rf $(VENV) build dist src/*.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .test_slow
	find src tests scripts examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The environment, in steps that are each done once. Torch comes first and alone: TORCH_INDEX may hold nothing else.

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	    echo "OPAL needs Python 3.10 or newer; \`$(PYTHON)\` is not. Say which to use: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "making the environment $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "\`$(PYTHON) -m venv\` failed; on Debian and Ubuntu it needs the package python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.torch: $(VENV)/.made constraints.txt
	@echo "installing torch$(if $(TORCH_INDEX), from $(TORCH_INDEX)): about a minute"
	@$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$$(sed -n 's/^\(torch==[^ ;]*\).*/\1/p' constraints.txt)"
	@touch $@

$(VENV)/.demo $(VENV)/.test: $(VENV)/.%: $(VENV)/.torch pyproject.toml constraints.txt
	@echo "installing opal with what '$*' needs"
	@$(PIP) -c constraints.txt -e '.[$*]'
	@touch $@
