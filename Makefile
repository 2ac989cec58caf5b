# SPDX-License-Identifier: MIT OR Apache-2.0
# `make run` measures this machine, `make test` tests everything; the others are for developers.

COREHOP := target/release/corehop
STATIC  := target/x86_64-unknown-linux-gnu/release/corehop
BENCH   := cargo bench --locked -p corehop-benches
VENV    := .venv
PYTHON  := $(VENV)/bin/python
PREFIX  ?= /usr/local

.PHONY: run install uninstall toolchain test test-deep soundness mutants deploy-live models stress fuzz kills bench bench-servers bench-place bench-programs bench-regret repeat dist release lab bpf lint docs clean

## Build, measure this host for some minutes, print the table and where the report lies.
run: build
	@mkdir -p out && rm -f out/quick*.part
	$(COREHOP) measure platform --force -o out/quick-platform.toml
	$(COREHOP) measure access-time       --preset quick --force -o out/quick-access.parquet
	$(COREHOP) measure preemption-length --preset quick --force -o out/quick-length.parquet
	$(COREHOP) measure synthetic         --preset quick --force -o out/quick.parquet
	@echo "The report: file://$(CURDIR)/out/quick.html"
	$(COREHOP) report out/quick.parquet out/quick-access.parquet out/quick-length.parquet \
	    out/quick-platform.toml --table screen --force -o out/quick.html

## Install the program, its man pages and its completions for bash, zsh and fish below PREFIX (DESTDIR is put before it).
## `sudo make install` often finds no cargo: then the program that `make build` made before is installed.
install: $(if $(and $(wildcard $(COREHOP)),$(if $(shell command -v cargo),,absent)),,build)
	@packaging/install.sh $(COREHOP) "$(DESTDIR)$(PREFIX)"

uninstall:
	@packaging/uninstall.sh "$(DESTDIR)$(PREFIX)"

toolchain:
	@packaging/toolchain.sh

.PHONY: build shim
build: shim
	cargo build --release --locked -p corehop

## The library that `corehop offload` preloads, which the program carries.
shim: toolchain
	cargo shim

## Everything: format and lints, Rust, the static binary in an empty chroot, a current kernel with eight CPUs in an emulator, the
## Python package, the report and the documentation site in a headless browser. Tests, program, extension and the off-load library
## have one profile, that of what is shipped; the static binary is the second compilation, and digests of simulations are compared
## in a small unoptimised one.
test: shim lint
	tests/rust.py
	cargo test --release --locked --doc
	CARGO_PROFILE_DEV_OPT_LEVEL=0 cargo test --locked -p corehop-sim --test simulated_digests
	$(MAKE) --no-print-directory models
	crates/corehop-switch/tests/sanitize.sh
	tests/dist.sh $(STATIC)
	tests/install.sh $(CURDIR)/$(STATIC)
	tests/lab.sh $(STATIC)
	COREHOP_BINARY=$(CURDIR)/$(STATIC) tests/python.sh $(VENV)
	$(MAKE) --no-print-directory docs
	tests/browser.sh $(VENV)

## `make test`, and then what takes hours: all studies by their numbers, more plans by their digests, ten times the calls under
## the sanitizers, 50,000 sets for each scheduler, a hundred million core switches, 200 faults planted.
test-deep: test
	cargo test --release --locked -p corehop-decide --test outcomes -- --ignored
	cargo test --release --locked -p corehop-sim --test simulated_digests -- --ignored
	cargo test --release --locked -p corehop-decide --lib -- --ignored
	crates/corehop-switch/tests/sanitize.sh 200000
	$(MAKE) --no-print-directory soundness stress mutants

## 50,000 random sets for each scheduler: none that a test accepts with delays and overheads charged misses where
## victims pay, or in a cache of blocks, nor where caches, a CPU for releases or the set say on which CPUs, nor with deadlines beyond
## periods. A table has the share of sets with costs that global tests accept, of those that 25 simulations do not refute. `make
## test` asks some hundreds. Then 200 pairs of 40 equal simulated results: at most 17
## raise a false alarm in `compare`. Then absences in some of the sets of the caches against all of them, by 20 seeds on three
## machines.
soundness:
	COREHOP_SOUNDNESS_SETS=50000 cargo test --release --locked -p corehop-sched -p corehop-decide -p corehop-repeat --test sched --test alarms --test repeated -- soundness pairs supply --nocapture
	cargo test --release --locked -p corehop-sim --test sampled -- --include-ignored --nocapture

## Do the tests bite? N small faults, drawn with a SEED: each is switched on and the tests that reach the fault run. Prints the
## share caught and each survivor; results in out/mutants.jsonl, so that a run that is interrupted goes on. ONLY=crates/x/src/y
## asks for one crate or folder, OWN=1 only for the tests of the crates with faults. See tools/mutants/README.md.
N    ?= 200
SEED ?= 1
mutants:
	cargo run --locked -p corehop-mutants -- -n $(N) --seed $(SEED) $(if $(ONLY),--only $(ONLY)) $(if $(OWN),--own-tests)

## The hand-offs of core switching in every order of their steps (loom), and whether planted faults are found.
models:
	RUSTFLAGS="--cfg loom" cargo test --release --locked -p corehop-switch --lib --target-dir target/loom models

