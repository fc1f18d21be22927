//! Claims of the documents that this machine can check: each has its commands, and a ratio with the range that holds.
//!
//! What a machine does in absolute figures follows its host, so a claim is a ratio of two figures of one run or of two runs in
//! turns. `docs/claims.json` has the claims. Those of a build are in the program.

use crate::{
    machine::host,
    result::{Host, SCHEMA, Tool},
    written::{self, Named},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;

/// Claims of this build.
const CLAIMS: &str = include_str!("../../../docs/claims.json");

/// Word of a command for a folder of recorded blocks.
const BLOCKS: &str = "{blocks}";

/// A claim, and how it is checked.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name, as in `native`.
    pub name: String,
    /// The claim, as a sentence with `{}` for the ratio.
    pub says: String,
    /// Page and section that have it.
    pub page: String,
    /// Commit that was measured.
    pub commit: String,
    /// Machine that it was measured on.
    pub machine: String,
    /// Ratio that was measured there.
    pub measured: f64,
    /// Folders with the code that the ratio depends on.
    pub code: Vec<String>,
    /// Commands that measure it, each as words after `phalanx`. They write JSON to stdout. `{blocks}` stands for a folder of
    /// recorded blocks.
    pub commands: Vec<Vec<String>>,
    /// JSON pointer to the figure, below the number of its result. `*` stands for all members of an array, whose figures are added.
    pub value: String,
    /// JSON pointer to what it is divided by; absent where the figure is a ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Least and greatest ratio that hold.
    pub range: [f64; 2],
    /// Seconds that its commands take, about.
    pub seconds: u64,
    /// Cores that the claim needs.
    pub cores: usize,
    /// Processor's feature that the claim needs, as Linux names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
}

/// Outcome of a claim on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The ratio is in the range.
    Holds,
    /// The ratio is above the range.
    More,
    /// The ratio is below the range.
    Less,
    /// A command failed, or its result has no such figure.
    Failed,
    /// The claim was not measured.
    Skipped,
}

/// A claim with what was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Checked {
    /// The claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// Ratio on this machine; null if it was not measured.
    pub found: Option<f64>,
    /// Verdict on it.
    pub verdict: Verdict,
    /// Reason for which there is no ratio.
    pub why: Option<String>,
}

/// Claims that were checked, as written.
#[derive(Serialize, JsonSchema)]
struct Written<'a> {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// The program.
    tool: Tool,
    /// The machine.
    host: Host,
    /// Claims in the order of the file.
    claims: &'a [Checked],
}

/// Schema of claims that were checked.
pub(crate) fn schema() -> Named {
    written::schema::<Written<'_>>("claims", "claims --json")
}

/// The claims of this build, in the order of the file.
///
/// # Panics
/// If the file is malformed, which a test excludes.
pub fn claims() -> Vec<Claim> {
    serde_json::from_str(CLAIMS).expect("the file of claims is tested")
}

impl Claim {
    /// Reason not to measure the claim on this machine in `left` seconds, with or without recorded blocks.
    pub fn obstacle(&self, left: u64, has_blocks: bool) -> Option<String> {
        let cores = host::cores();
        if cores < self.cores {
            return Some(format!("needs {} cores, and this process has {cores}", self.cores));
        }
        if let Some(feature) = self.needs.as_deref().filter(|feature| !has_feature(feature)) {
            return Some(format!("needs a processor with {feature}"));
        }
        if self.commands.iter().flatten().any(|word| word == BLOCKS) && !has_blocks {
            return Some("needs recorded blocks: --blocks DIR".into());
        }
        (self.seconds > left).then(|| format!("takes about {} s, and {left} s are left", self.seconds))
    }

    /// The commands, with the folder of recorded blocks in its place.
    pub fn commands_on(&self, blocks: &str) -> Vec<Vec<String>> {
        let named = |word: &String| if word == BLOCKS { blocks.to_owned() } else { word.clone() };
        self.commands.iter().map(|words| words.iter().map(named).collect()).collect()
    }

    /// Verdict on the results of the commands, in their order.
    pub fn judged(self, results: &[Value]) -> Checked {
        let over = self.over.as_ref().map_or(Ok(1.0), |over| figure(results, over));
        let ratio = figure(results, &self.value).and_then(|value| Ok(value / over?));
        match ratio {
            Ok(ratio) if ratio.is_finite() => {
                let [least, most] = self.range;
                let verdict = match () {
                    () if ratio < least => Verdict::Less,
                    () if ratio > most => Verdict::More,
                    () => Verdict::Holds,
                };
                Checked { claim: self, found: Some(ratio), verdict, why: None }
            }
            Ok(_) => self.without(Verdict::Failed, "a figure is zero".into()),
            Err(why) => self.without(Verdict::Failed, why),
        }
    }

