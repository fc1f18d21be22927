//! `doctor`: sources of benchmark noise on this machine.

mod judge;
mod facts;
mod handover;
mod woken;

use crate::{
    error::Usage,
    machine::host,
    result::{Finding, Host, SCHEMA, Verdict},
    written::{self, Named},
};
use facts::Facts;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// Findings about the machine and the build.
#[derive(Debug)]
pub struct Health(Vec<Finding>);

/// Examines the machine; writes a temporary file to `dir`.
///
/// # Errors
/// If `dir` is no folder.
pub fn examine(dir: &Path) -> Result<Health, Usage> {
    if !facts::is_dir(dir) {
        return Err(Usage(format!("{} is no folder", dir.display())));
    }
    Ok(Health(judge::judge(&Facts::read(dir))))
}

/// Notes the load of the machine before this process adds to it: results say what was found then.
pub fn note_load() {
    facts::load();
}

/// This machine for a result, with every finding that needs no experiment: an experiment would warm caches and memory that the run
/// is to find cold. `store` is the folder of the state, if on disk.
pub fn host(store: Option<&Path>) -> Host {
    Host { findings: judge::judge(&Facts::told(store)), ..host::host(store) }
}

/// Findings that make figures of this machine mean little, each with its remedy.
pub fn spoils() -> Vec<String> {
    let lines = lines(|verdict| verdict == Verdict::Spoils);
    lines.into_iter().map(|line| format!("The machine is unfit: {line}.")).collect()
}

/// Findings that a machine for measurements has not: those that spoil them, and those by which figures of machines differ.
pub fn notes() -> Vec<String> {
    lines(|verdict| verdict != Verdict::Fine)
}

fn lines(wanted: impl Fn(Verdict) -> bool) -> Vec<String> {
    let findings = host(None).findings.into_iter().filter(|finding| wanted(finding.verdict));
    let line = |Finding { check, found, advice, .. }: Finding| {
        let advice = advice.map_or_else(String::new, |advice| format!(": {advice}"));
        format!("{check} {found}{advice}")
    };
    findings.map(line).collect()
}

/// The findings, as written.
#[derive(Serialize, JsonSchema)]
struct Examined<'a> {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// True if no finding spoils a measurement.
    fit: bool,
    /// Facts and their verdicts.
    findings: &'a [Finding],
}

/// Schema of the findings.
pub(crate) fn schema() -> Named {
    written::schema::<Examined<'_>>("doctor", "doctor --json")
}

impl Health {
    /// True if no finding spoils a measurement.
    pub fn is_fit(&self) -> bool {
        self.0.iter().all(|finding| finding.verdict != Verdict::Spoils)
    }

    /// The findings for programs.
    pub fn value(&self) -> Value {
        written::value(&Examined { schema: SCHEMA, fit: self.is_fit(), findings: &self.0 })
    }

    /// The findings as a table.
    pub fn table(&self) -> String {
        table(&self.0, self.is_fit())
    }
}

fn table(findings: &[Finding], fit: bool) -> String {
    let mut text = String::new();
    for Finding { check, verdict, found, advice } in findings {
        let mark = match verdict {
            Verdict::Fine => "ok",
            Verdict::Note => "note",
            Verdict::Spoils => "SPOILS",
        };
        text.push_str(&format!("{mark:6}  {check:17} {found}\n"));
        if let Some(advice) = advice {
            text.push_str(&format!("{:26}{advice}\n", ""));
        }
    }
    text.push_str(if fit {
        "\nNothing here spoils a measurement.\n"
    } else {
        "\nFigures of this machine mean little in its present condition.\n"
    });
    text
}
