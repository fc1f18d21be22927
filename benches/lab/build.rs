//! Sets commit, compiler and profile of the build as environment variables.

use std::{env, process::Command};

fn run(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Suffix of a build that a profile guides, or that is instrumented to make one.
fn guided() -> &'static str {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    match flags {
        flags if flags.contains("profile-generate") => "+instrumented",
        flags if flags.contains("profile-use") => "+pgo",
        _ => "",
    }
}

fn main() {
    let commit = run("git", &["rev-parse", "--short=12", "HEAD"]).map(|commit| {
        let dirty = run("git", &["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| !s.is_empty());
        if dirty { commit + "-dirty" } else { commit }
    });
    let rustc = run(&env::var("RUSTC").unwrap_or_else(|_| "rustc".into()), &["--version"]);
    println!("cargo::rustc-env=PHALANX_COMMIT={}", commit.unwrap_or_else(|| "unknown".into()));
    println!("cargo::rustc-env=PHALANX_RUSTC={}", rustc.unwrap_or_else(|| "unknown".into()));
    println!(
        "cargo::rustc-env=PHALANX_PROFILE={}{}",
        env::var("PROFILE").unwrap_or_else(|_| "unknown".into()),
        guided()
    );
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/index");
}
