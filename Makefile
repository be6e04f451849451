# make image   builds out/spore.img from configs/
# make test    vet, lint, unit tests, the image twice, boots in QEMU, a cluster of Kubernetes
# make help    the rest

SHELL := /bin/bash
# With -trimpath, a copy of the source in another folder finds what was compiled for this one. Nothing is compiled for a
# debugger, which saves a tenth; go build by itself does so. The compiler and the linker, and no test, collect garbage
# less often, which saves a sixth of their time (docs/measurements.md) and changes no byte.
export GOFLAGS := -trimpath -gcflags=all=-dwarf=false "-toolexec=env GOGC=400 GOMEMLIMIT=3GiB" $(GOFLAGS)
TOOL  := GOGC=400 GOMEMLIMIT=3GiB go tool
OUT   ?= out
FUZZTIME  ?= 60s
FUZZTOTAL ?= 0
# How long make test may take with second runs of what failed: CI ends everything after 90 minutes. 0 is without a limit.
LIMIT ?= 85m
# A stage says what it took. In a run of make test it leaves what failed to the end of the run.
STAGE := go run ./test/stage
# go test, which says at its end what was skipped. Lint has vetted every package with all tags: go test would vet each
# of them a second time, and with the tags of other stages a third time.
GOTEST := go run ./test/gotest
NOVET  := -vet=off
# Packages of Debian 12 that the tests use; the build itself needs only Go, and Maven for a cluster with Kafka.
DEPS  := qemu-system-x86 qemu-utils ovmf swtpm squashfs-tools cryptsetup-bin mmdebstrap gdisk fdisk dosfstools mtools \
         e2fsprogs xorriso genisoimage systemd systemd-container binutils kmod zstd xz-utils mosquitto-clients dnsutils iproute2 dnsmasq-base cpio curl git openssl make \
         maven openjdk-17-jre-headless sbsigntool efitools tpm2-tools libcap2-bin prometheus jq systemd-journal-remote \
         chromium fonts-dejavu-core libnss3-tools

# The packages whose tests compare with foreign tools and the real archive; those of payloads, nodes and images have stages of their own.
INTEGRATION_FILES = $(shell grep -rl --include='*_test.go' '^//go:build integration' ./builder ./cluster ./agent ./test)
INTEGRATION = $(filter-out ./test/payloads/ ./test/conformance/ ./test/image/,$(sort $(dir $(INTEGRATION_FILES))))
# The tests beside them without the tag were run with the unit tests.
INTEGRATION_TESTS = $(shell grep -ohE '^func (Test|Fuzz|Example)[A-Za-z0-9_]*' $(INTEGRATION_FILES) | cut -d' ' -f2 | grep -vx TestMain | paste -sd'|')

# Of the machines of Kubernetes two get both processors when they want them. The one with Kubernetes and Ceph is left to `make volumes`.
KUBERNETES_E2E = TestAClusterOfKubernetesFromTheImageAlone
VOLUMES_E2E    = TestPodsHaveVolumesOfCeph
# Ten packages of Debian on machines; the boots of `make test` have two of them.
APPLIANCES_E2E = TestAppliances
# Clusters of masters, which form and elect; each run of the tests of containers has a network of its own.
MASTERS_NSPAWN = Masters|MembersOfEtcd|OffForAYear|EveryOrderOfPowerForms

# Nodes whose logs are kept, which run in the row that has time for them.
LOGS_NSPAWN = LogsOutlive|ADayWithoutTheStore|SaidAroundAnAlert

# The shipped cluster in parts, of which the other is that of Kubernetes; as a whole it is left to `make shipped`.
SHIPPED_BROKERS = TestTheShippedBrokersOfKafkaAndMQTT

# At most two machines run at a time; meanwhile other tests prepare theirs. The tests themselves say how many begin, and in
# which order (test/e2e/turns_test.go). What they measured is kept in the folder, which the targets below want.
E2E = env SPORE_RESULTS=$(abspath $(OUT)/results) $(GOTEST) $(NOVET) -count=1 -tags e2e -parallel 100 -v

