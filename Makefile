# The verbs of the house: `make` lists them. Each sets up what it needs, once.
# Another Python or place: make test PYTHON=python3.13 VENV=.venv-newest

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Without this, `python -m …` in this folder would also find `flows` and `infra` as packages of their own.
export PYTHONSAFEPATH := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

VENV := .venv
COMPILER_VENV := .venv-compiler
POD_VENV := .venv-pod
FLOW_VENV := .venv-pod-flow
NEIGHBOUR_VENV := .venv-neighbour
FRAMEWORKS_VENV := .venv-frameworks
BIN := $(VENV)/bin
PYTHON = $(shell .ci/find-python)

# Most tests wait for processes: three files of them at a time also on two cores, though each brings its own servers.
# In their own order: by the number of its tests, what takes longest would be begun last.
SIDE_BY_SIDE := -n 3 --dist loadfile --no-loadscope-reorder

# What the pods of the cluster tier have: what a program needs, and nothing of ours.
POD_NEEDS := jax>=0.10 orbax-checkpoint>=0.12 gcsfs
FLOW_NEEDS := prefect>=3.8.1 gcsfs
# Prefect's own worker for Kubernetes, which shares a cluster with ours in the tests.
NEIGHBOUR_NEEDS := prefect-kubernetes>=0.8
# What programs of the frameworks tier import, beside ours; PyTorch alone fetches 3 GB.
FRAMEWORKS_NEEDS := torch>=2.10 transformers>=5 accelerate>=1.10 datasets>=4 grain hydra-core>=1.3 google-tunix>=0.1.7
# Programs that a machine may lack, by the names that they and their packages have in Debian.
MACHINE_NEEDS := chromium buildah docker-registry

# Set-up is stamped by what it depends on: this file's wishes and where the clone lies.
STAMP := $(VENV)/.ready-$(shell { cat pyproject.toml; pwd; } | cksum | cut -d ' ' -f 1)
COMPILER_STAMP := $(COMPILER_VENV)/.ready-$(shell pwd | cksum | cut -d ' ' -f 1)
FLOW_STAMP := $(FLOW_VENV)/.ready-$(shell { echo '$(FLOW_NEEDS)'; pwd; } | cksum | cut -d ' ' -f 1)
NEIGHBOUR_STAMP := $(NEIGHBOUR_VENV)/.ready-$(shell { echo '$(NEIGHBOUR_NEEDS)'; pwd; } | cksum | cut -d ' ' -f 1)
FRAMEWORKS_STAMP := $(FRAMEWORKS_VENV)/.ready-$(shell { echo '$(FRAMEWORKS_NEEDS)'; cat pyproject.toml; pwd; } | cksum | cut -d ' ' -f 1)
POD_STAMP := $(POD_VENV)/.ready-$(shell { echo '$(POD_NEEDS)'; pwd; } | cksum | cut -d ' ' -f 1)

.PHONY: help setup setup-compiler setup-pod setup-frameworks demo demo-gke check test test-default test-slices test-drills test-prefect test-long test-compiler test-frameworks test-machine control-plane test-cluster test-work-pool test-kills cluster failures bench bench-scale docs

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

setup: $(STAMP) ## a virtual environment with everything, in .venv
setup-compiler: $(COMPILER_STAMP) ## Google's TPU compiler (700 MB), in .venv-compiler

setup-pod: $(POD_STAMP) $(FLOW_STAMP) ## the Python environments of the cluster tiers' pods, in .venv-pod and .venv-pod-flow

setup-frameworks: $(FRAMEWORKS_STAMP) ## PyTorch, Transformers, Accelerate, Hydra and tunix (5 GB), in .venv-frameworks

demo: $(STAMP) ## the main job: real data on a local v6e-16, through a preemption and a lost host
	$(BIN)/python docs/examples/demo.py

demo-gke: $(STAMP) $(POD_STAMP) control-plane ## the whole mission on a real control plane: pool made, lost, another one, nothing left. WRITE=--write for its page
	@$(BIN)/python tests/cluster/mission/demo.py $(WRITE)

check: $(STAMP) ## style, types, arrows; what the pre-commit hook runs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	.ci/link-tree .check
	MYPYPATH=.check $(BIN)/mypy -p prefect_tpu
	PYTHONPATH=.check $(BIN)/lint-imports --no-cache
	$(BIN)/pytest -q -m house_slow

test: $(STAMP) $(POD_STAMP) ## the default tier, then slices and prefect
	$(BIN)/pytest -q $(AGAIN) $(SIDE_BY_SIDE) -m "not frameworks and not compiler and not cluster and not work_pool and not machine and not house_slow and not long"

test-default: $(STAMP) ## the default tier alone: seconds, no network
	$(BIN)/pytest -q $(SIDE_BY_SIDE)

test-slices: $(STAMP) $(POD_STAMP) ## real JAX processes on this machine, drills too
	$(BIN)/pytest -q $(SIDE_BY_SIDE) -m "$(or $(MARKS),slices)" $(PLACES)

test-drills: $(STAMP) ## rehearsed failures alone and in random sequences; SEEDS=200 tries more
	DRILL_SEEDS=$(or $(SEEDS),20) DRILL_FIRST=$(or $(FIRST),1) $(BIN)/pytest -q -m drills tests/drills $(and $(ONLY),-k $(ONLY))

test-prefect: $(STAMP) ## a real Prefect server on this machine
	$(BIN)/pytest -q $(SIDE_BY_SIDE) -m prefect

test-long: $(STAMP) $(POD_STAMP) control-plane ## of prefect and cluster, what goes further than continuous integration has time for
	$(BIN)/pytest -q $(SIDE_BY_SIDE) -m "long and not cluster"
	$(BIN)/pytest -q -m "long and cluster"

