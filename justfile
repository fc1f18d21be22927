# Recipes. `just` lists them. What CI checks are the steps of `.ci/step`, which the recipes call by name; everything else is one
# cargo command. So no `just` is needed. There is one profile, --release: see docs/explanation/0005-one-profile.md.

set shell := ["bash", "-euo", "pipefail", "-c"]

# Lists the recipes.
default:
    @{{ just_executable() }} --list --unsorted

# Builds everything.
build:
    cargo build --release --workspace

# Runs the demo and writes phalanx-report/. `just demo --threads 1` passes flags on.
demo *flags:
    cargo run --release -- demo {{ flags }}

# Tests. `just test -p phalanx-paraframer` tests one crate.
test *args='--workspace':
    cargo test --release {{ args }}

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
dist: (ci "dist" "outside" "semver" "site")

# Builds a `phalanx` that is guided by a profile of itself, and prints its path.
pgo:
    benches/pgo

# Compares instruction counts of the hot kernels with benches/instructions.json. `just count renew` writes that file.
count mode='check':
    cargo bench --workspace --bench instructions -- {{ mode }}

# Model-checks the scheduler's protocols.
loom: (ci "loom")

# viem, ethers and web3.py against a node for development. They come from npm and PyPI.
clients:
    cargo build --release
    node/tests/clients/run "${CARGO_TARGET_DIR:-target}/release/phalanx"

# A foreign state beside the own store, in pairs: `PHALANX_FIXTURES` names the folder with recorded blocks.
bench-foreign threads='2' pairs='15':
    cargo bench -p phalanx-benches --bench foreign -- --threads {{ threads }} --pairs {{ pairs }}

# Searches, sweeps and kills at full length, or the named ones: `just nightly store-kills pbft`. `just nightly list` lists them.
nightly *names:
    .ci/nightly {{ names }}

# Licences, sources and forbidden dependencies.
deny: (ci "deny")

# Known vulnerabilities. Needs the advisory database on GitHub, so it is no step of CI.
advisories:
    cargo deny check advisories

# Layout and words: lists what breaks a rule. `just house report` prints figures per crate.
house *args='check':
    cargo run --release -p phalanx-house -- {{ args }}

# Most of what a pull request must pass; .ci/run is the whole.
pre-pr: (ci "format" "clippy" "docs" "deny" "features" "house" "tests")
