//! `doctor`: what on this machine spoils a measurement.

mod facts;
mod handover;
mod judge;
mod woken;

use crate::{
    args::DoctorArgs,
    exit::{self, Usage},
    output,
    result::SCHEMA,
};
use facts::Facts;
use judge::{Finding, Verdict};
use serde_json::json;
use std::path::Path;

/// Looks around, says what was found, and gives the exit code.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<u8> {
    if !facts::is_dir(&args.dir) {
        return Err(Usage(format!("{} is no folder", args.dir.display())).into());
    }
    let findings = judge::judge(&Facts::read(&args.dir));
    let fit = findings.iter().all(|finding| finding.verdict != Verdict::Spoils);
    if args.json {
        output::json(Path::new("-"), &json!({ "schema": SCHEMA, "fit": fit, "findings": findings }))?;
    } else {
        output::print(&table(&findings, fit))?;
    }
    Ok(if args.strict && !fit { exit::UNFIT } else { exit::OK })
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
        "\nFigures from this machine, as it is now, mean little.\n"
    });
    text
}
