# Two commands are enough on a fresh machine: `make demo` and `make test`. Both do all set-up themselves.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready-$(shell cat pyproject.toml requirements/lock.txt scripts/setup 2>/dev/null | cksum | cut -d' ' -f1)
PYTEST_ARGS ?=
DEMO_ARGS ?=

.PHONY: help setup java demo example test check static format lint types imports sql unit lock bench-queue bench bench-full bench-timescale test-timescale soak clean

help: ## list what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## build .venv with everything, from the locked dependencies
$(READY): scripts/setup requirements/lock.txt pyproject.toml
	@scripts/setup $(VENV)
	@touch $@

java:
	@scripts/ensure-java

demo: setup java ## a factory in disarray, on an embedded database; DEMO_ARGS=--keep leaves it running
	@$(BIN)/disarray demo $(DEMO_ARGS)

example: setup java ## a battery lab: charge throughput and equivalent full cycles of two cells
	@cd examples/battery-lab && PATH="$(abspath $(BIN)):$$PATH" ./run

test: setup java ## run every test
	$(BIN)/pytest -n 2 --dist loadfile $(PYTEST_ARGS)

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
	$(BIN)/pytest -q -n 2 --dist loadfile -m "not slow and not spark" --ignore tests/faults $(PYTEST_ARGS)

fix: setup ## format, and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: setup ## resolve the dependencies again and write requirements/*.txt
	$(BIN)/pip install -q uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements/lock.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra bench --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements/bench.txt

bench-queue: ## jobs per second beside procrastinate and PgQueuer
	@scripts/setup-bench .venv-bench
	.venv-bench/bin/python -m benchmarks.queue $(BENCH_ARGS)

bench-timescale: setup java ## readings in a hypertable beside a bare COPY and a window-function UPDATE
	$(BIN)/python -m benchmarks.timescale $(BENCH_ARGS)

# A benchmark that misses its goal ends with 1; the others are run all the same, and the target fails at its end.
BENCH := .venv-bench/bin/python -m benchmarks
bench: java ## every benchmark of the pipeline at a short size; the table goes to benchmarks/results/README.md
	@scripts/setup-bench .venv-bench
	@missed=; \
	for run in "replay" "agent_scan --files 20000" "small_files --files 1000 --turns 2" "ingest --rows 2000000 --files 40 --turns 2" \
	    "disorder --rows 4000000 --files 80 --turns 1" "read_during_repair --days 60 --seconds 5 --turns 2" \
	    "late_repair --history 1000000 3000000 --classic-rows 300000 --day-rows 2000000 --repairs 5"; \
	do echo "== $$run"; $(BENCH).$$run || missed="$$missed $${run%% *}"; done; \
	test -z "$$missed" || { echo "missed:$$missed"; exit 1; }

bench-full: java ## the same at full size, half an hour on two idle cores and some 15 GB of disk
	@scripts/setup-bench .venv-bench
	@missed=; \
	for run in replay agent_scan small_files ingest disorder read_during_repair late_repair; \
	do echo "== $$run"; $(BENCH).$$run || missed="$$missed $$run"; done; \
	test -z "$$missed" || { echo "missed:$$missed"; exit 1; }

clean: ## remove the environment and the embedded state
	-$(BIN)/disarray db stop
	rm -rf $(VENV) .disarray
