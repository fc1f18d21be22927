//! Claims that are older than the code that they measure, by the history of that code.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

/// File of the claims, below the root.
const FILE: &str = "docs/claims.json";

/// A line per claim: how many commits changed its code since it was measured.
///
/// # Errors
/// If the file is malformed.
pub(crate) fn ages(root: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
    let claims: Vec<Value> = serde_json::from_str(&text).context(FILE)?;
    claims.iter().map(|claim| age(root, claim)).collect()
}

fn age(root: &Path, claim: &Value) -> anyhow::Result<String> {
    let word = |name: &str| claim[name].as_str().with_context(|| format!("{FILE}: a claim without {name}"));
    let (name, commit) = (word("name")?, word("commit")?);
    let code = claim["code"].as_array().with_context(|| format!("{FILE}: {name} names no code"))?;
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["rev-list", "--count", &format!("{commit}..HEAD"), "--"])
        .args(code.iter().filter_map(Value::as_str))
        .output()
        .context("cannot run git")?;
    let commits = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(match commits.as_str() {
        _ if !output.status.success() => format!("unknown {name}: this copy has no history back to {commit}"),
        "0" => format!("fresh   {name}: its code is that of {commit}"),
        _ => format!("OLDER   {name}: {commits} commits changed its code since {commit}"),
    })
}
