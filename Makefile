# Two commands on a fresh machine: `make demo` and `make test`. Everything they need is set up in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# What the tests start: a Docker engine of their own with rentals in it, and an sshd.
TESTBED := docker.io iproute2 iptables mmdebstrap openssh-client openssh-server rsync
TESTBED_PROGRAMS := dockerd docker ip iptables mmdebstrap ssh sshd rsync

.PHONY: demo prove test testbed check bench clean setup

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

test: setup testbed
	$(BIN)/pytest

# Only root can run those tests, and on another system than Debian's they are to be installed by hand.
testbed:
	@for program in $(TESTBED_PROGRAMS); do PATH=$$PATH:/usr/sbin:/sbin command -v $$program > /dev/null || missing=yes; done; \
	if [ "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(TESTBED) > /dev/null; \
	fi

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
