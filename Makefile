# A newcomer needs two commands: `make demo` and `make test`.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

$(VENV)/.stamp-%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -x $(BIN)/uv || $(BIN)/python -m pip install -q uv || true
	if [ -x $(BIN)/uv ]; then VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install -q --compile-bytecode -e '.[$*]'; \
	else $(BIN)/python -m pip install -q -e '.[$*]'; fi
	touch $@

.PHONY: demo test check bench docs clean
demo: $(VENV)/.stamp-run   ## condense a real table, audit it, write release and report
	$(BIN)/tulle demo --force

test: check                ## the whole gate: style, types, layers, every test
	scripts/test-tools
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

check: $(VENV)/.stamp-test ## the quick half of the gate
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.stamp-bench ## tables and pictures into benchmarks/results (TULLE_DATA=folder)
	$(BIN)/python -m benchmarks

docs: $(VENV)/.stamp-docs  ## the user guide as HTML
	$(BIN)/sphinx-build -q -W -b html docs docs/_build/html

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
