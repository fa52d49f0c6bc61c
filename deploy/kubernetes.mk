# SPDX-License-Identifier: Apache-2.0

IMAGE     ?= kvbench:dev
ARCHES    ?= amd64 arm64
IMAGE_TAR := bin/kvbench-image.tar

.PHONY: image
image: ## container image IMAGE for this machine, with Docker
	docker build -f deploy/Dockerfile --build-arg VERSION=$(VERSION) -t $(IMAGE) .

.PHONY: image-tar
image-tar: ## the same as an OCI archive for ARCHES, cross-compiled, without Docker
	for arch in $(ARCHES); do \
	  CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/kvbench-linux-$$arch ./cmd/kvbench || exit 1; done
	$(GO) run ./deploy/imagetar -image $(IMAGE) -version $(VERSION) -o $(IMAGE_TAR) $(foreach a,$(ARCHES),linux/$(a)=bin/kvbench-linux-$(a))

.PHONY: e2e-kubernetes
e2e-kubernetes: build $(if $(LOAD_IMAGE),image-tar) ## everything on a cluster: KUBECONFIG=FILE [IMAGE=NAME] [LOAD_IMAGE='kind load image-archive']
	@test -n "$(KUBECONFIG)" || { echo 'usage: make e2e-kubernetes KUBECONFIG=FILE [IMAGE=NAME] [LOAD_IMAGE=COMMAND]'; exit 2; }
	KUBECONFIG='$(KUBECONFIG)' IMAGE='$(IMAGE)' LOAD_IMAGE='$(LOAD_IMAGE)' $(GO) test -tags e2e -count 1 -timeout 30m -v ./deploy/e2e
