//! Rows as a table and as JSON.

use super::{Part, Row};
use crate::{
    head::Head,
    report::text,
    written::{self, Named},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

/// Largest deviation from the model, and from ideal without one, that is not remarked on.
const WITHIN: f64 = 0.05;

/// A part, or a command of it, that was not measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Skipped {
    /// Part of the system.
    pub part: Part,
    /// Cores of the command; null if it is the whole part, or the model.
    pub cores: Option<usize>,
    /// Reason.
    pub why: String,
}

/// The output.
#[derive(Serialize, JsonSchema)]
struct Written<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// Time that it had, in minutes.
    minutes: f64,
    /// Parts of the system on each number of cores.
    rows: &'a [Row],
    /// Parts that were not measured, with the reason.
    skipped: &'a [Skipped],
}

/// Schema of what is written.
pub(crate) fn schema() -> Named {
    written::schema::<Written<'_>>("bench-cores", "bench cores --json")
}

/// The findings for programs.
pub fn value(command: &str, minutes: f64, rows: &[Row], skipped: &[Skipped]) -> Value {
    written::value(&Written { head: Head::here(None, command), minutes, rows, skipped })
}

/// The findings as a table, with a sentence per part that is off.
pub fn table(rows: &[Row], skipped: &[Skipped]) -> String {
    let mut out = format!(
        "{:9} {:>5} {:>12} {:>12} {:>9} {:>8} {:>8}\n",
        "part", "cores", "tx/s", "model tx/s", "deviation", "of ideal", "µs·core"
    );
    for row in rows {
        let model = row.model_tps.map_or_else(|| text::NONE.to_owned(), text::count);
        let deviation = row.deviation.map_or_else(|| text::NONE.to_owned(), |off| format!("{:+.1} %", off * 100.0));
        let ideal = row.of_ideal.map_or_else(|| text::NONE.to_owned(), text::percent);
        let (part, cores, tps, us) = (row.part.name(), row.cores, text::count(row.tps), row.us_core_per_tx);
        _ = writeln!(out, "{part:9} {cores:>5} {tps:>12} {model:>12} {deviation:>9} {ideal:>8} {us:>8.2}");
    }
    out.push('\n');
    for row in rows {
        out.extend(remark(row));
    }
    for Skipped { part, cores, why } in skipped {
        let cores = cores.map_or_else(String::new, |cores| format!(" on {}", text::counted(cores, "core")));
        _ = writeln!(out, "Not measured: {}{cores}: {why}.", part.name());
    }
    out
}

/// A sentence on a row that is off the model, or off ideal without one.
fn remark(row: &Row) -> Option<String> {
    let stage = row.stage.as_ref()?;
    let (off, what) = match row.deviation {
        Some(deviation) => (deviation, "the model"),
        None => (row.of_ideal? - 1.0, "ideal"),
    };
    // What is above the model is no fault of a stage.
    (off < -WITHIN).then(|| {
        let (part, cores) = (row.part.name(), text::counted(row.cores, "core"));
        format!(
            "{part} on {cores} is {:.0} % below {what}: most of it is {}, {:.0} ns of a core per transaction.\n",
            -off * 100.0,
            stage.name,
            stage.ns_per_tx
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{super::rows::Grown, *};

    #[test]
    fn what_is_below_the_model_is_named_with_its_stage_and_nothing_else_is() {
        let row = |cores, deviation, of_ideal| Row {
            part: Part::Native,
            cores,
            tps: 1e6,
            of_ideal: Some(of_ideal),
            us_core_per_tx: 1.0,
            model_tps: Some(1e6),
            deviation,
            stage: Some(Grown { name: "merkle".into(), ns_per_tx: 80.0 }),
        };
        let rows = [row(2, Some(-0.2), 0.8), row(4, Some(-0.04), 0.7), row(8, Some(0.3), 0.6), row(16, None, 0.5)];
        let skipped = [Skipped { part: Part::Blocks, cores: Some(1), why: "no time was left".into() }];
        let told = table(&rows, &skipped);
        assert!(told.contains("native on 2 cores is 20 % below the model: most of it is merkle, 80 ns"), "{told}");
        assert!(told.contains("native on 16 cores is 50 % below ideal"), "{told}");
        assert_eq!(told.matches("below").count(), 2, "{told}");
        assert!(told.contains("Not measured: blocks on 1 core: no time was left."), "{told}");
        assert_eq!(value("phalanx bench cores", 8.0, &rows, &skipped)["rows"][0]["part"], "native");
    }
}