.PHONY: help image boot lint unit test test-units test-lint test-image-beside test-masters test-logs test-masters-beside test-nodes-beside test-services test-foreign test-boots test-nodes test-kubernetes test-brokers test-images kubernetes volumes shipped check soak faults packages appliances pictures bootorder bench benchmarks fuzz corpus generate deps ready clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Without the commit in it: the cache and image.lock tell programs apart by their bytes, and those of two commits may be the same.
bin/spore: FORCE
	@go build -trimpath -buildvcs=false -o bin/spore ./builder

# Once, and only where there are none: whoever wants a passphrase runs spore pki init before, without --plain.
configs.pki: | bin/spore
	@echo "There are no keys for configs/ yet. They are made in configs.pki, without a passphrase: docs/keys.md."
	bin/spore pki init configs --plain

image: bin/spore configs.pki ## build out/spore.img from configs/, and its keys where there are none
	bin/spore build configs -o $(OUT)

boot: image ## boot the image in QEMU as edge-01
	bin/spore boot $(OUT) --node edge-01

check: lint unit ## the fast part: formatting, vet, lint, unit tests

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet -tags 'integration e2e packages' ./...
	$(TOOL) staticcheck -tags 'integration e2e packages' ./...
	cd payloads/spore-rbd && go vet -tags rbd ./... && $(TOOL) -modfile=../../go.mod staticcheck -tags rbd ./...
	cd examples/own-valkey/programs/gateway && go vet ./... && $(TOOL) -modfile=../../../../go.mod staticcheck ./...

# The first of them wait longest. Five packages at a time, with six tests that may run beside each other, wait three
# quarters of theirs.
unit:
	$(GOTEST) $(NOVET) -p 5 -parallel 6 ./test/nodeapi ./builder/vm ./agent/api ./agent/bundle ./builder/customize ./...
	$(GOTEST) -C payloads/spore-rbd $(NOVET) ./...
	$(GOTEST) -C examples/own-valkey/programs/gateway $(NOVET) ./...

# Each stage runs whatever became of those before it. A test that failed runs once more at the end, alone.
test: export SPORE_RUN = $(abspath $(OUT)/run)
test: ready ## everything but the long counts and volumes for pods, with a table of where the time went
	@$(STAGE) begin
# Unit tests wait half of their time; what compiles has it.
	@$(MAKE) --no-print-directory -j3 test-units test-image-beside test-lint
# Beside the boots runs what waits most of its time, in two rows: clusters of containers, and services. The boots yield: they wait
# for conditions, while those clusters have elections with bounds in seconds. What compares with foreign tools has what is left.
	@$(MAKE) --no-print-directory -j4 test-boots test-masters-beside test-nodes-beside test-foreign
# The machines of Kubernetes wait for each other a quarter of the time. Beside the boots, and beside the unit tests, they were tried,
# and all of it took longer: emulators on busy processors take more time for the same work. So one thing alone runs beside them.
	@$(MAKE) --no-print-directory -j2 test-kubernetes test-images
	@$(STAGE) end -limit $(LIMIT) -flaky $(OUT)/results/flaky.md

test-units:
	@$(STAGE) run "unit tests" $(MAKE) --no-print-directory unit

test-lint:
	@$(STAGE) run "lint" nice -n 5 $(MAKE) --no-print-directory lint

test-image-beside:
	@$(STAGE) run "image" nice -n 5 $(MAKE) --no-print-directory image
	@$(STAGE) run "payloads" $(GOTEST) $(NOVET) -count=1 -tags integration -timeout 60m ./test/payloads

test-masters-beside:
	@$(MAKE) --no-print-directory test-masters
	@$(MAKE) --no-print-directory test-services

test-nodes-beside:
	@$(MAKE) --no-print-directory test-nodes
	@$(MAKE) --no-print-directory test-logs
	@$(MAKE) --no-print-directory test-brokers

test-services:
	@$(STAGE) run "services without a machine" $(GOTEST) $(NOVET) -count=1 -tags e2e -timeout 30m ./test/services ./test/dashboard

test-foreign:
	@$(STAGE) run "foreign tools" nice -n 19 $(GOTEST) $(NOVET) -count=1 -tags integration -timeout 40m -run '^($(INTEGRATION_TESTS))$$' $(INTEGRATION)