    /// The claim without a ratio, for a reason.
    pub const fn without(self, verdict: Verdict, why: String) -> Checked {
        Checked { claim: self, found: None, verdict, why: Some(why) }
    }
}

/// True if this processor has a feature.
fn has_feature(feature: &str) -> bool {
    host::field("/proc/cpuinfo", "flags").is_some_and(|flags| flags.split_whitespace().any(|flag| flag == feature))
}

/// Figure at a pointer whose first part is the number of the result. `*` adds what all members of an array have there.
fn figure(results: &[Value], pointer: &str) -> Result<f64, String> {
    let none = || format!("the result has no number at {pointer}");
    let (first, rest) = pointer.strip_prefix('/').and_then(|rest| rest.split_once('/')).ok_or_else(none)?;
    let parts: Vec<&str> = rest.split('/').collect();
    match first {
        "*" => sum(results, &parts),
        number => number.parse::<usize>().ok().and_then(|number| at(results.get(number)?, &parts)),
    }
    .ok_or_else(none)
}

fn at(value: &Value, parts: &[&str]) -> Option<f64> {
    match (parts, value) {
        ([], value) => value.as_f64(),
        (["*", rest @ ..], Value::Array(members)) => sum(members, rest),
        ([index, rest @ ..], Value::Array(members)) => at(members.get(index.parse::<usize>().ok()?)?, rest),
        ([name, rest @ ..], value) => at(value.get(name)?, rest),
    }
}

fn sum(values: &[Value], parts: &[&str]) -> Option<f64> {
    if values.is_empty() { None } else { values.iter().map(|value| at(value, parts)).sum() }
}

/// The findings for programs.
pub fn value(checked: &[Checked]) -> Value {
    let host = crate::doctor::host(None);
    written::value(&Written { schema: SCHEMA, tool: host::tool(), host, claims: checked })
}

