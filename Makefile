# make help names the targets. Each first installs what it needs, and no more, into the virtual environment .venv
# (.ci/install; again when pyproject.toml or requirements/ has changed). The control plane of the end-to-end tests is built
# when first used, into the user's cache.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export VENV := .venv
BIN := $(VENV)/bin
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
SCRIPTS := .ci/install .ci/lock .ci/run tests/kind/run.sh deploy/image/install deploy/image/build deploy/image/base

# More arguments for the tool behind a target: make test ARGS="-k gang", make demo ARGS="--keep"
ARGS :=

.PHONY: help install check quick test controlplane nightly scenarios releases demo bench chaos attacks predictions throughput peers fuzz \
	node-test kind-test image sidecar-image base-image image-test manifests chart lock docs with-docs with-tests with-checks

help: ## What there is to make
	@awk -F ": .*## | ## " '/^[a-z-]+:.* ## / {split($$1, name, ":"); printf "%-13s %s\n", name[1], $$NF}' Makefile

install: ## The project, editable, in .venv
	@.ci/install project

with-docs:
	@.ci/install docs

with-tests:
	@.ci/install test

# The tests are checked too, so mypy needs the types of what they use.
with-checks:
	@.ci/install lint

lock: install ## Lock all packages in requirements/ anew (ARGS=--upgrade: in their newest versions)
	$(BIN)/python -m pip install --quiet uv
	UV=$(BIN)/uv .ci/lock $(ARGS)

check: with-checks ## Style, rooms, shell scripts, Dockerfile, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/shellcheck $(SCRIPTS)
	$(BIN)/hadolint Dockerfile
	@echo "mypy says nothing until it has read everything: minutes the first time, seconds later"
	$(BIN)/mypy

quick: export PYTHONHASHSEED := 0
quick: with-tests ## A few tests of every room, in less than a minute, without a control plane
	$(BIN)/python -m pytest -n 2 --dist loadfile @tests/quick.txt $(ARGS)

controlplane: with-tests ## The control plane that the end-to-end tests run on; six minutes the first time
	$(BIN)/python -m tests.localcluster

# End-to-end tests wait more than they work, so four processes share two cores, each with a control plane of its own;
# ARGS="-n 0" runs all in one. The order of sets is a part of what the property tests try again alike.
test: export PYTHONHASHSEED := 0
test: controlplane ## All tests, the end-to-end ones on a control plane of their own (KUBERNETES=1.37: of that release)
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --durations 10 $(ARGS)

# Each part can be run alone.
nightly: scenarios releases chaos attacks predictions fuzz node-test image-test ## What takes too long for each change: scenarios, releases, chaos, attacks, predictions, fuzz, node-test, image-test; hours

scenarios: with-tests ## At length: 2,000 examples of each law, 50,000 of the oracle beside libreapi_cli, 2,000 Jobs that drain; an hour or more
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest tests/property tests/oracle/tests tests/e2e/test_suspended_submission.py $(ARGS)

releases: release-1.36 release-1.37 ## The end-to-end tests on each release of Kubernetes

release-%: export KUBERNETES = $*
release-%: with-tests
	$(BIN)/python -m tests.localcluster
	$(BIN)/python -m pytest -n 4 --dist loadfile tests/e2e tests/integration/cluster $(ARGS)

demo: install ## The service at work on this machine, on an embedded cluster (ARGS=--keep: until Ctrl-C)
	$(BIN)/fluence-extender demo $(ARGS)

bench: with-tests ## What restarts and passes of the queue cost
	$(BIN)/python -m benchmarks.restart $(ARGS)
	$(BIN)/python -m benchmarks.queue
	$(BIN)/python -m benchmarks.queue --costs

chaos: with-tests ## 200 random kills and stops of two replicas, API server and nodes, half an hour (docs/reliability.md)
	$(BIN)/python -m tests.chaos --replicas 2 $(ARGS)

attacks: export ATTACKS = full
attacks: controlplane ## What one user can do to the pods of others, at full size (20 minutes, on a free machine; docs/security.md)
	$(BIN)/python -m pytest -n 0 -s tests/e2e/test_hostile_tenant.py $(ARGS)

predictions: export SIMULATED = 300
predictions: controlplane ## What simulate says of 300 random manifests, and what then happens to them (10 minutes)
	$(BIN)/python -m pytest -n 2 tests/e2e/test_simulate_comes_true.py $(ARGS)

throughput: with-tests ## Pods a second and CPU a pod, beside the stock scheduler (half an hour, on a free machine)
	$(BIN)/python -m benchmarks.throughput $(ARGS)

peers: with-tests ## The same work with other gang schedulers, which are built first (hours, on a free machine)
	$(BIN)/python -m benchmarks.peers $(ARGS)

fuzz: with-tests ## 100,000 spoiled documents for the oracle (ARGS="--engine fluxion": for libreapi_cli)
	$(BIN)/python -m tests.oracle.fuzz $(ARGS)

# The packages warn of a new major version of mkdocs, which requirements/ doesn't have.
docs: export NO_MKDOCS_2_WARNING := 1
docs: with-docs ## The documentation as a site, in site/ (open site/index.html); a broken link is an error
	$(BIN)/python -m mkdocs build --strict $(ARGS)

# Where this machine can't run nodes, a line says what it lacks, and nothing is run.
node-test: with-tests ## The end-to-end tests and the life of an installation on real nodes of this machine (root, Linux)
	$(BIN)/python -m tests.nodes $(ARGS)

kind-test: with-tests ## The end-to-end tests on a kind cluster, with the real image (needs docker and kind)
	tests/kind/run.sh $(ARGS)

image: ## The container image (needs docker or buildah)
	deploy/image/build fluence-extender:$(VERSION) $(ARGS)

sidecar-image: ## The small image of the quantum sidecar alone (needs docker or buildah)
	deploy/image/build fluence-sidecar:$(VERSION) --target sidecar $(ARGS)

base-image: ## A base for both where no image registry is reached (needs root, debootstrap and buildah)
	deploy/image/base localhost/debian-python:trixie $(ARGS)

image-test: with-tests ## Both images on such a base: their sizes, and that everything in them runs
	$(BIN)/python -m pytest -n 0 tests/images/built.py $(ARGS)

manifests: export IMAGE := fluence-extender:$(VERSION)
manifests: ## dist/install.yaml: all of deploy/ in one file (needs kubectl; IMAGE=REGISTRY/NAME:TAG)
	mkdir -p dist
	kubectl kustomize deploy | sed "s|image: fluence-extender:.*|image: $$IMAGE|" >dist/install.yaml

# A chart's folder may have links, of which Helm prints each; an archive of a copy without links prints nothing.
chart: ## dist/fluence-extender-VERSION.tgz: the Helm chart in one file (needs helm)
	rm -rf dist/chart
	mkdir -p dist
	cp -rL deploy/helm dist/chart
	helm package dist/chart --destination dist
