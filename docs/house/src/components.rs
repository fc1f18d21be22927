//! List of the components of the command (SBOM) in CycloneDX 1.5, from `cargo metadata` and `Cargo.lock`. Pure: what cargo printed
//! goes in, JSON comes out.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use regex::Regex;
use serde_json::{Value, json};

/// Components of the package `name`: everything that is linked into it or runs at its build; crates for tests alone are left out.
///
/// # Errors
/// If `metadata` is not what `cargo metadata --format-version 1` prints, or does not have the package.
pub(crate) fn components(metadata: &Value, lock: &str, name: &str) -> anyhow::Result<Value> {
    let list =
        |at: &str| metadata.pointer(at).and_then(Value::as_array).with_context(|| format!("no {at} in the metadata"));
    let packages: BTreeMap<&str, &Value> =
        list("/packages")?.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes: BTreeMap<&str, &Value> =
        list("/resolve/nodes")?.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let root = packages.iter().find(|(_, package)| package["name"] == name);
    let (root, _) = root.with_context(|| format!("the metadata has no package {name}"))?;

    let (mut seen, mut open) = (BTreeSet::from([*root]), vec![*root]);
    while let Some(id) = open.pop() {
        open.extend(dependencies(nodes.get(id).copied()).filter(|id| seen.insert(*id)));
    }
    let sums = checksums(lock)?;
    let described = |id: &&str| component(packages.get(*id).copied().unwrap_or(&Value::Null), &sums);
    let parts: Vec<Value> = seen.iter().filter(|id| *id != root).map(described).collect();
    let links = seen.iter().map(|id| {
        let on: Vec<String> = dependencies(nodes.get(id).copied()).map(|id| purl(packages.get(id).copied())).collect();
        json!({ "ref": purl(packages.get(id).copied()), "dependsOn": on })
    });
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": described(root) },
        "components": parts, "dependencies": links.collect::<Vec<_>>(),
    }))
}

/// Packages that a package needs but for its tests.
fn dependencies(node: Option<&Value>) -> impl Iterator<Item = &str> {
    let deps = node.and_then(|node| node["deps"].as_array()).into_iter().flatten();
    let is_needed =
        |dep: &&Value| dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"));
    deps.filter(is_needed).filter_map(|dep| dep["pkg"].as_str())
}

/// Checksums by name and version.
fn checksums(lock: &str) -> anyhow::Result<BTreeMap<(String, String), String>> {
    let entry = Regex::new(r#"name = "([^"]+)"\nversion = "([^"]+)"\nsource = "[^"]+"\nchecksum = "([0-9a-f]{64})""#)?;
    let sums = entry.captures_iter(lock).map(|found| ((found[1].to_owned(), found[2].to_owned()), found[3].to_owned()));
    Ok(sums.collect())
}

/// Name of a package among all kinds of packages.
fn purl(package: Option<&Value>) -> String {
    let text = |field: &str| package.and_then(|package| package[field].as_str()).unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

fn component(package: &Value, sums: &BTreeMap<(String, String), String>) -> Value {
    let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
    let mut component = json!({
        "type": "library", "bom-ref": purl(Some(package)), "purl": purl(Some(package)),
        "name": text("name"), "version": text("version"),
    });
    if let Some(license) = package["license"].as_str() {
        // Before SPDX, a slash stood for `OR`.
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    if let Some(sum) = sums.get(&(text("name"), text("version"))) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_linked_is_listed_and_tests_are_not() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let packages: Vec<Value> = ["cli", "lib", "build", "deep", "tests", "other"].map(package).into();
        let dep = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "cli", "deps": [dep("lib", Value::Null), dep("build", json!("build")), dep("tests", json!("dev"))] },
                { "id": "lib", "deps": [dep("deep", Value::Null)] }, { "id": "build", "deps": [] },
                { "id": "deep", "deps": [] }, { "id": "tests", "deps": [dep("other", Value::Null)] },
            ] },
        });
        let sum = "ab".repeat(32);
        let lock =
            format!("[[package]]\nname = \"deep\"\nversion = \"1.0.0\"\nsource = \"registry\"\nchecksum = \"{sum}\"\n");
        let listed = components(&metadata, &lock, "cli").expect("a list");
        let names: Vec<_> =
            listed["components"].as_array().expect("parts").iter().map(|part| part["name"].clone()).collect();
        assert_eq!(names, ["build", "deep", "lib"]);
        assert_eq!(listed["metadata"]["component"]["purl"], "pkg:cargo/cli@1.0.0");
        assert_eq!(listed["components"][1]["hashes"][0]["content"], sum);
        assert_eq!(listed["components"][2]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        let links = listed["dependencies"].as_array().expect("links");
        assert_eq!(links[1]["dependsOn"], json!(["pkg:cargo/lib@1.0.0", "pkg:cargo/build@1.0.0"]));
        assert!(components(&metadata, "", "nothing").is_err() && components(&json!({}), "", "cli").is_err());
    }
}
