# Two commands on a fresh machine: `make demo` and `make test`. Everything they need is set up in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo prove test check bench clean setup

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -qq -y python3-venv; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --editable .
	@touch $@

demo: setup
	$(BIN)/python jobs/smollm2_sft/prepare.py
	$(BIN)/python jobs/smollm2_sft/demo.py

prove: setup
	$(BIN)/python jobs/smollm2_sft/prepare.py
	$(BIN)/python jobs/smollm2_sft/demo.py --prove

test: setup
	$(BIN)/pytest

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python tests/bench/run.py

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
