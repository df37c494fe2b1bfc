# The program warmgate, for those who run gateways: build/warmgate.sh holds the flags.

.PHONY: warmgate programs

# Those that a release has it for; build/image has the same list.
PLATFORMS = linux-amd64 linux-arm64 darwin-amd64 darwin-arm64

warmgate: ## Build the program warmgate for this machine as build/out/warmgate: docs/command-line.md
	build/warmgate.sh

programs: ## Build the program warmgate for Linux and macOS, on amd64 and arm64
	for platform in $(PLATFORMS); do build/warmgate.sh $${platform%-*} $${platform#*-} || exit; done
