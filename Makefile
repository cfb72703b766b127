# berth: every step of CI is a target here. "make" prints them.
SHELL := /bin/bash
GO ?= go
LINT_VERSION := $(shell cat test/scripts/golangci-lint.version)
# In a clone that belongs to another user (sudo make demo) git refuses to answer,
# and go would refuse to build; the version is then not stamped.
VCS := $(shell git status >/dev/null 2>&1 && echo auto || echo false)
export GOFLAGS := $(GOFLAGS) -buildvcs=$(VCS)
MODULES := test/bench test/browser # modules of their own
LINT := .cache/bin/golangci-lint-$(LINT_VERSION)

help: ## print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 10

setup: ## install what building and the demo need (Debian packages, when root)
	@test/scripts/setup

languages: ## install also what CI needs: every language, Chromium, what makes packages: about 1.5 GB, when root
	@test/scripts/setup test languages
	@test/scripts/s3server >/dev/null

build: setup ## build ./berth
	@echo "building berth (the first build compiles SQLite, which takes up to two minutes)"
	@GO=$(GO) test/scripts/build berth

demo: build ## start berth and take three programs through their whole life
	@test/scripts/demo ./berth

check: setup $(LINT) ## gofumpt, linters, tidy, vet, shellcheck, what is compiled from C, the architecture, generated pages, known weaknesses: before every commit
	@test/scripts/setup check
	@$(GO) mod tidy -diff
	@$(GO) vet ./...
	@for system in darwin windows; do for arch in amd64 arm64; do CGO_ENABLED=0 GOOS=$$system GOARCH=$$arch $(GO) vet . ./app/... ./cli ./cli/command ./cli/screen ./client ./files/bundle || exit; done; done
	@$(LINT) run --allow-parallel-runners ./...
	@for module in $(MODULES); do (cd $$module && $(GO) mod tidy -diff && $(GO) vet ./... && $(CURDIR)/$(LINT) run --config $(CURDIR)/.golangci.yml ./...) || exit; done
	@shellcheck do deploy/install.sh test/scripts/promtool test/scripts/fresh test/scripts/install test/scripts/setup test/scripts/soak test/scripts/summary test/scripts/build test/scripts/bpf test/scripts/editor test/scripts/pebble test/scripts/s3server test/scripts/h2spec test/scripts/kubernetes test/scripts/kwok test/scripts/ledger test/scripts/door test/scripts/demo test/scripts/again test/scripts/test test/scripts/test-browser test/scripts/axe test/scripts/lighthouse test/scripts/standardwebhooks test/scripts/servers test/scripts/fuzz test/scripts/bench .ci/run test/scripts/test-arm64 test/scripts/test-vm test/scripts/vulncheck deploy/apt-repository deploy/client deploy/licenses deploy/package deploy/release deploy/tools deploy/debian/preinst deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm test/vm/run test/vm/init test/vm/suite test/vm/powercut test/vm/packages test/vm/nfs
	@test/scripts/bpf compare
	@test/scripts/editor compare
	@$(GO) test . ./app/text ./test/docs
	@GO=$(GO) test/scripts/vulncheck

test: ## the product proved on this machine, with the race detector; says what it skips and why; root
	@test/scripts/setup test
	@test/scripts/test

ci: check languages test ## what CI runs: make check, make test with every language, README's demo on a fresh Debian, Chromium, arm64 and guests; root
	@test/scripts/fresh trixie unit demo
	@test/scripts/kubernetes there >/dev/null || exit 0; $(MAKE) --no-print-directory test-cluster RUN='^(TestStory|TestExitsOfPrograms|TestAdoption|TestInput)$$$$'
	@test/scripts/test-browser
	@test/scripts/test-arm64
	@test/scripts/test-vm

fresh: ## README's two commands on a fresh Debian 12 and a fresh Debian 13, in a clone of the last commit; root
	@test/scripts/fresh bookworm demo test
	@test/scripts/fresh trixie demo test

test-browser: languages ## what Chromium shows of the panel and of sites; root
	@test/scripts/test-browser

screenshots: languages ## take the pictures of the panel in docs/img; root
	@mkdir -p docs/img
	@cd test/browser && BERTH_PICTURES=$(CURDIR)/docs/img $(GO) test -tags pictures -count=1 -timeout 10m -run '^TestPanelPictures$$' .

