# A newcomer needs three commands: `make demo`, `make quick` and, before a commit, `make test`.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

$(VENV)/.stamp-%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -x $(BIN)/uv || $(BIN)/python -m pip install -q uv || true
	if [ -x $(BIN)/uv ]; then VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install -q --compile-bytecode -e '.[$*]'; \
	else $(BIN)/python -m pip install -q -e '.[$*]'; fi
	touch $@

.PHONY: demo test quick fuzz check messages bench reproduce docs clean
demo: $(VENV)/.stamp-run   ## condense a real table, audit it, write release and report
	$(BIN)/tulle demo --force

test: check                ## the whole gate: style, types, layers, every test, the package
	scripts/test-tools
	VENV=$(VENV) scripts/test-package
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --ignore tests/spark
	$(BIN)/python -m pytest -q -n 0 tests/spark

quick: $(VENV)/.stamp-test ## the tests of a minute: no server, no browser, nothing slow
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m 'not slow and not server and not browser' tests

EXAMPLES ?= 10000
INPUTS ?= 1000000
fuzz: $(VENV)/.stamp-test  ## INPUTS to all parsers, then every guarantee on EXAMPLES examples
	$(BIN)/python -m benchmarks.bench_fuzz --inputs $(INPUTS)
	TULLE_FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -q -n 2 --dist worksteal -m guarantee tests

check: $(VENV)/.stamp-test ## the quick half of the gate
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

messages:                  ## the golden file of all errors and warnings; read its diff
	$(PYTHON) scripts/messages > tests/messages.txt

bench: $(VENV)/.stamp-bench ## tables and pictures into benchmarks/results (TULLE_DATA=folder)
	$(BIN)/python -m benchmarks

reproduce: $(VENV)/.stamp-bench ## the papers' numbers next to ours, docs/reproduction.md (TULLE_DATA=folder)
	$(BIN)/python -m benchmarks.reproduction

docs: $(VENV)/.stamp-docs  ## the user guide as HTML
	$(BIN)/sphinx-build -q -W -b html docs docs/_build/html

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
