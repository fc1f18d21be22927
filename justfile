# Recipes. `just` lists them; CI calls those that begin with `ci-`. Each is one cargo command, so no `just` is needed.
# There is one profile, --release: see docs/explanation/0005-one-profile.md.

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

# Format and lints, as CI checks them.
lint: ci-fmt ci-clippy

# Documentation as CI checks it: every link resolves, nothing public is undocumented.
docs: ci-docs

# Documentation of the workspace, in a browser.
doc:
    cargo doc --release --workspace --no-deps --open

# Benchmarks whose name contains NAME: `just bench push`. All of them without it.
bench name='':
    cargo bench --workspace --bench '*' -- {{ name }}

# Builds a `phalanx` that is guided by a profile of itself, and prints where it is.
pgo:
    benches/pgo

# Instruction counts of the hot kernels against benches/instructions.json, as CI checks them: `just count renew` writes it.
count mode='check':
    cargo bench --workspace --bench instructions -- {{ mode }}

# Model-checks the scheduler's two hand-made protocols.
loom:
    RUSTFLAGS="--cfg loom" cargo test --release -p phalanx-parascheduler --test loom --target-dir target/loom

# Licences, advisories, sources and forbidden arrows (needs cargo-deny).
deny:
    cargo deny check

# Layout and words: lists what breaks a rule. `just house report` prints figures per crate.
house *args='check':
    cargo run --release -p phalanx-house -- {{ args }}

# What a pull request must pass.
pre-pr: ci-fmt ci-clippy ci-docs ci-test

ci-fmt:
    cargo fmt --all --check

ci-clippy:
    cargo clippy --release --workspace --all-targets -- -D warnings

ci-docs:
    RUSTDOCFLAGS=-Dwarnings cargo doc --release --workspace --no-deps

ci-test:
    cargo test --release --workspace

# The C++-free build keeps working.
ci-test-quick:
    cargo test --release --workspace --no-default-features
