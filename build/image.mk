# Images and releases. build/image holds the program that makes them: Go alone, no Docker.

.PHONY: image push-image release reproduce

image: wasm ## OCI images of both artifacts, each in two forms, as layouts in build/out/image
	$(GO) -C build/image run . layout

push-image: wasm ## Push the images to REGISTRY=host/path, with the credentials that docker login has left
	@[ -n "$(REGISTRY)" ] || { echo "usage: make push-image REGISTRY=registry.example.com/warmgate" >&2; exit 2; }
	$(GO) -C build/image run . push $(REGISTRY)

release: wasm ## Fill build/out/release: modules, images, SBOMs, the Helm chart, checksums
	$(GO) -C build/image run . release

reproduce: release ## Build the release once more, in another folder and from nothing, and compare the bytes
	build/reproduce.sh
