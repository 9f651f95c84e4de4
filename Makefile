# Two commands for everyone: `make demo` runs the main job, `make test` runs every check. Each sets up .venv by itself: the
# demonstration with the package and what draws its charts, all others with what developers use besides.
# Two more for the daily loop: `make dev` installs the checkout so that edits take effect, `make quick` checks it without the slow tests.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
SOURCES := $(shell find optrr solvers clients/javascript -name '*.py' -o -name '*.csv.gz' -o -name '*.html' -o -name '*.css' -o -name '*.js' -o -name '*.svg')
CHECKED := optrr solvers proofs tests benchmarks clients docs

# Checks start hundreds of interpreters, so Python keeps what it compiles, and pytest the assertions that it rewrites.
unexport PYTHONDONTWRITEBYTECODE

# `make test WHEEL=1` builds the wheel and tests that, as CI does; otherwise the checkout itself is installed and tested.
INSTALLED := .venv/$(if $(WHEEL),wheel,editable)

.PHONY: demo docs test tests test-full results results-long results-stale quick dev checks lint types clean

demo: $(if $(wildcard .venv/ready),$(INSTALLED),.venv/base)
	$(BIN)/optrr demo

# the documentation site, in build/docs/html: executes every code block, and fails on a warning
docs: $(INSTALLED)
	$(BIN)/sphinx-build -q -W --keep-going -j 2 -b html -d build/docs/doctrees docs build/docs/html
	@echo "open build/docs/html/index.html"

# types take half a minute of one core, so they are checked beside the tests
test: lint
	$(MAKE) --no-print-directory -j 2 types tests

tests: $(INSTALLED)
	$(BIN)/pytest -n auto --dist worksteal -rs

test-full: checks
	$(BIN)/pytest -m "full or not full"

# every kept figure and table again: the cheap ones take about a minute, the long ones far longer;
# results-stale makes again, of all, those that are older than their code, and takes up an interrupted run
results: $(INSTALLED)
	$(BIN)/python benchmarks/run.py cheap

results-long: $(INSTALLED)
	$(BIN)/python benchmarks/run.py long --jobs 2

results-stale: $(INSTALLED)
	$(BIN)/python benchmarks/run.py all --stale --jobs 2

quick: .venv/editable
	$(BIN)/ruff check --quiet $(CHECKED)
	$(BIN)/ruff format --check --quiet $(CHECKED)
	$(BIN)/pytest -n auto --dist worksteal -m "not full and not slow" tests

dev: .venv/editable

checks: lint types

lint: $(INSTALLED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)

types: $(INSTALLED)
	$(BIN)/mypy

.venv/base: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) --no-compile -c constraints.txt -e ".[reports]" # Python compiles what the demonstration imports, a tenth of it
	touch $@

.venv/ready: .venv/base
	$(PIP) -c constraints.txt -e ".[dev]"
	rm -f .venv/wheel
	touch .venv/editable $@

.venv/editable: .venv/ready
	$(PIP) --no-deps -e .
	rm -f .venv/wheel
	touch $@

.venv/wheel: .venv/ready $(SOURCES)
	$(PIP) --no-deps --force-reinstall .
	rm -f .venv/editable
	touch $@

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
	rm -rf docs/source docs/gallery.rst docs/reference/python docs/reference/commands