## A hundred million polling calls and a million by each other mechanism, with a payload that is verified: some five
## minutes. Then a user namespace in a thousand programs under `offload`. (`make test` asks some thousands, and a hundred.)
stress:
	cargo build --release --locked -p corehop-switch
	crates/corehop-switch/install.sh target/release $(CURDIR)/target/stress
	cc -O2 -Icrates/corehop-switch/include crates/corehop-switch/tests/c/calls.c -Ltarget/stress/lib -lcorehop_switch \
	    -Wl,-rpath,$(CURDIR)/target/stress/lib -o target/stress/calls
	target/stress/calls 1000000 100000000
	COREHOP_CHILDREN=1000 cargo test --release --locked -p corehop --test offload -- user_namespace

## 100,000 hostile files and command lines through the release binary, each within 3 GiB and 20 s of processor time, on
## all CPUs: up to some hours. Findings are printed with their seed; COREHOP_SEED=N begins there. (`make test` runs
## 1,000, and gives the readers 100,000 changed files in one process.)
fuzz: build
	COREHOP_FUZZ=$${COREHOP_FUZZ:-100000} COREHOP_BINARY=$(CURDIR)/$(COREHOP) \
	    cargo test --locked -p corehop --test hostile -- no_hostile --nocapture

## Every verb, three signals, twenty random instants each: it ends within a second. Then a hundred kills at random
## instants, two runs at once: rows lost and settings left behind are counted.
## (Root; changes cpusets for seconds, and puts them back.)
kills: build
	tests/kills.py $(COREHOP) 100

## Random sets, deployed on this host under fixed priorities and under SCHED_DEADLINE, idle and beside loads: the jobs that take
## longer than their bounds are counted, with the cause of each. Some four hours; a run that is interrupted goes on.
## (Root; changes cpusets for minutes, and puts them back.)
deploy-live: build
	tests/deploy-live.py $(COREHOP) out/deploy-live

## Benchmarks, each beside a peer or a physical limit, into out/bench.json: some twenty minutes where nothing else runs.
## (`cargo bench -p corehop-benches --bench suite -- out/bench.json --whole` simulates the published experiments in full.)
bench: build
	@mkdir -p out
	$(BENCH) --bench suite -- $(CURDIR)/out/bench.json
	$(BENCH) --bench sim -- $(CURDIR)/out/bench.json
	$(BENCH) --bench place -- $(CURDIR)/out/bench.json --short
	$(BENCH) --bench switch -- $(CURDIR)/out/bench.json

## Real servers, unmodified and off-loaded, into out/bench.json: some eighteen minutes. Debian packages are unpacked below
## target/servers; nothing is installed, and no service is started.
bench-servers: build
	@mkdir -p out
	$(BENCH) --bench servers -- $(CURDIR)/out/bench.json

## Placing: the time of a decision, the cost of watching, known pairs, and real programs left to the placer and placed from
## the worse side, into out/bench.json: at most 25 minutes. The packages are those of `make bench-servers`.
bench-place: build
	@mkdir -p out
	$(BENCH) --bench place -- $(CURDIR)/out/bench.json

## No regret: twelve programs beside a placer, left alone and in both static placements, quiet and beside programs that fill a CPU:
## some seven hours. A run that is interrupted goes on with the rows that it has.
ROWS ?= $(CURDIR)/data/regret.jsonl
bench-regret: build
	@mkdir -p out
	$(BENCH) --bench place -- $(CURDIR)/out/bench.json --regret=$(ROWS)

## Events caused in programs of a known working set, against the synthetic method, into out/bench.json: some twelve minutes.
bench-programs: build
	@mkdir -p out
	$(BENCH) --bench programs -- $(CURDIR)/out/bench.json

## Five quick runs, one after the other: does the next run land in the interval of this one? Into out/bench.json.
repeat: build
	@mkdir -p out && rm -f out/repeat-*.part
	$(BENCH) --bench repeat -- $(CURDIR)/out/bench.json

## A binary that runs on a machine with nothing installed: dist/corehop. (Its random numbers come from
## the system call, as an initramfs may have no /dev.)
dist: shim
	RUSTFLAGS='-C target-feature=+crt-static --cfg getrandom_backend="linux_getrandom"' cargo build --release --locked \
	    --target x86_64-unknown-linux-gnu -p corehop
	mkdir -p dist && cp $(STATIC) dist/corehop

## A release with the version in Cargo.toml, in out/release: the static program, the abi3 wheel and the Debian package with it, an
## SBOM (CycloneDX), the licences of all dependencies, and checksums. Then everything is unpacked, installed and run.
release: dist
	packaging/release.py $(STATIC) out/release
	packaging/release.py --check out/release

## A current Debian kernel with eight CPUs, two packages and two NUMA nodes in an emulator, and the program in it.
lab: dist
	tests/lab.sh $(STATIC)

## Compile the BPF programs after a change of crates/corehop-linux/bpf (needs clang and llvm-strip); commit the objects.
bpf:
	COREHOP_UPDATE_BPF=1 cargo test --release --locked -p corehop-linux --test bpf_objects

## Format, lints, links, and the prose of README.md, docs/ and the help texts (a linter that npm fetches, see tests/prose.py).
lint: toolchain
	tests/prose.py
	cargo fmt --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked -p corehop-shim --features preload -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

## The documentation site with its search, in out/docs; every link of the site is followed. (mdBook is built once, below target/.)
docs: toolchain
	packaging/site.py

clean:
	rm -rf target out dist python/corehop.data $(VENV)