test-brokers:
	@$(STAGE) run "the shipped brokers" nice -n 10 $(E2E) -timeout 40m -run '$(SHIPPED_BROKERS)' ./test/shipped

test-images:
	@$(STAGE) run "same bytes" nice -n 19 $(GOTEST) $(NOVET) -count=1 -tags integration -timeout 40m ./test/image

test-kubernetes:
	@$(STAGE) run "Kubernetes in QEMU" $(E2E) -timeout 60m -run '$(KUBERNETES_E2E)' ./test/e2e

test-boots:
	@$(STAGE) run "boots in QEMU" nice -n 5 $(E2E) -timeout 60m -skip '$(KUBERNETES_E2E)|$(VOLUMES_E2E)|$(APPLIANCES_E2E)' ./test/e2e

test-masters:
	@$(STAGE) run "several masters" $(GOTEST) $(NOVET) -count=1 -tags e2e -timeout 40m -v -run '$(MASTERS_NSPAWN)' ./test/nspawn

test-logs:
	@$(STAGE) run "logs of several nodes" $(GOTEST) $(NOVET) -count=1 -tags e2e -timeout 40m -v -run '$(LOGS_NSPAWN)' ./test/nspawn

test-nodes:
	@$(STAGE) run "several nodes, conformance" $(GOTEST) $(NOVET) -count=1 -p 1 -tags 'integration e2e' -timeout 40m -v -skip '$(MASTERS_NSPAWN)|$(LOGS_NSPAWN)' \
	    ./test/nspawn ./test/conformance

kubernetes: ## boot the master, a worker and the storage of configs/ in QEMU, master and worker each once more than make test does
	SPORE_SOAK=1 $(E2E) -timeout 90m -run '$(KUBERNETES_E2E)' ./test/e2e

volumes: ## boot a machine with Kubernetes and Ceph in QEMU, whose pods have volumes
	$(E2E) -timeout 90m -run '$(VOLUMES_E2E)' ./test/e2e

shipped: bin/spore ## boot all six machines of configs/, and do with them what README and docs/rehearse.md say
	$(E2E) -timeout 4h ./test/shipped

soak: faults ## the fault matrix, and the long counts: 30 power cuts, 30 kills of flash, ten minutes at a passphrase, 100 of a build, 100 GB over the network boot server, six orders of power of three masters, a master stopped as a whole, a store of metrics of 200 nodes, real faults that alerts tell of, 30 power cuts of nodes whose logs are kept, a day without their store, faults under the pages of a real cluster, 200 nodes that log, 100 million lines, an hour of pages that are opened and closed, and of 50 that stay open
	SPORE_SOAK=30 $(E2E) -timeout 6h -run 'PowerCut|Killed|AskedForOnTheConsole' ./test/e2e
	SPORE_SOAK=1 SPORE_RESULTS=$(abspath $(OUT)/results) go test -count=1 -tags integration -timeout 1h -v -run TwoHundredMachines ./builder/netboot/web
	SPORE_SOAK=100 go test -count=1 -tags integration -timeout 2h -v -run Killed ./test/cache
	SPORE_SOAK=1 go test -count=1 -tags e2e -timeout 2h -v -run 'EveryOrderOfPowerForms|StoppedAsAWhole|AlertsOfRealFaults|LogsOutlive|ADayWithoutTheStore|PagesOfARealCluster' ./test/nspawn
	SPORE_SOAK=1 go test -count=1 -tags e2e -timeout 2h -v -run 'TestPagesThat(AreClosed|StayOpen)' ./test/dashboard
	SPORE_SOAK=1 go test -count=1 -tags e2e -timeout 5h -v -run 'TestTheStoreOfMetricsO(fTwoHundredNodes|nItsDiskAfterAWeek)|TestTheStoreOfLogsUnderTheLoad|TestWhatTheStoreOfLogsTakes|TestARareWord' ./test/services

