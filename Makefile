# `make help` lists what there is. Two commands are all a newcomer needs: `make up` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Hundreds of modules compiled anew at every start of a program cost more than most programs do.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml constraints.txt setup.py src/rota/execute/keeper/_confined_exec.c
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

install: $(VENV)/.installed ## the environment alone, in .venv, with rota in its bin

up: install ## run everything on this machine: PostgreSQL, a server node, a worker
	@$(BIN)/rota up $(ARGS)

wheel: install ## the package as a file in dist/, to install on other machines without this folder
	@rm -rf dist build
	@$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@rm -rf build
	@echo "Install it with: pip install '$$(ls dist/rota-*.whl)[all]'"

check: install ## generated client and tables, format, lint, strict types, import contracts, sizes
	$(BIN)/python scripts/unasync --check
	$(BIN)/python scripts/permission-tables --check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/measure --check

format: install ## rewrite the code in the house style, and the blocking client from the async one
	$(BIN)/python scripts/unasync
	$(BIN)/python scripts/permission-tables
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test-tools: # what tests need of the machine itself: a container engine
	@scripts/install-test-tools

test: install test-tools ## all tests, in parallel
	$(BIN)/pytest -n 3 --dist worksteal -m 'not long' $(ARGS)

soak: install ## the long fault run: 100 kills and more
	$(BIN)/pytest -m long $(ARGS)

bench: install ## speed, as JSON lines, on this machine
	$(BIN)/python -m bench $(ARGS)

.PHONY: help install up wheel check format test-tools test soak bench
