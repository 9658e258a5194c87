# Every target that a person needs; `make help` lists them. The work itself is in local/specdecode_local.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
LOCAL := $(PY) -m specdecode_local
CHART := charts/specdecode-operator
CRD := $(CHART)/templates/crd.yaml
N ?= 18
RUNS ?= 10000
SEED ?= 1
# What the tests serve with, built before they begin: a build beside them would take the processors from those that wait.
TESTED := operator engine-standin engine-cpu-0.33.0 engine-cpu-0.30.0
ENGINES := engine-0.33.0 engine-0.30.0 engine-cpu-0.33.0 engine-cpu-0.30.0
# Cluster tests at once: most of their time is waiting. More than this only slow each other down on two cores.
AT_ONCE ?= 4

.PHONY: help
help: ## list the targets
	@[ -t 1 ] && bold=$$'\033[1m' plain=$$'\033[0m' || bold= plain=
	awk -F':.*## ' -v bold="$$bold" -v plain="$$plain" \
	    '/^[a-z-]+:.*## / {printf "  %smake %-14s%s %s\n", bold, $$1, plain, $$2}' $(MAKEFILE_LIST)

# --- set-up ---------------------------------------------------------------------------------------------------------
$(VENV)/.ready: requirements/dev.lock pyproject.toml requirements/bootstrap.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, found " + sys.version.split()[0] + "; set PYTHON=/path/to/python3")'
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { apt-get update -qq; apt-get install -y -qq python3-venv; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.lock
	$(VENV)/bin/uv pip install --quiet --python $(PY) --require-hashes -r requirements/dev.lock
	$(VENV)/bin/uv pip install --quiet --python $(PY) --no-deps --editable .
	touch $@

.PHONY: venv
venv: $(VENV)/.ready

# --- the local cluster ----------------------------------------------------------------------------------------------
.PHONY: up down status trays clean images
up: venv ## start a real Kubernetes on this machine (first time: builds it from source)
	@$(LOCAL) up

down: venv ## stop it and leave nothing behind but the caches
	@$(LOCAL) down

status: venv ## what runs, since when, and where to reach it
	@$(LOCAL) status

trays: venv ## add N (default 18) GB200 trays as kwok nodes: make trays N=18
	@$(LOCAL) trays $(N)

images: venv ## build and push every image whose inputs changed
	@$(LOCAL) images

clean: venv ## stop the cluster and remove every cache: builds, images, registry
	@$(LOCAL) clean

# --- the main job ---------------------------------------------------------------------------------------------------
.PHONY: demo dev
demo: venv ## from nothing to a served model, and a spec change rolled out under load
	@$(LOCAL) demo

dev: venv ## run the operator from this folder against the local cluster, restarted at every change
	@$(LOCAL) dev

# --- measurements ---------------------------------------------------------------------------------------------------
.PHONY: bench-gates
bench-gates: venv ## how often the judge errs in simulated worlds, beside other rules: RUNS=10000 SEED=1 JSON=file
	@PYTHONPATH=tests OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PY) -m bench.gates --runs $(RUNS) --seed $(SEED) $(if $(JSON),--json $(JSON))

.PHONY: bench-telemetry
bench-telemetry: venv ## what telemetry costs the host in a decode step, sampled and not, on this CPU: ROUNDS=2000
	@PYTHONPATH=tests:engine_patches $(PY) -m bench.telemetry --rounds $(or $(ROUNDS),2000)

.PHONY: bench-gpu
# No venv: the host's own Python has PyTorch, Triton and NumPy, and may have no network.
bench-gpu: ## stock vLLM against patched on this machine's GPU: STOCK=dir PATCHED=dir LINE=0.33.0 METHOD=dspark OUT=dir
	@PYTHONPATH=tests:engine_patches $(PYTHON) -m bench.gpu $(foreach name,STOCK PATCHED LINE METHOD OUT MINUTES,$(if $($(name)),--$(shell tr A-Z a-z <<< $(name)) $($(name))))

# --- checks ---------------------------------------------------------------------------------------------------------
.PHONY: test beside lint format unit cluster-test crd dashboards pictures lock
test: venv ## everything: lint, types, layers, unit, property, chart and cluster tests
	@$(MAKE) --no-print-directory --jobs=2 beside cluster-test

# What needs no cluster runs while the cluster's tests wait, mostly on the processor time that they leave. It gets a
# little even where they leave none, as its own time limits go on. It is told in one piece, at its end.
beside: venv
	@log=$$(mktemp)
	trap 'cat $$log; rm $$log' EXIT
	nice -n 19 $(MAKE) --no-print-directory lint unit > $$log 2>&1

unit: venv ## unit, property and patch tests: no cluster needed
	@$(PY) -m pytest --numprocesses auto --dist worksteal -m "not wheels" tests/unit tests/property tests/engine

cluster-test: up ## the tests on the real control plane and of a real Prometheus alone
	@$(LOCAL) images $(TESTED)
	$(LOCAL) trays
	$(PY) -m pytest --numprocesses $(AT_ONCE) --durations 20 --durations-min 10 tests/charts tests/dashboards tests/prometheus tests/cluster

lint: venv ## ruff, mypy strict, import-linter, and whether the generated CRD and dashboards are fresh
	@$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) -m specdecode_operator.api.crd --check $(CRD)
	$(PY) -m specdecode_dashboards --check $(CHART)

.PHONY: example-report
example-report: venv ## simulate the run of docs/report.md, and write its record and its page
	@PYTHONPATH=tests $(PY) -m simulatedrun examples/report

.PHONY: engine-test engine-matrix
engine-test: venv ## the patches on both releases' own files: every subset, kernels in Triton's interpreter, the engine's image
	@$(LOCAL) images $(ENGINES)
	$(PY) -m pytest --numprocesses 2 -m wheels tests/engine

engine-matrix: venv ## both engine lines on a CPU, stock against each optimization and all of them, end to end (two hours; goes on where it was): FORKED=1 PAGE=docs/performance/engine-matrix.md
	@PYTHONPATH=tests/engine:engine_patches $(PY) -m engine_matrix --out dist/engine-matrix $(if $(FORKED),--forked) $(if $(PAGE),--page $(PAGE))

format: venv ## format the tree
	@$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

crd: venv ## write the CRD anew from the typed view
	@$(PY) -m specdecode_operator.api.crd > $(CRD)

dashboards: venv ## write the chart's dashboards and rules anew from their description
	@$(PY) -m specdecode_dashboards $(CHART)

pictures: venv ## draw docs/dashboards/*.svg, from stand-in engines and a Prometheus of their own (two minutes)
	@$(LOCAL) build prometheus
	PYTHONPATH=tests:tests/dashboards:images/engine-standin:engine_patches $(PY) tests/dashboards/pictures.py docs/dashboards 80

lock: venv ## resolve the pinned Python requirements anew
	@cd requirements
	uv="../$(VENV)/bin/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --python-version 3.11"
	$$uv bootstrap.in -o bootstrap.lock
	$$uv ../pyproject.toml -o operator.lock
	$$uv --extra local --extra test ../pyproject.toml -o dev.lock