# A run in which a row ends otherwise leaves the page as it is. What each row saw is kept, so that a run can go on.
FAULTS = all
faults: ## run all rows of the fault matrix, and write docs/faults.md; FAULTS=rest runs those that have not ended as they should
	$(if $(filter rest,$(FAULTS)),,@rm -f $(OUT)/faults.jsonl)
	SPORE_FAULTS=$(FAULTS) SPORE_FAULTS_RECORD=$(abspath $(OUT)/faults.jsonl) SPORE_FAULTS_PAGE=$(abspath docs/faults.md) \
	    $(E2E) -timeout 6h -run '^TestTheFaultMatrix$$' ./test/e2e

packages: ## build 200 packages of Debian, compare each with what mmdebstrap makes of it, and write docs/packages.md; ONLY='nginx redis-server'
	SPORE_PACKAGES='$(ONLY)' go test -count=1 -tags packages -timeout 4h -v -run '^TestPackagesOfTheList$$' ./test/packages
	$(if $(ONLY),,@$(MAKE) --no-print-directory appliances)

appliances: ## boot images with ten packages of Debian in QEMU, and ask each with its own client
	$(E2E) -timeout 60m -run '$(APPLIANCES_E2E)' ./test/e2e

pictures: image ## take the pictures in docs/pictures from a machine in QEMU and from a browser, and draw the one of sizes
	go run ./test/pictures $(OUT)/spore.img docs/pictures
	bin/spore inspect $(OUT)/spore.img --size --svg docs/pictures/size.svg > /dev/null
	SPORE_PICTURES=$(abspath docs/pictures) go test -count=1 -tags e2e -run TestPagesAreForEverybody ./test/dashboard

bootorder: image ## record in QEMU in which order a boot reads the files of the root
	go run ./test/bootorder $(OUT) edge-01 > $(OUT)/order.txt
	mv $(OUT)/order.txt builder/bootorder/order.txt

# A run that leaves something out writes its page beside the caches: that in docs is of a whole one.
bench: PAGE = $(if $(SKIP),$(OUT)/bench,docs)
bench: ## measure builds, boots and updates and write docs/performance.md; ROUNDS=3 FULL=configs SKIP=mkosi,floor,builds,boots,scale,updates,site
	@mkdir -p $(OUT)/bench
	go build -o $(OUT)/bench/bench ./test/bench
	$(OUT)/bench/bench -rounds $(or $(ROUNDS),3) -full '$(FULL)' -skip '$(SKIP)' -work $(OUT)/bench -page $(PAGE)/performance.md -pictures $(PAGE)/pictures

benchmarks: ## Go's benchmarks of single packages
	go test -run '^$$' -bench . ./...

fuzz: ## every fuzz target for FUZZTIME (60s), and FUZZTOTAL at most together; a table at the end
	go run ./test/fuzz -time $(FUZZTIME) -total $(FUZZTOTAL)

corpus: ## keep what make fuzz found: up to 12 small inputs of each target, in testdata
	go run ./test/fuzz -keep 12

generate: ## rewrite generated files (JSON Schemas, references)
	go generate ./...

# The packages of DEPS that are not installed, by name.
MISSING = $$(dpkg-query -W -f '$${db:Status-Status} $${Package}\n' $(DEPS) 2>/dev/null | \
             awk -v all='$(DEPS)' '$$1 == "installed" {has[$$2] = 1} END {n = split(all, want); for (i = 1; i <= n; i++) if (!has[want[i]]) print want[i]}')

deps: ## install what the tests need on Debian 12
	@if [ -n "$(MISSING)" ]; then \
	    sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	    $$sudo apt-get update -q && $$sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -q --no-install-recommends $(DEPS); \
	fi
	@go run ./test/emulator

test test-boots test-kubernetes test-brokers kubernetes volumes shipped soak faults packages appliances: | $(OUT)/results

$(OUT)/results:
	@mkdir -p $@

# What a test would miss after half an hour is missed here within a second. It never asks for a password.
ready:
	@missing="$(MISSING)"; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] || sudo -n true 2>/dev/null; then $(MAKE) --no-print-directory deps; \
	else echo "The tests need these packages:" $$missing; echo "Install them with: make deps"; exit 1; fi
	@go run ./test/emulator

clean: ## remove outputs (the cache stays)
	rm -rf bin $(OUT)

FORCE:
