# `make` prints what there is. Everything runs in .venv, made from requirements-dev.lock with hashes checked.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOWEST := .lowest
LOWEST_PYTHON ?= 3.11
EVIDENCE ?= evidence
FLEET ?= lesson
SCHEDULER ?= kailab
BACKEND ?= embedded
ARGS ?=
# Tests on a control plane mostly wait for it, so two cores serve four workers. Each worker has control planes of its own, of some 1.2 GB.
WORKERS ?= 4

# Tests start hundreds of processes, and each compiles kailab anew where Python may not keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

# The tests of a module stay with one worker as far as that goes, so that what a module sets up is set up once.
SPREAD := --dist worksteal

# The tests of the packages that import the libraries. What stands on these packages alone behaves the same with every version.
NEXT_TO_LIBRARIES := $(addprefix tests/,cluster components engine evidence extensions fleet kubernetes metrics model policies \
  pytest_plugin report scenarios scheduler serve studies) tests/cli/test_commands.py tests/cli/test_get.py tests/cli/test_top.py \
  tests/cli/test_main.py tests/replay/test_plotting.py

.DEFAULT_GOAL := help
.PHONY: help setup components lab lab-up lab-down exercises evidence quick test test-fast test-lowest lint format docs course-site docs-site bench lock clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make the environment in .venv

# Rebuilt when the lock or the project's own description changes.
$(READY): requirements-dev.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON) here; kailab needs Python 3.11 or newer (make PYTHON=/path/to/python3)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $$($(PYTHON) --version) is too old; kailab needs Python 3.11 or newer (make PYTHON=/path/to/python3)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "error: $(PYTHON) can't make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

lab: KEEP := --keep
# Some exercises apply what `apply` warns of, because that is their lesson. The warnings are counted, and `make exercises` shows them.
lab: WARNINGS := --disable-warnings
lab: lab-up exercises ## Set up, start a lab, run the exercises: the main job
	@echo "The evidence of each test is in $(EVIDENCE)/; the latest run:"
	@$(BIN)/kailab evidence list --evidence $(EVIDENCE) | sed -n '1p;$$p'
	@echo "Look closer: $(BIN)/kailab evidence show, $(BIN)/kailab report"

lab-up: $(READY) ## Start a lab of 32 fake GPUs (FLEET=..., SCHEDULER=..., BACKEND=...)
	@$(BIN)/kailab up --fleet $(FLEET) --scheduler $(SCHEDULER) --backend $(BACKEND) $(KEEP)

lab-down: $(READY) ## End the lab
	@$(BIN)/kailab down

# Given on the command line, and not for the exercises: said rather than passed over.
OF_THE_LAB = $(strip $(foreach name,FLEET SCHEDULER,$(if $(filter command,$(origin $(name))),$(name))))

exercises: $(READY) ## Run the exercises (BACKEND=...; ARGS="-n auto -k gang" for pytest)
	@$(if $(OF_THE_LAB),echo "note: $(OF_THE_LAB): of the lab that is up; exercises bring their own (else: ARGS=\"--kailab-fleet ... --kailab-scheduler ...\")" >&2)
	@$(BIN)/pytest exercises/ --kailab-backend $(BACKEND) --kailab-evidence $(EVIDENCE) $(WARNINGS) $(ARGS)

evidence: $(READY) ## Write the evidence of the lab that is up (EVIDENCE=folder)
	@$(BIN)/kailab evidence capture $(EVIDENCE)

components: $(READY) ## Get the programs of a real control plane (downloaded, or built with Go)
	@$(BIN)/kailab components get >/dev/null

test: lint components ## Run all checks and tests, on a real control plane too (WORKERS=N, ARGS=... for pytest)
	@KAILAB_REQUIRE_CONTROLPLANE=1 $(BIN)/pytest -n $(WORKERS) $(SPREAD) $(ARGS)
	@$(BIN)/pytest exercises/ --kailab-backend controlplane --kailab-required --kailab-evidence off -n $(WORKERS) $(SPREAD)

quick: $(READY) ## Check a change in about a minute: lint, types, contracts, the tests that cover it (PACKAGE=engine)
	@$(BIN)/python -m tools.quick $(PACKAGE)

test-fast: $(READY) ## Run the fast tests: no control plane, some minutes
	@$(BIN)/pytest -q -n $(WORKERS) $(SPREAD) -m "not slow" --kailab-evidence off $(ARGS)

test-lowest: $(LOWEST)/.ready ## Run the tests next to the libraries with the lowest versions that pyproject.toml allows
	@$(LOWEST)/bin/python -m pytest -q -n auto $(SPREAD) -m "not slow" --kailab-evidence off -p no:cacheprovider $(ARGS) $(NEXT_TO_LIBRARIES)

$(LOWEST)/.ready: $(READY) pyproject.toml
	@echo "setting up $(LOWEST) with the lowest versions ..."
	@$(BIN)/uv venv --quiet --clear --python $(LOWEST_PYTHON) $(LOWEST)
	@$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e '.[dev]'
	@touch $@

lint: $(READY) ## Check format, style, types and layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY) ## Put the code in its format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(READY) ## Write what docs/ has from the code: the API, examples, the pages of the course
	@$(BIN)/python -m tools.api_reference
	@$(BIN)/python -m tools.own_tests
	@$(BIN)/python -m tools.included_files
	@$(BIN)/python -m tools.course_site
	@$(BIN)/python -m tools.coverage_table
	@$(BIN)/python -m tools.known_names

course-site: $(READY) ## Build the course as a site, in build/course
	@$(PYTHON) -m venv build/course-tools
	@build/course-tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-course.lock
	@NO_MKDOCS_2_WARNING=1 build/course-tools/bin/mkdocs build --quiet --clean
	@echo build/course/index.html

docs-site: $(READY) ## Build all of docs/ as a site that can be searched, in build/docs
	@$(PYTHON) -m venv build/course-tools
	@build/course-tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-course.lock
	@NO_MKDOCS_2_WARNING=1 build/course-tools/bin/mkdocs build --quiet --clean --config-file docs.yml
	@echo build/docs/index.html

bench: $(READY) ## Measure the engine beside KAI, and the lab on 500 nodes
	@$(BIN)/python -m benchmarks.engine
	@$(BIN)/python -m benchmarks.lab_runs fill --fleet scale-500
	@$(BIN)/python -m benchmarks.lab_runs reclaim --fleet scale-500
	@$(BIN)/python -m benchmarks.lab_runs gang
	@$(BIN)/python -m benchmarks.lab_runs unschedulable --fleet scale-500

lock: $(READY) ## Lock the dependencies anew
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra dev \
		-o requirements-dev.lock pyproject.toml requirements-tools.in
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		-o requirements-course.lock requirements-course.in

clean: ## Remove the lab, the environment and all caches; evidence stays
	@rm -rf .kailab $(VENV) $(LOWEST) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache allure-results
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
