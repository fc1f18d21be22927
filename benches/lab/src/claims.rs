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
    /// Folders with the code that the ratio depends on.
    pub code: Vec<String>,
    /// Commands that measure it, each as words after `phalanx`. They write JSON to stdout.
    pub commands: Vec<Vec<String>>,
    /// JSON pointer to the figure, below the number of its command.
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
    /// Reason not to measure the claim on this machine in `left` seconds.
    pub fn obstacle(&self, left: u64) -> Option<String> {
        let cores = host::cores();
        if cores < self.cores {
            return Some(format!("needs {} cores, and this process has {cores}", self.cores));
        }
        (self.seconds > left).then(|| format!("takes about {} s, and {left} s are left", self.seconds))
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

/// Figure at a pointer whose first part is the number of the result.
fn figure(results: &[Value], pointer: &str) -> Result<f64, String> {
    let found = pointer.strip_prefix('/').and_then(|rest| {
        let (number, rest) = rest.split_once('/')?;
        results.get(number.parse::<usize>().ok()?)?.pointer(&format!("/{rest}"))?.as_f64()
    });
    found.ok_or_else(|| format!("the result has no number at {pointer}"))
}

/// The findings for programs.
pub fn value(checked: &[Checked]) -> Value {
    let host = crate::doctor::host(None);
    written::value(&Written { schema: SCHEMA, tool: host::tool(), host, claims: checked })
}

/// What was found as a table, with each claim's page, and with what spoils measurements of this machine.
pub fn table(checked: &[Checked]) -> String {
    let width = checked.iter().map(|checked| checked.claim.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Checked { claim, found, verdict, why } in checked {
        let [least, most] = claim.range;
        let found = found.map_or_else(String::new, |found| format!("{found:.2}"));
        let mark = match verdict {
            Verdict::Holds => "holds",
            Verdict::More => "MORE",
            Verdict::Less => "LESS",
            Verdict::Failed => "FAILED",
            Verdict::Skipped => "skipped",
        };
        let range = format!("{least:.2} to {most:.2}");
        _ = writeln!(text, "{mark:7}  {:width$}  {found:>6}  {range:14}  {}", claim.name, claim.page);
        _ = writeln!(text, "{:9}{}", "", claim.says.replace("{}", &range));
        if let Some(why) = why {
            _ = writeln!(text, "{:9}{why}", "");
        }
    }
    let differ = checked.iter().any(|checked| matches!(checked.verdict, Verdict::More | Verdict::Less));
    if differ {
        text.push_str(
            "\nRanges are of two virtual cores with AVX-512. What this machine lacks or does beside moves them:\n",
        );
        let spoils = crate::doctor::spoils();
        spoils.iter().for_each(|line| _ = writeln!(text, "  {line}"));
        if spoils.is_empty() {
            text.push_str(
                "  nothing that `phalanx doctor` looks at: this is a difference of processors or of the code\n",
            );
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
    fn a_claim_is_skipped_with_a_reason() {
        let long = Claim { seconds: 9, cores: 1, ..claim("/0/a") };
        assert_eq!(long.obstacle(9), None);
        assert_eq!(long.obstacle(8).as_deref(), Some("takes about 9 s, and 8 s are left"));
        let wide = Claim { cores: 1 << 20, ..long };
        assert!(wide.obstacle(9).is_some_and(|why| why.starts_with("needs 1048576 cores")));
    }
}
