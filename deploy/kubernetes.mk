# SPDX-License-Identifier: Apache-2.0

IMAGE     ?= kvbench:dev
ARCHES    ?= amd64 arm64
REVISION  := $(shell git rev-parse HEAD 2>/dev/null)
LAYOUT    := bin/kvbench-image

.PHONY: image
image: ## container image IMAGE for this machine, with Docker
	docker build -f deploy/Dockerfile --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) -t $(IMAGE) .

.PHONY: image-tar
image-tar: ## the same without Docker, for ARCHES: OCI layout bin/kvbench-image, and as archive bin/kvbench-image.tar
	for arch in $(ARCHES); do \
	  CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/kvbench-linux-$$arch ./cmd/kvbench || exit 1; done
	cd internal/tools && $(GO) run ./imagetar -image $(IMAGE) -version $(VERSION) -revision "$(REVISION)" -o $(abspath $(LAYOUT)) $(foreach a,$(ARCHES),linux/$(a)=$(abspath bin/kvbench-linux-$(a)))

.PHONY: e2e-kubernetes
e2e-kubernetes: build $(if $(LOAD_IMAGE),image-tar) ## everything on a cluster: KUBECONFIG=FILE [IMAGE=NAME] [LOAD_IMAGE='kind load image-archive']
	@test -n "$(KUBECONFIG)" || { echo 'usage: make e2e-kubernetes KUBECONFIG=FILE [IMAGE=NAME] [LOAD_IMAGE=COMMAND]'; exit 2; }
	KUBECONFIG='$(KUBECONFIG)' IMAGE='$(IMAGE)' LOAD_IMAGE='$(LOAD_IMAGE)' $(GO) test -tags e2e -count 1 -timeout 30m -v ./deploy/e2e
