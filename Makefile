# Two commands are enough on a fresh machine: `make demo` and `make test`. Both do all set-up themselves.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready-$(shell cat pyproject.toml requirements/lock.txt scripts/setup 2>/dev/null | cksum | cut -d' ' -f1)
READY_DEMO := $(VENV)/.ready-demo-$(shell cat pyproject.toml requirements/demo.txt scripts/setup 2>/dev/null | cksum | cut -d' ' -f1)
PYTEST_ARGS ?=
# A file is run by one process, in the order that tests/conftest.py says.
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder
DEMO_ARGS ?=

.PHONY: help setup java demo example test test-long test-all test-blocks check static format lint types imports sql unit lock bench bench-full test-timescale soak clean

help: ## list what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## build .venv with everything, from the locked dependencies
$(READY): scripts/setup requirements/lock.txt pyproject.toml
	@scripts/setup $(VENV)
	@touch $@

# A demo needs neither the linters nor what others read our tables with: half of what has to be fetched.
$(READY_DEMO): scripts/setup requirements/demo.txt pyproject.toml
	@scripts/setup $(VENV) requirements/demo.txt
	@touch $@

java:
	@scripts/ensure-java

demo: $(if $(wildcard $(READY)),,$(READY_DEMO)) java ## a factory in disarray, on an embedded database; DEMO_ARGS=--keep leaves it running
	@$(BIN)/disarray demo $(DEMO_ARGS)

EXAMPLES ?= battery-lab press-shop
example: setup java ## a battery lab, and a press shop with a warehouse and a Delta table; EXAMPLES=press-shop runs one
	@for name in $(EXAMPLES); do PATH="$(abspath $(BIN)):$$PATH" examples/$$name/run || exit 1; done

test: setup java ## what a contributor runs before a pull request
	$(BIN)/pytest $(PARALLEL) -m "not long" --durations=50 $(PYTEST_ARGS)

LONG ?= tests
test-long: setup java ## what `make test` leaves out: second kills, the soak, long random runs; LONG=tests/soak runs a part
	$(BIN)/pytest $(PARALLEL) -m long --durations=50 $(LONG) $(PYTEST_ARGS)

test-all: test test-long ## run every test

BLOCKS ?= 1 2 7 128 1000
BLOCK_TESTS := tests/worker tests/store tests/control/test_running_total.py tests/engine/test_replay.py tests/faults
test-blocks: setup java ## run confluence, store and fault tests with blocks of other lengths; BLOCKS="1 1000" names them
	@for length in $(BLOCKS); do \
		DISARRAY_TEST_SEGMENTS_PER_BLOCK=$$length $(BIN)/pytest $(PARALLEL) -m "not long" $(BLOCK_TESTS) $(PYTEST_ARGS) || exit 1; \
	done

test-timescale: setup java ## run the stores, the order of arrivals and verify against a real TimescaleDB
	@scripts/test-timescale $(BIN)/pytest $(PYTEST_ARGS)

MINUTES ?= 3
SEED ?= 7
soak: setup java ## kill, freeze and cut a whole plant for MINUTES with SEED, then ask whether anything was lost
	PYTHONPATH=src $(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) $(SOAK_ARGS)

check: static unit ## the fast loop before every commit

static: format lint types imports sql

format: setup
	$(BIN)/ruff format --check .

lint: setup
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports --no-cache

sql: setup
	$(BIN)/squawk --config .squawk.toml src/disarray/control/sql/migrations/*.sql

unit: setup
	$(BIN)/pytest -q $(PARALLEL) -m "not long and not slow and not spark and not postgres" $(PYTEST_ARGS)

fix: setup ## format, and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: setup ## resolve the dependencies again and write requirements/*.txt
	$(BIN)/pip install -q uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements/lock.txt
	$(BIN)/uv pip compile pyproject.toml --extra demo --constraints requirements/lock.txt --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements/demo.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra bench --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements/bench.txt

bench: java ## every benchmark at a short size, some ten minutes; BENCH_ARGS=queue runs one alone
	@scripts/setup-bench .venv-bench
	.venv-bench/bin/python -m benchmarks $(BENCH_ARGS)

bench-full: java ## the same at the sizes of the goals, an hour and 15 GB of disk; writes benchmarks/results and the README
	@scripts/setup-bench .venv-bench
	.venv-bench/bin/python -m benchmarks --full $(BENCH_ARGS)

clean: ## remove the environment and the embedded state
	-$(BIN)/disarray db stop
	rm -rf $(VENV) .disarray
