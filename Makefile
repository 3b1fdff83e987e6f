# Everything a person does here, by name. `make help` lists it.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
UV     := 0.13.8
# A network that inspects TLS has its certificate in the system's store and not in the installer's.
SYNC   := $(BIN)/uv pip sync --quiet --python $(BIN)/python requirements.lock
# Newer versions are refused for want of a wheel, older ones for the language.
FITS    := 0 if (3, 11) <= v < (3, 14) else "Python %d.%d: " % v + ("Lakerunner needs 3.11 or newer" if v < (3, 11) \
  else "datasketches 5.2 has no wheel for it") + ". Set PYTHON=/path/to/python3.13 (or 3.12, 3.11)"
BENCHES := decode_logs ingest latency chaos fire

.DEFAULT_GOAL := help
.PHONY: help setup demo up down test test-fast explore lint format lock bench clean

help: ## list the tasks
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with the locked dependencies

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit($(FITS))'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing dependencies into $(VENV) (a few hundred MB on the first run)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV)
	@$(SYNC) || { echo "trying again with this system's certificates"; $(SYNC) --system-certs; }
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@echo "compiling decoders and query functions (a minute on two cores, once per version)"
	@$(BIN)/python -m resources.kernel_cache
	@touch $@

demo: setup ## start everything with live demo data and show the first answers
	@$(BIN)/lakerunner demo

up: setup ## start the local stack in the background
	@$(BIN)/lakerunner up --detach

down: setup ## stop the local stack
	@$(BIN)/lakerunner down

test: setup ## run every test (real PostgreSQL, Kafka, Spark and HTTP)
	@$(BIN)/python -m tests.lanes

test-fast: setup ## run the tests that need no service
	@$(BIN)/python -m pytest -m "not integration and not slow"

explore: setup ## let property tests look for new counterexamples (ROUNDS=5, SEED=7)
	@$(BIN)/python -m tests.explore

lint: setup ## style, types, import contracts, SQL
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/sqlfluff lint --nocolor migrations resources/index/sql

format: setup ## rewrite the code in house style
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

lock: setup ## resolve the dependencies of pyproject.toml into requirements.lock
	@$(BIN)/uv pip compile --quiet pyproject.toml --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-emit-index-url --custom-compile-command "make lock" -o requirements.lock

bench: setup ## run the benchmarks in their short form
	@for name in $(BENCHES); do $(BIN)/python -m benchmarks.$$name --quick || exit 1; done

clean: ## remove the virtual environment and the local stack's data
	@test ! -x $(BIN)/lakerunner || $(BIN)/lakerunner down
	@rm -rf $(VENV) .lakerunner
