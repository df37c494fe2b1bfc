# Images and releases. build/image holds the program that makes them: Go alone, no Docker.

.PHONY: image push-image program-image push-program-image release reproduce

# KEY is a private key, with which images and files are signed.
IMAGE = $(GO) -C build/image run . $(if $(KEY),-key $(abspath $(KEY)))

image: wasm ## OCI images of both artifacts, each in two forms, as layouts in build/out/image; KEY=file signs them
	$(IMAGE) layout

push-image: wasm ## Push the images to REGISTRY=host/path, as docker login has left it; KEY=file signs them
	@[ -n "$(REGISTRY)" ] || { echo "usage: make push-image REGISTRY=registry.example.com/warmgate" >&2; exit 2; }
	$(IMAGE) push $(REGISTRY)

program-image: programs ## OCI image of the program warmgate, as a layout in build/out/image; KEY=file signs it
	$(IMAGE) layout-program

push-program-image: programs ## Push that image to REGISTRY=host/path; KEY=file signs it
	@[ -n "$(REGISTRY)" ] || { echo "usage: make $@ REGISTRY=registry.example.com/warmgate" >&2; exit 2; }
	$(IMAGE) push-program $(REGISTRY)

release: wasm programs ## Fill build/out/release: modules, programs, images, SBOMs, chart, provenance; KEY=file signs
	$(IMAGE) release

reproduce: wasm programs ## Make a release twice, in another folder and from nothing, and compare the bytes
	build/reproduce.sh