test-arm64: languages ## what qemu-user can run of berth and its tests for arm64; on amd64, root
	@test/scripts/test-arm64

test-vm: setup ## the kernel tests in virtual machines: real control groups, systemd, a power cut
	@test/scripts/test-vm

test-cluster: setup ## programs on a real Kubernetes of two machines, which is built once: 16 minutes of a processor; root
	@test/scripts/setup cluster
	@test/scripts/kubernetes >/dev/null
	@$(GO) test -race -tags "cluster $(TAGS)" -count=1 -timeout 60m $(if $(RUN),-run '$(RUN)') ./test/cluster

fuzz: setup ## each fuzz target for 30 s
	@test/scripts/fuzz 30s

soak: setup ## what takes too long for make ci, in parts of at most an hour: make soak PART=faults; root
	@GO=$(GO) test/scripts/soak $(PART)

edge: ## testssl.sh, h2spec and slowhttptest against mode edge, five minutes; root
	@test/scripts/setup edge
	@$(GO) test -tags soak -count=1 -v -run '^TestEdge' -timeout 20m ./test/e2e

door: setup ## from the package to a bot online and the panel open on a fresh Debian: at most 4 commands and 60 s; root
	@deploy/tools release
	@mkdir -p .cache/door && GO=$(GO) test/scripts/build .cache/door/berth
	@VERSION=0.0.0 deploy/package amd64 .cache/door/berth .cache/door
	@test/scripts/door .cache/door/berth_0.0.0_amd64.deb

heaps: ## measure what runtimes do with the RAM of a program, write docs/memory.md; takes 15 minutes, and root
	@cd test/bench && $(GO) run ./heaps -page ../../docs/memory.md

heaps-guest: ## the same in an emulated guest with unified control groups, with the runtimes in PATH; takes an hour, and root
	@mkdir -p .cache/heaps && cp docs/memory.md .cache/heaps && cd test/bench && $(GO) build -o ../../.cache/heaps/measure ./heaps
	@cd test/bench && ../vm/run -d $(CURDIR)/.cache/heaps/disk -s 4G -m 3584 -c 2 -t 9000 -o $(CURDIR)/.cache/heaps -- \
		env TMPDIR=/tmp "PATH=$$PATH" $(CURDIR)/.cache/heaps/measure -seconds 30 -beside 3 -page /out/memory.md -mark "make heaps-guest"
	@cp .cache/heaps/memory.md docs/memory.md

bench: build ## measure beside PM2, supervisord, nginx and Caddy, write docs/performance.md; parts: ONLY=memory,start
	@test/scripts/bench ./berth $(ONLY)

release: setup ## build what is published of a version into dist: make release VERSION=1.2.3; MINISIGN_KEY=FILE signs it
	@GO=$(GO) deploy/release "$(VERSION)"

apt-repository: ## make a signed repository for apt of the packages in dist, into dist/apt: APT_KEY=KEY make apt-repository
	@deploy/apt-repository

docs: ## rewrite docs/commands.md, docs/settings.md and the tables of docs/api.md from the code
	@$(GO) run ./test/docs

bpf: ## compile what is written in C after a change of proc/sandbox/bpf or helper; needs the clang and lld that CI has
	@test/scripts/bpf

editor: ## make the panel's editor of web/panel/editor and the packages of npm that its lock file names
	@test/scripts/editor

man: ## write a manual page for each command into dist/man
	@$(GO) run ./test/docs -man dist/man

golden: ## rewrite the golden files, then show what changed
	@$(GO) test ./httpapi -update && git diff --stat

clean: ## remove what was built
	@rm -rf berth dist .cache

$(LINT):
	@echo "building golangci-lint $(LINT_VERSION) (once, a few minutes)"
	@mkdir -p .cache/bin && GOBIN=$(CURDIR)/.cache/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv .cache/bin/golangci-lint $(LINT)

.PHONY: ci door test-cluster edge editor heaps heaps-guest help setup languages build demo check test test-browser screenshots test-arm64 test-vm fresh fuzz soak bench release apt-repository docs bpf man golden clean
