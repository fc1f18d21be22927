//! Instruction counts of the hot kernels under callgrind: the same on a busy machine as on a quiet one.
//!
//! ```text
//! cargo bench --workspace --bench instructions                 counts, as gungraun prints them
//! cargo bench --workspace --bench instructions -- check        fails if a kernel is 10 % over instructions.json
//! cargo bench --workspace --bench instructions -- renew        writes instructions.json
//! ```
//!
//! Always with `--workspace`: it decides the features of dependencies, and with them their counts.
//!
//! Valgrind reports neither AVX-512 nor the SHA instructions, so that kernels which choose at run time take the path of
//! a processor with AVX2. An AVX-512 kernel is not covered, and a count is not a time.

mod kernels;

use phalanx_benches::{Counts, Verdict};
use std::{
    env, fs, io,
    process::{Command, ExitCode, Stdio},
};

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json");

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let done = match env::args().nth(1).as_deref() {
        Some("check") => check(),
        Some("renew") => renew(),
        // Running all benches, or building them as tests, must not require these programs.
        first if first != Some("--gungraun-run") && !(has("gungraun-runner") && has("valgrind")) => {
            println!("instructions: skipped without valgrind and gungraun-runner, see CONTRIBUTING.md");
            Ok(true)
        }
        _ => {
            kernels::run();
            Ok(true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if no kernel costs more than its limit.
fn check() -> Result<bool> {
    let expected: Counts = serde_json::from_str(&fs::read_to_string(BASELINE)?)?;
    let counts = count()?;
    let changes = expected.compare(&counts);
    for change in &changes {
        println!("{change}");
    }
    if expected.made_by != counts.made_by {
        println!("not judged: these are counts of {}, and the baseline's of {}", counts.made_by, expected.made_by);
        return Ok(true);
    }
    let fails = changes.iter().filter(|change| change.verdict.fails()).count();
    if fails > 0 {
        println!(
            "{fails} of {} kernels failed; if that is meant to be: `.. --bench instructions -- renew`",
            changes.len()
        );
    } else if changes.iter().any(|change| change.verdict == Verdict::Less) {
        println!("a kernel got cheaper: `.. --bench instructions -- renew` keeps it so");
    }
    Ok(fails == 0)
}

fn renew() -> Result<bool> {
    if ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"].iter().any(|flags| env::var_os(flags).is_some()) {
        return Err("the baseline is of the project's own flags: renew it without RUSTFLAGS".into());
    }
    let counts = count()?;
    fs::write(BASELINE, serde_json::to_string_pretty(&counts)? + "\n")?;
    println!("{} counts of {} in {BASELINE}", counts.counts.len(), counts.made_by);
    Ok(true)
}

/// Counts all kernels, two at a time, which changes no count.
fn count() -> Result<Counts> {
    let mut gungraun = Command::new(env::current_exe()?);
    // Without the flag that cargo gives benches, gungraun runs as a test and counts nothing.
    gungraun.args(["--bench", "--output-format=json", "--parallel=2"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let out = gungraun.output()?;
    if !out.status.success() {
        return Err("gungraun failed: are valgrind and gungraun-runner installed? CONTRIBUTING.md says how".into());
    }
    Ok(Counts::from_gungraun(made_by()?, &String::from_utf8(out.stdout)?)?)
}

/// Environment that decides the instructions of a kernel, besides its code.
fn made_by() -> Result<String> {
    let rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV").output()?;
    let rustc = String::from_utf8(rustc.stdout)?;
    let field = |name| rustc.lines().find_map(|line| line.strip_prefix(name)).ok_or("rustc -vV tells no version");
    #[cfg(target_arch = "x86_64")]
    let vectors = if std::arch::is_x86_feature_detected!("avx2") { "AVX2" } else { "no AVX2" };
    #[cfg(not(target_arch = "x86_64"))]
    let vectors = "its vectors";
    Ok(format!("rustc {}, {}, {vectors}", field("release: ")?, field("host: ")?))
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
