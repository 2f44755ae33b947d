# Two commands do everything on a machine with Python 3.11 or newer and a C++ compiler:
#   make run     make the environment, install boundby, explain the embedded default
#   make test    make the environment, run every check
# Others: make docs, make bench, make format, make messages, make clean.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Options, script and arguments of `make run`, e.g. make run ARGS="train.py --epochs 1"
ARGS ?=
# Options and paths for pytest in place of all tests, e.g. make pytest PYTEST_ARGS="tests/labs -x"
PYTEST_ARGS ?=

RUN_ENV := $(VENV)/.installed-run
TEST_ENV := $(VENV)/.installed-test
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test lint types imports pytest docs bench format messages clean

help:
	@sed -n '1,4s/^# *//p' Makefile

run: $(RUN_ENV)
	$(BIN)/boundby run $(ARGS)

test: lint types imports pytest docs
	@echo "every check passed"

lint: $(TEST_ENV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TEST_ENV)
	$(BIN)/mypy

imports: $(TEST_ENV)
	$(BIN)/lint-imports --no-cache

# The tests run scripts of other libraries; these must not look for models or updates on a network.
PYTEST := HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 $(BIN)/python -m pytest

# Two processes, each file's tests in one of them, in the order of tests/conftest.py; then by themselves the tests that
# compare times, which other tests beside them would disturb.
ALONE := tests/run/test_machine_option.py tests/run/test_run_findings.py tests/run/test_run_input.py \
	tests/run/test_docs_tutorial.py tests/bound/test_compare_runs.py
pytest: $(TEST_ENV)
ifeq ($(strip $(PYTEST_ARGS)),)
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder $(ALONE:%=--ignore=%)
	$(PYTEST) $(ALONE)
else
	$(PYTEST) $(PYTEST_ARGS)
endif

docs: $(TEST_ENV)
	$(BIN)/python -m sphinx -q -W --keep-going -n -b html docs docs/_build/html

bench: $(TEST_ENV)
	@found=0; for file in benchmarks/*.py; do \
		[ -e "$$file" ] || continue; found=1; \
		echo "$$file"; $(BIN)/python "$$file" || exit 1; \
	done; [ $$found = 1 ] || echo "no benchmarks in benchmarks/"

format: $(TEST_ENV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Collects what is to be translated into each catalogue, and compiles it; both files of a language are committed.
messages: $(TEST_ENV)
	$(BIN)/python tests/project/messages.py

clean:
	rm -rf $(VENV) docs/_build build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# The environment is made once; an install runs again only when what it installs from has changed.
$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "boundby needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN_ENV): pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	$(INSTALL) -e '.[plots]'
	@touch $@

$(TEST_ENV): pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	$(INSTALL) -e '.[dev,docs,examples,plots]'
	@touch $@ $(RUN_ENV)
