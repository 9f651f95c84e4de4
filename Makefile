# Two commands for everyone: `make demo` runs the main job, `make test` runs the checks of every change. Each sets up .venv by
# itself: the demonstration with the package and what draws its charts, all others with what developers use besides.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
SOURCES := $(shell find optrr solvers clients/javascript -name '*.py' -o -name '*.csv.gz' -o -name '*.html' -o -name '*.css' -o -name '*.js' -o -name '*.svg' -o -name '*.po')
CHECKED := optrr solvers proofs tests benchmarks clients docs
PYTEST := $(BIN)/pytest -n auto --dist worksteal -rs

# Tests start many interpreters, so Python keeps what it compiles, and pytest the assertions that it rewrites.
unexport PYTHONDONTWRITEBYTECODE

# `make test WHEEL=1` builds the wheel and tests that, as CI does; otherwise the checkout itself is installed and tested.
INSTALLED := .venv/$(if $(WHEEL),wheel,editable)

.PHONY: demo test test-slow test-all docs results results-all dev clean

demo: $(if $(wildcard .venv/ready),$(INSTALLED),.venv/base)
	$(BIN)/optrr demo

# style, dependencies between packages, types, and all tests of at most half a second: under five minutes on two cores
test: $(INSTALLED)
	$(BIN)/ruff check --quiet $(CHECKED)
	$(BIN)/ruff format --check --quiet $(CHECKED)
	$(BIN)/codespell optrr solvers docs clients proofs benchmarks README.md
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/mypy
	$(PYTEST) -m "not slow"

# simulations, browsers, large inputs: under 45 minutes on two cores
test-slow: $(INSTALLED)
	$(PYTEST) -m slow

test-all: test test-slow

# the documentation site, in build/docs/html: executes every code block, and fails on a warning
docs: $(INSTALLED)
	$(BIN)/sphinx-build -q -W --keep-going -j 2 -b html -d build/docs/doctrees docs build/docs/html
	@echo "open build/docs/html/index.html"

# figures and tables of benchmarks/results: those that take less than a minute each, and all of them, which takes hours
results: $(INSTALLED)
	$(BIN)/python benchmarks/make_results.py

results-all: $(INSTALLED)
	$(BIN)/python benchmarks/make_results.py --all

dev: .venv/editable

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
