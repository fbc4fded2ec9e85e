# Lior. `make` prints what there is; `make run` and `make test` are all that a fresh machine needs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
BUILD := .build
SEED ?= 1
FUZZ_SECONDS ?= 60
LIOR_KILLS ?= 200
OLDEST_SPARK := 4.2
# One value of CHECK: compare with what is committed instead of writing it.
CHECK ?=

export LIOR_SEED ?= $(SEED)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# The tests start hundreds of processes: what they import is compiled once, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

RUNTIME := $(VENV)/.lior-runtime
SPARK := $(VENV)/.lior-spark
TESTING := $(VENV)/.lior-test
PYTEST := $(BIN)/python -m pytest --hypothesis-seed=$(LIOR_SEED)
RESULTS := $(BUILD)/conformance.json
# program under tools/ : page under docs/ that it writes to the path given
GENERATED_DOCS := property_document.py:properties.md

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- Environment: a stamp is renewed only when the requirements change ---

$(VENV)/.lior-python: tools/find-python.sh
	@python=$$(bash tools/find-python.sh); \
	if ! $(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		echo "lior: making $(VENV) with $$("$$python" --version)"; \
		"$$python" -m venv --clear $(VENV); \
	fi
	@touch $@

$(RUNTIME): $(VENV)/.lior-python requirements/runtime.txt requirements/build.txt pyproject.toml
	@echo "lior: installing requirements/runtime.txt"
	@$(BIN)/python -m pip install --quiet --requirement requirements/runtime.txt --requirement requirements/build.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(SPARK): $(RUNTIME) requirements/spark.txt
	@echo "lior: installing requirements/spark.txt, which takes 1 GB"
	@$(BIN)/python -m pip install --quiet --requirement requirements/spark.txt
	@touch $@

$(TESTING): $(RUNTIME) requirements/spark.txt requirements/test.txt
	@echo "lior: installing requirements/test.txt"
	@$(BIN)/python -m pip install --quiet --requirement requirements/test.txt
	@touch $@ $(SPARK)

.PHONY: debian
debian:
	@bash tools/debian-packages.sh "printf '#include <stdio.h>\n#include <dlfcn.h>\n' | gcc -E -:gcc,libc6-dev" \
		"curl --version:curl" "command -v wine && command -v wineboot:wine" "command -v widl && command -v winegcc:wine64-tools" \
		"test -e /usr/include/wine/wine/windows/wtypes.idl:libwine-dev" "command -v ntlm_auth:winbind" \
		"java -version:default-jre-headless" "tshark --version:tshark" "command -v ip && command -v nft:iproute2,nftables" \
		"command -v krb5kdc && command -v kinit:krb5-kdc,krb5-user"

# --- Use ---

.PHONY: run
run: $(SPARK) ## Install into .venv and run the demos: kills in between, each message once; then Spark
	@$(BIN)/python examples/first_steps.py
	@$(BIN)/python examples/two_queue_managers.py
	@$(BIN)/python examples/pipeline.py

# --- Checks ---

.PHONY: test
test: $(TESTING) debian ## Everything a change must pass: lint, types, tests, docs, conformance, 5 s of each fuzz target
	@$(MAKE) check
	@mkdir -p $(BUILD)
	@$(PYTEST) --durations=25 --conformance-report=$(RESULTS) 2>&1 | tee $(BUILD)/pytest.log
	@$(BIN)/python tools/conformance.py check $(RESULTS)
	@$(MAKE) docs CHECK=1
	@$(MAKE) fuzz FUZZ_SECONDS=5

.PHONY: check
check: $(TESTING) ## Lint and types only
	@$(BIN)/ruff check .
	@$(BIN)/mypy

.PHONY: conformance
conformance: $(TESTING) debian ## Record which rules the tests prove (CHECK=1: compare with the record only)
	@mkdir -p $(BUILD)
	@code=0; $(PYTEST) --conformance-report=$(RESULTS) || code=$$?; \
	$(BIN)/python tools/conformance.py $(if $(CHECK),check,write) $(RESULTS) && exit $$code

.PHONY: docs
docs: $(TESTING) ## Write the generated pages of docs/ and check them (CHECK=1: check only)
	@mkdir -p $(BUILD)
	@for pair in $(GENERATED_DOCS); do \
		page=docs/$${pair#*:}; \
		$(BIN)/python "tools/$${pair%:*}" $(BUILD)/page.md; \
		$(if $(CHECK),cmp -s $(BUILD)/page.md "$$page" || { echo "lior: $$page is out of date; run: make docs"; exit 1; },cp $(BUILD)/page.md "$$page"); \
	done
	@$(if $(CHECK),:,$(PYTEST) --quiet tests/test_docs.py)

.PHONY: fuzz
fuzz: $(TESTING) ## Run each fuzz/fuzz_*.py for FUZZ_SECONDS (60)
	@printf '%s\n' fuzz/fuzz_*.py | FUZZ_SECONDS=$(FUZZ_SECONDS) xargs -n 1 -P "$$(nproc)" \
		sh -c 'echo "lior: $$0, $(FUZZ_SECONDS) s"; exec $(BIN)/python "$$0"'

.PHONY: torture
torture: $(TESTING) debian ## Long crash storms: LIOR_KILLS (200) kills in each, 5000 examples a property
	@LIOR_KILLS=$(LIOR_KILLS) LIOR_PROFILE=long $(PYTEST) -m "torture" --timeout=3600
	@$(MAKE) oldest-spark

# The oldest pyspark with streams goes before the environment's own
.PHONY: oldest-spark
oldest-spark: $(BUILD)/pyspark-$(OLDEST_SPARK)/pyspark ## The core of tests/spark with pyspark 4.2: part of make torture
	@PYTHONPATH=$(abspath $(BUILD)/pyspark-$(OLDEST_SPARK)) LIOR_PYSPARK=$(OLDEST_SPARK) $(PYTEST) -m "" \
		tests/spark/test_stream_reader.py tests/spark/test_source.py tests/spark/test_while_reading.py tests/spark/test_fail_points.py

$(BUILD)/pyspark-$(OLDEST_SPARK)/pyspark: | $(TESTING)
	@echo "lior: installing pyspark $(OLDEST_SPARK) into $(BUILD)"
	@$(BIN)/python -m pip install --quiet --upgrade --target $(BUILD)/pyspark-$(OLDEST_SPARK) 'pyspark==$(OLDEST_SPARK).*'

.PHONY: bench
bench: $(TESTING) ## Measure Lior beside its peers: ratios, each with its durability
	@for bench in benchmarks/bench_*.py; do \
		[ -f "$$bench" ] || { echo "lior: benchmarks/ holds no bench_*.py"; exit 1; }; \
		echo "lior: $$bench"; \
		$(BIN)/python "$$bench"; \
	done

.PHONY: lock
lock: $(VENV)/.lior-python ## Resolve pyproject.toml anew into requirements/*.txt
	@$(BIN)/python tools/lock.py

.PHONY: clean
clean: ## Remove everything that make makes
	@rm -rf $(VENV) $(BUILD) .mypy_cache .ruff_cache .pytest_cache .hypothesis fuzz/findings
	@find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
