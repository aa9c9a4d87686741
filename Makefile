# make help names the targets. Each does its own set-up: a virtual environment in .venv, made anew when pyproject.toml
# has changed. What else a test or the demo needs (a control plane) is built when first used, into the user's cache.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed-$(shell cksum < pyproject.toml | cut -d' ' -f1)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
SCRIPTS := .ci/install .ci/run tests/kind/run.sh deploy/krew/kubectl-fluence

# More arguments for the tool behind a target: make test ARGS="-k gang", make demo ARGS="--keep"
ARGS :=

.PHONY: help install check test nightly demo bench chaos throughput fuzz kind-test image

help: ## What there is to make
	@awk -F ": .*## | ## " '/^[a-z-]+:.* ## / {split($$1, name, ":"); printf "%-10s %s\n", name[1], $$NF}' Makefile

install: $(INSTALLED) ## The project, editable, with its test tools in .venv

$(INSTALLED):
	@.ci/install $(VENV)
	@rm -f $(VENV)/installed-*
	@touch $@

check: $(INSTALLED) ## Style, types, rooms, shell scripts, Dockerfile
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/shellcheck $(SCRIPTS)
	$(BIN)/hadolint Dockerfile

# End-to-end tests wait more than they work, so three processes share two cores, each with a control plane of its own;
# ARGS="-n 0" runs all in one. The order of sets is a part of what the property tests try again alike.
test: export PYTHONHASHSEED := 0
test: $(INSTALLED) ## All tests, the end-to-end ones on a control plane of their own
	$(BIN)/python -m pytest -n 3 --dist loadfile $(ARGS)

nightly: $(INSTALLED) ## The property tests at length: 100,000 scenarios of all engines, an hour or more
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest tests/property $(ARGS)

demo: $(INSTALLED) ## The service at work on this machine: on an embedded cluster, or ARGS=--kubernetes on a real one
	$(BIN)/fluence-extender demo $(ARGS)

bench: $(INSTALLED) ## What calls, matches, changes of nodes, restarts and admission cost, beside echoes and other engines
	$(BIN)/python -m benchmarks.filter $(ARGS)
	$(BIN)/python -m benchmarks.matcher $(ARGS)
	$(BIN)/python -m benchmarks.state $(ARGS)
	$(BIN)/python -m benchmarks.plugin_start
	$(BIN)/python -m benchmarks.node_changes $(ARGS)
	$(BIN)/python -m benchmarks.restart $(ARGS)
	$(BIN)/python -m benchmarks.failover
	$(BIN)/python -m benchmarks.preemption
	$(BIN)/python -m benchmarks.beside
	$(BIN)/python -m benchmarks.webhook $(ARGS)

chaos: $(INSTALLED) ## 200 random kills and stops of everything on a real control plane, half an hour (see docs/reliability.md)
	$(BIN)/python -m benchmarks.chaos $(ARGS)

throughput: $(INSTALLED) ## Pods a second and CPU a pod, beside the stock scheduler (half an hour, on a free machine)
	$(BIN)/python -m benchmarks.throughput $(ARGS)

fuzz: $(INSTALLED) ## 100,000 spoiled documents for the embedded engine (--engine fluxion: for libreapi_cli)
	$(BIN)/python -m tests.fuzz $(ARGS)

kind-test: $(INSTALLED) ## The end-to-end tests on a kind cluster, with the real image (needs docker and kind)
	tests/kind/run.sh $(ARGS)

image: ## The container image (needs docker)
	docker build --tag fluence-extender:$(VERSION) $(ARGS) .
