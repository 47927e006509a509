# `make` alone prints the targets.

IMG ?= pod-sequence-controller:latest
NODE_IMG ?= rollcall-node:latest
KUBECTL ?= kubectl
CARGO ?= cargo
# Number of nodes of `make cluster`.
NODES ?= 3
# Additional arguments of `make run`, `make demo`, `make cluster` and `make bench`.
ARGS ?=

# lite, or full, which also supports scope: Node.
MODE ?= lite
CRDS := config/crd/podsequence-crd.yaml$(if $(filter full,$(MODE)), config/crd/korder-crd.yaml)
RBAC := config/rbac/$(if $(filter full,$(MODE)),rbac.yaml,rbac-lite.yaml)
EXAMPLE ?= config/samples/example-podsequence.yaml

export CARGO KUBECTL

.DEFAULT_GOAL := help
.PHONY: help build run test test-fast lint docker-build docker-build-controller docker-build-node deploy undeploy deploy-example lint-samples demo cluster bench chaos mutants manifests

help: ## Print this help
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the programs: bin/rollcall, and bin/rollcall-node, which is static
	$(CARGO) build --locked --release -p rollcall-cli
	@install -D "$${CARGO_TARGET_DIR:-target}/release/rollcall" bin/rollcall
	@scripts/static.sh rollcall-node rollcall-node small bin/rollcall-node
	@echo "bin/rollcall bin/rollcall-node"

run: ## Run the controller on this machine, against the cluster of your kubeconfig (MODE=full, ARGS=… for more flags)
	$(CARGO) run --locked -q -p rollcall-cli -- controller --mode $(MODE) $(ARGS)

test: ## Run all checks: format, lints, unit tests, tests on a real Kubernetes (built on the first run)
	@scripts/test.sh

test-fast: ## Check format and lints, and run all tests that need no cluster
	@scripts/test.sh fast

lint: ## Check format and lints; also runs cargo-deny and shellcheck if they are installed
	@scripts/lint.sh

lint-samples: ## Run `rollcall lint` on our samples: only notes are allowed (part of `make test`)
	$(CARGO) test --locked -q -p rollcall-cli --test alone -- our_samples_are_clean every_pitfall_is_found

docker-build: docker-build-controller docker-build-node ## Build both images with docker, podman or buildah (IMG=name:tag, NODE_IMG=name:tag)

docker-build-controller: ## Build only the controller's image (IMG=name:tag, IMG_TAR=file to export it)
	@scripts/image.sh controller "$(IMG)" "$(IMG_TAR)"

docker-build-node: ## Build only the image of rollcall-node (NODE_IMG=name:tag, NODE_IMG_TAR=file to export it)
	@scripts/image.sh node "$(NODE_IMG)" "$(NODE_IMG_TAR)"

deploy: ## Install the CRDs and the controller (IMG=name:tag, MODE=full)
	$(KUBECTL) apply $(CRDS:%=-f %)
	sed 's|image: pod-sequence-controller:latest|image: $(IMG)|' $(RBAC) | $(KUBECTL) apply -f -
	$(if $(filter full,$(MODE)),$(KUBECTL) apply -f config/webhook/launch.yaml)

undeploy: ## Remove all PodSequences, the controller and the CRDs, in this order (KEEP_CRD=1: only the controller)
	@scripts/undeploy.sh

deploy-example: ## Apply the first example (EXAMPLE=file for another)
	$(KUBECTL) apply -f $(EXAMPLE)

demo: ## Watch a shop start in order, with a failure; needs no Kubernetes (ARGS=--fast)
	$(CARGO) run --locked --profile quick -p rollcall-cli -- demo $(ARGS)

cluster: ## Start a throw-away Kubernetes on this machine, until Ctrl-C (NODES=3, ARGS=--real-node)
	$(CARGO) run --locked -q -p rollcall-testbed -- up --nodes $(NODES) $(ARGS)

bench: ## Run the benchmarks on a throw-away Kubernetes (ARGS=… for one benchmark)
	$(CARGO) build --locked --release -p rollcall-cli -p rollcall-testbed -p rollcall-bench
	@scripts/static.sh rollcall-node rollcall-node small bin/rollcall-node
	$(CARGO) run --locked --release -q -p rollcall-bench -- $(ARGS)

chaos: ## Run the controller through faults in virtual time (RUNS=1000 SEED=1, FAULTS=crash-after@7,410@3 for one plan, HASHES=file for their hashes)
	$(CARGO) run --locked --release -q -p rollcall-sim --bin chaos -- "$(RUNS)" "$(SEED)" "$(FAULTS)" "$(HASHES)"

mutants: ## Make small changes to the core and check that its tests detect them (ARGS=… for cargo-mutants; about two hours on two cores)
	@scripts/mutants.sh $(ARGS)

manifests: ## Regenerate config/crd, docs/reference and the copies of config/rbac/limits.yaml
	@scripts/manifests.sh
