# Two commands are enough on a fresh machine: `make demo` and `make test`. Both do all set-up themselves.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready-$(shell cat pyproject.toml requirements/lock.txt scripts/setup 2>/dev/null | cksum | cut -d' ' -f1)
PYTEST_ARGS ?=

.PHONY: help setup java demo test check format lint types imports sql unit lock bench-queue clean

help: ## list what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## build .venv with everything, from the locked dependencies
$(READY): scripts/setup requirements/lock.txt pyproject.toml
	@scripts/setup $(VENV)
	@touch $@

java:
	@scripts/ensure-java

demo: setup java ## show what there is to see, on an embedded database
	@$(BIN)/disarray demo

test: setup java ## run every test
	$(BIN)/pytest -n 2 --dist loadfile $(PYTEST_ARGS)

check: format lint types imports sql unit ## the fast loop before every commit

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
	$(BIN)/pytest -q -n 2 --dist loadfile -m "not slow and not spark" $(PYTEST_ARGS)

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

clean: ## remove the environment and the embedded state
	-$(BIN)/disarray db stop
	rm -rf $(VENV) .disarray
