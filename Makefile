# Two commands: `make demo` runs the main job, `make test` runs every check. Each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find optrr solvers -name '*.py' -o -name '*.csv.gz' -o -name '*.html')

.PHONY: demo test test-full checks clean

demo: .venv/installed
	$(BIN)/optrr demo

test: .venv/installed checks
	$(BIN)/pytest

test-full: .venv/installed checks
	$(BIN)/pytest -m "full or not full"

checks: .venv/installed
	$(BIN)/ruff check optrr solvers proofs tests benchmarks
	$(BIN)/mypy

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt ".[dev]"
	touch $@

# the tests run against the installed wheel, so it is rebuilt whenever a source changed
.venv/installed: .venv/ready $(SOURCES)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
	touch $@

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
