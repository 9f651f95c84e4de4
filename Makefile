# Two commands: `make demo` runs the main job, `make test` runs every check. Each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find optrr solvers -name '*.py' -o -name '*.csv.gz' -o -name '*.html')

.PHONY: demo test test-full results results-long results-stale checks clean

demo: .venv/installed
	$(BIN)/optrr demo

test: .venv/installed checks
	$(BIN)/pytest

test-full: .venv/installed checks
	$(BIN)/pytest -m "full or not full"

# every kept figure and table again: the cheap ones take about a minute, the long ones under an hour on two cores;
# results-stale makes again, of all, those that are older than their code, and takes up an interrupted run
results: .venv/installed
	$(BIN)/python benchmarks/run.py cheap

results-long: .venv/installed
	$(BIN)/python benchmarks/run.py long --jobs 2

results-stale: .venv/installed
	$(BIN)/python benchmarks/run.py all --stale --jobs 2

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