test-compiler: $(STAMP) $(COMPILER_STAMP) ## every accelerator name, asked of Google's TPU compiler
	PREFECT_TPU_COMPILER_PYTHON=$(CURDIR)/$(COMPILER_VENV)/bin/python $(BIN)/pytest -q $(AGAIN) $(SIDE_BY_SIDE) -m compiler

test-frameworks: $(STAMP) $(FRAMEWORKS_STAMP) ## programs of PyTorch, Transformers, Accelerate, Hydra and tunix on local slices
	PREFECT_TPU_FRAMEWORKS_VENV=$(CURDIR)/$(FRAMEWORKS_VENV) $(BIN)/pytest -q $(AGAIN) -m frameworks

test-machine: $(STAMP) ## programs of this machine: Chromium, buildah, a registry; root's Debian gets those that it lacks
	@.ci/install-programs $(MACHINE_NEEDS)
	$(BIN)/pytest -q $(AGAIN) -m machine

control-plane: ## builds Kubernetes, JobSet and Kueue for test-cluster, once; needs Go
	@$(or $(PYTHON),python3) tests/cluster/control_plane/build.py

test-cluster: $(STAMP) $(POD_STAMP) control-plane ## a real Kubernetes control plane on this machine
	$(BIN)/pytest -q $(AGAIN) -m "cluster and not long"

test-work-pool: $(STAMP) $(POD_STAMP) $(FLOW_STAMP) $(NEIGHBOUR_STAMP) control-plane ## flows on slices: both, with PostgreSQL and SQLite. DATABASES=sqlite plays all stories there
	DATABASES=$(DATABASES) $(BIN)/pytest -q -m work_pool

test-kills: $(STAMP) $(POD_STAMP) $(FLOW_STAMP) control-plane ## workers of a pool killed at 50 moments while 20 runs go on; KILLS=200 SEED=8 kills more
	KILLS=$(or $(KILLS),50) SEED=$(or $(SEED),7) $(BIN)/pytest -q -m work_pool tests/cluster/work_pool/test_killed_workers.py

cluster: $(STAMP) $(POD_STAMP) control-plane ## the same cluster to try things on by hand, with a bucket, until Ctrl-C; SLICES="v6e-16 v5e-8"
	@$(BIN)/python tests/cluster/by_hand.py $(SLICES)

failures: $(STAMP) $(POD_STAMP) control-plane ## plays every failure of a cluster; writes docs/reference/failures.md
	rm -f tests/infra/backends/fixtures/failures/*.json
	RECORD_FAILURES=1 $(BIN)/pytest -q -m cluster tests/cluster/failures
	$(BIN)/python tests/infra/backends/failures_page.py

bench: $(STAMP) $(COMPILER_STAMP) ## what our part costs, as ratios; writes docs/reference/performance.md. BENCH=--quick only tries it, BENCH="--only guards --write" renews one line
	$(BIN)/python tests/bench/run.py $(BENCH)

bench-scale: $(STAMP) $(NEIGHBOUR_STAMP) control-plane ## one worker with 500 slices, beside Prefect's own for Kubernetes; writes docs/reference/work-pool-scale.md. BENCH="--slices 20" only tries it
	$(BIN)/python tests/bench/scale.py $(BENCH)

docs: $(STAMP) ## writes the reference anew from the code
	$(BIN)/python docs/generator

$(STAMP):
	@[ -n "$(PYTHON)" ] || { .ci/find-python --explain; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version); this happens once and takes a few minutes."
	@rm -f $(VENV)/.ready-*
	@echo "  1 of 3  environment: an empty one"
	@$(PYTHON) -m venv $(VENV)
	@echo "  2 of 3  packages: prefect-tpu, what it needs, and what its tests need; most of the time goes here"
	@.ci/install-packages $(BIN)/python --editable ".[dev]"
	@echo "  3 of 3  check: prefect-tpu starts"
	@version=$$($(BIN)/prefect-tpu version) && echo "Ready: prefect-tpu $$version, in $(BIN)."
	@touch $@

$(COMPILER_STAMP):
	@[ -n "$(PYTHON)" ] || { .ci/find-python --explain; exit 1; }
	@echo "Setting up $(COMPILER_VENV) with $$($(PYTHON) --version); this happens once and fetches 700 MB."
	@rm -f $(COMPILER_VENV)/.ready-*
	@$(PYTHON) -m venv $(COMPILER_VENV)
	@.ci/install-packages $(COMPILER_VENV)/bin/python "jax[tpu]>=0.10"
	@touch $@

# An environment of Python packages alone: $(call packages,FOLDER,NEEDS)
define packages
	@[ -n "$(PYTHON)" ] || { .ci/find-python --explain; exit 1; }
	@echo "Setting up $(1) with $$($(PYTHON) --version); this happens once."
	@rm -f $(1)/.ready-*
	@$(PYTHON) -m venv $(1)
	@.ci/install-packages $(1)/bin/python $(foreach need,$(2),"$(need)")
	@touch $@
endef

$(POD_STAMP):
	$(call packages,$(POD_VENV),$(POD_NEEDS))

$(FLOW_STAMP):
	$(call packages,$(FLOW_VENV),$(FLOW_NEEDS))

$(NEIGHBOUR_STAMP):
	$(call packages,$(NEIGHBOUR_VENV),$(NEIGHBOUR_NEEDS))

$(FRAMEWORKS_STAMP):
	$(call packages,$(FRAMEWORKS_VENV),--editable . $(FRAMEWORKS_NEEDS))