/// The claims as a table: what was measured where, and by which commands.
pub fn list(claims: &[Claim]) -> String {
    let width = claims.iter().map(|claim| claim.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for claim in claims {
        let Claim { name, measured, seconds, machine, commit, page, .. } = claim;
        let range = range(claim);
        _ = writeln!(text, "{name:width$}  {measured:>5.2}  {range:14}  {seconds:>3} s  {machine}, {commit}");
        _ = writeln!(text, "  {}", claim.says.replace("{}", &format!("{measured:.2}")));
        _ = writeln!(text, "  {page}");
        claim.commands.iter().for_each(|words| _ = writeln!(text, "  phalanx {}", words.join(" ")));
    }
    text
}

fn range(claim: &Claim) -> String {
    let [least, most] = claim.range;
    format!("{least:.2} to {most:.2}")
}

/// Table of what was found, with each claim's page. Where a figure is out of its range, the table says what differs between this machine
/// and the one that was measured.
pub fn table(checked: &[Checked]) -> String {
    let width = checked.iter().map(|checked| checked.claim.name.len()).max().unwrap_or(0);
    let mut text = format!("{:7}  {:width$}  {:>6}  {:>10}  holds within\n", "", "", "here", "documented");
    for Checked { claim, found, verdict, why } in checked {
        let here = found.map_or_else(String::new, |found| format!("{found:.2}"));
        let mark = match verdict {
            Verdict::Holds => "holds",
            Verdict::More => "MORE",
            Verdict::Less => "LESS",
            Verdict::Failed => "FAILED",
            Verdict::Skipped => "skipped",
        };
        let (range, documented) = (range(claim), claim.measured);
        _ = writeln!(
            text,
            "{mark:7}  {:width$}  {here:>6}  {documented:>10.2}  {range:14}  {}",
            claim.name, claim.page
        );
        let shown = found.unwrap_or(documented);
        _ = writeln!(text, "{:9}{}", "", claim.says.replace("{}", &format!("{shown:.2}")));
        if let Some(why) = why {
            _ = writeln!(text, "{:9}{why}", "");
        }
    }
    let differ = |checked: &&Checked| matches!(checked.verdict, Verdict::More | Verdict::Less);
    let mut machines: Vec<&str> = checked.iter().filter(differ).map(|checked| &*checked.claim.machine).collect();
    machines.sort_unstable();
    machines.dedup();
    if !machines.is_empty() {
        let (host, notes) = (crate::doctor::host(None), crate::doctor::notes());
        _ = writeln!(text, "\nWhat is out of its range was measured on {}.", machines.join("; "));
        _ = writeln!(text, "This machine: {}, {} cores.", host.cpu, host.cores);
        notes.iter().for_each(|line| _ = writeln!(text, "  {line}"));
        let eight = ["avx512f", "avx512ifma", "avx2"].map(|feature| (feature, has_feature(feature)));
        let missing: Vec<&str> = eight.iter().filter(|(_, has)| !has).map(|(feature, _)| *feature).collect();
        if !missing.is_empty() {
            _ = writeln!(text, "  Without {}, hashes and signatures have fewer lanes.", missing.join(", "));
        }
        if notes.is_empty() && missing.is_empty() {
            text.push_str("  Nothing that `phalanx doctor` looks at differs: the processors do, or the code.\n");
        }
    }
    text
}

/// True if every claim that was measured is in its range: a figure above it misses, too, because its document is wrong then.
pub fn all_hold(checked: &[Checked]) -> bool {
    checked.iter().all(|checked| matches!(checked.verdict, Verdict::Holds | Verdict::Skipped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::HashSet;

    #[test]
    fn the_file_names_each_claim_once_with_a_range_and_a_place_for_the_ratio() {
        let claims = claims();
        let names: HashSet<_> = claims.iter().map(|claim| &claim.name).collect();
        assert!(names.len() == claims.len() && !claims.is_empty());
        for claim in &claims {
            let [least, most] = claim.range;
            assert!(0.0 < least && least < most && claim.says.contains("{}"), "{}", claim.name);
            assert!((least..=most).contains(&claim.measured) && !claim.machine.is_empty(), "{}", claim.name);
            assert!(!claim.code.is_empty() && !claim.commands.is_empty() && claim.seconds > 0, "{}", claim.name);
        }
    }

    fn claim(value: &str) -> Claim {
        Claim { value: value.into(), over: Some("/1/b".into()), range: [2.0, 4.0], ..claims().remove(0) }
    }

    #[test]
    fn a_ratio_is_judged_by_its_range_and_a_missing_figure_fails() {
        let results = |value: f64| [json!({ "a": [value] }), json!({ "b": 2 })];
        let judged = |value| claim("/0/a/0").judged(&results(value));
        let found = [3.9, 4.0, 8.0, 8.1].map(|value| (judged(value).verdict, all_hold(&[judged(value)])));
        let expected = [(Verdict::Less, false), (Verdict::Holds, true), (Verdict::Holds, true), (Verdict::More, false)];
        assert_eq!(found, expected);
        for pointer in ["/0/a/1", "/2/a/0", "a", "", "/0"] {
            let judged = claim(pointer).judged(&results(1.0));
            assert!(judged.why.as_ref().is_some_and(|why| why.contains("no number")), "{pointer}");
            assert!(judged.found.is_none() && !all_hold(&[judged]));
        }
        let zero = claim("/0/a/0").judged(&[json!({ "a": [1] }), json!({ "b": 0 })]);
        assert_eq!((zero.verdict, zero.why.as_deref()), (Verdict::Failed, Some("a figure is zero")));
        assert!(table(&[claim("/0/a/0").judged(&results(9.0))]).contains("MORE"));
    }

    #[test]
    fn stars_add_what_all_members_have() {
        let results = [json!({ "a": [{ "b": 1 }, { "b": 2.5 }], "c": [] }), json!({ "a": [{ "b": 4 }] })];
        let sums = ["/0/a/*/b", "/*/a/0/b", "/*/a/*/b"].map(|pointer| figure(&results, pointer));
        assert_eq!(sums, [Ok(3.5), Ok(5.0), Ok(7.5)]);
        for pointer in ["/0/a/*/d", "/0/c/*", "/0/a/*", "/*/c/0", "/*", "/0/a/2/b"] {
            assert!(figure(&results, pointer).is_err(), "{pointer}");
        }
        assert!(figure(&[], "/*/a").is_err());
    }

    #[test]
    fn a_claim_is_skipped_with_a_reason() {
        let long = Claim { seconds: 9, cores: 1, ..claim("/0/a") };
        assert_eq!(long.obstacle(9, false), None);
        assert_eq!(long.obstacle(8, false).as_deref(), Some("takes about 9 s, and 8 s are left"));
        let wide = Claim { cores: 1 << 20, ..long.clone() };
        assert!(wide.obstacle(9, false).is_some_and(|why| why.starts_with("needs 1048576 cores")));
        let odd = Claim { needs: Some("no-such-feature".into()), ..long.clone() };
        assert_eq!(odd.obstacle(9, false).as_deref(), Some("needs a processor with no-such-feature"));
        let recorded = Claim { commands: vec![vec!["replay".into(), BLOCKS.into()]], ..long };
        assert!(recorded.obstacle(9, false).is_some_and(|why| why.contains("--blocks")));
        assert_eq!(recorded.obstacle(9, true), None);
        assert_eq!(recorded.commands_on("f"), [["replay", "f"]]);
    }
}
