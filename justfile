# Recipes. `just` lists them. What CI checks are the steps of `.ci/step`, which the recipes call by name; everything else is one
# cargo command. So no `just` is needed. There is one profile, --release: see docs/explanation/0005-one-profile.md.

set shell := ["bash", "-euo", "pipefail", "-c"]

# Lists the recipes.
default:
    @{{ just_executable() }} --list --unsorted

# Builds everything; RocksDB's C++ takes ten to fifteen minutes the first time.
build:
    cargo build --release --workspace

# Runs the demo on RocksDB and writes phalanx-report/. `just demo --threads 1` passes flags on.
demo *flags:
    cargo run --release -- demo {{ flags }}

# The demo without C++: ready minutes after cloning.
demo-quick *flags:
    cargo run --release --no-default-features -- demo {{ flags }}

# Tests. `just test -p phalanx-paraframer` tests one crate.
test *args='--workspace':
    cargo test --release {{ args }}

# All tests that need no RocksDB, without building it.
test-quick:
    cargo test --release --workspace --no-default-features

# Formats the code.
fmt:
    cargo fmt --all

# Steps of CI by name: `just ci format clippy`. Lists them without a name.
ci *steps:
    .ci/step {{ steps }}

# Format and lints.
lint: (ci "format" "clippy")

# Documentation: every link resolves, every public item is documented.
docs: (ci "docs")

# Quotes of snippets and help in docs/, written anew from the code.
renew-docs:
    PHALANX_RENEW_DOCS=1 cargo test --release -p phalanx-cli --test it docs::

# Documentation of the workspace, in a browser.
doc:
    cargo doc --release --workspace --no-deps --open

# Benchmarks whose name contains NAME: `just bench push`. All of them without it.
bench name='':
    cargo bench --workspace --bench '*' -- {{ name }}

# The command without line tables, within its size budget; its components; packages of all crates that others need, and what
# their next version may be called.
dist: (ci "dist" "sbom" "packages" "semver")

# Builds a `phalanx` that is guided by a profile of itself, and prints its path.
pgo:
    benches/pgo

# Every fault of every file of a store, this many more anywhere per file, and blocks that imitate records, cut at 200 places.
damage faults='200':
    PHALANX_DAMAGES={{ faults }} PHALANX_CUTS=200 PHALANX_DAMAGE_TABLE=1 \
        cargo test --release -p phalanx-merkle --test it -- damage:: forge:: --nocapture

# A thousand kills per backend, and blocks beside which readers open the store.
store-nightly kills='2000' blocks='10000':
    PHALANX_KILLS={{ kills }} PHALANX_BLOCKS={{ blocks }} \
        cargo test --release -p phalanx-merkle --test it -- kill:: crash:: reading:: beside:: --nocapture

# Ten thousand worlds of hosts with crashes, cuts and losses; so many kill -9 of real replicas; mutated frames.
replicas-nightly worlds='10000' kills='50' frames='100000':
    PHALANX_WORLDS={{ worlds }} cargo test --release -p phalanx-host --test it -- random_crashes --nocapture
    PHALANX_WORLDS={{ worlds }} cargo test --release -p phalanx-bft --test it -- rounds::safety::random_worlds --nocapture
    PHALANX_KILLS={{ kills }} cargo test --release -p phalanx-cli --test it -- net::kills --nocapture
    PHALANX_FUZZ={{ frames }} cargo test --release -p phalanx-net --lib -- mutated_frames --nocapture

# Compares instruction counts of the hot kernels with benches/instructions.json. `just count renew` writes that file.
count mode='check':
    cargo bench --workspace --bench instructions -- {{ mode }}

# Model-checks the scheduler's protocols.
loom: (ci "loom")

# Ten minutes of the fuzzer of engines that live on, its seeded faults, and long chains. For the night.
fuzz-nightly seconds='600':
    PHALANX_FUZZ_SECONDS={{ seconds }} .ci/step fuzz
    .ci/step faults
    {{ just_executable() }} flat

# Memory of engines with 1, 2, 8 and 32 threads over so many blocks, honest and hostile.
flat blocks='100000':
    PHALANX_FLAT_BLOCKS={{ blocks }} cargo test --release -p phalanx --test it fuzz::flat -- --nocapture

# viem, ethers and web3.py against a node for development. They come from npm and PyPI.
clients:
    cargo build --release
    node/tests/clients/run "${CARGO_TARGET_DIR:-target}/release/phalanx"

# Kills of a node while it makes blocks, every length of a torn segment, every byte of a store.
node-nightly kills='1000':
    PHALANX_KILLS={{ kills }} PHALANX_STRIDE=1 PHALANX_DAMAGES=2000 PHALANX_ODD=500 \
        cargo test --release -p phalanx-node --test it -- --nocapture

# An engine as a node's foundation, at length: kills at commits with a sink, readers beside blocks, commits with a long history.
engine-nightly kills='120' blocks='2000' history='8192':
    PHALANX_KILLS={{ kills }} PHALANX_VIEW_BLOCKS={{ blocks }} PHALANX_HISTORY={{ history }} \
        cargo test --release -p phalanx --test it -- node:: --nocapture
    PHALANX_RULES_SEEDS=50 cargo test --release -p phalanx --test it -- chain_rules:: --nocapture

# A foreign state beside the own store, in pairs: `PHALANX_FIXTURES` names the folder with recorded blocks.
bench-foreign threads='2' pairs='15':
    cargo bench -p phalanx-benches --bench foreign -- --threads {{ threads }} --pairs {{ pairs }}

# Scripted CometBFTs that die at random, kills of a node in the middle of calls, and kills in a network of four validators.
validators-nightly kills='1000' scripts='100000':
    PHALANX_SCRIPTS={{ scripts }} cargo test --release -p phalanx-abci --test it -- deaths:: --nocapture
    PHALANX_KILLS={{ kills }} cargo test --release -p phalanx-node --test it -- ordered::kills --nocapture
    PHALANX_KILLS={{ kills }} cargo test --release -p phalanx-cli --test it -- localnet:: --nocapture

# Licences, sources and forbidden dependencies.
deny: (ci "deny")

# Known vulnerabilities. Needs the advisory database on GitHub, so it is no step of CI.
advisories:
    cargo deny check advisories

# Layout and words: lists what breaks a rule. `just house report` prints figures per crate.
house *args='check':
    cargo run --release -p phalanx-house -- {{ args }}

# What a pull request must pass.
pre-pr: (ci "format" "clippy" "docs" "deny" "tests")
