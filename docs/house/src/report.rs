//! Figures of a survey, as a table and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::survey::{Crate, Survey};

const COLUMNS: [&str; 9] = ["modules", "circle", "upward", "source", "code", "tests", "docs", "riddles", "refused"];

/// A figure per column.
fn figures(member: &Crate) -> [usize; 9] {
    [
        member.modules,
        member.circle().len(),
        member.upward().len(),
        member.source,
        member.code,
        member.tests,
        member.docs,
        member.openers.len(),
        member.refused.len(),
    ]
}

/// Sums, but for the circle, which is the largest.
fn totals(survey: &Survey) -> [usize; 9] {
    let mut totals = [0; 9];
    for figures in survey.crates.iter().map(figures) {
        for (column, (total, figure)) in totals.iter_mut().zip(figures).enumerate() {
            *total = if column == 1 { (*total).max(figure) } else { *total + figure };
        }
    }
    totals[8] += survey.refused.len();
    totals
}

/// Table with one line per crate. `is_verbose` adds the files of the circles and the upward imports.
pub(crate) fn table(survey: &Survey, is_verbose: bool) -> String {
    let mut out = format!("{:<24}", "crate");
    COLUMNS.iter().for_each(|column| write!(out, "{column:>9}").expect("a string takes it"));
    out.push_str("   share\n");
    let mut line = |name: &str, figures: [usize; 9]| {
        write!(out, "{name:<24}").expect("a string takes it");
        figures.iter().for_each(|figure| write!(out, "{figure:>9}").expect("a string takes it"));
        let share = figures[7] as f64 * 100.0 / figures[6].max(1) as f64;
        writeln!(out, "{share:>6.1} %").expect("a string takes it");
    };
    survey.crates.iter().for_each(|member| line(&member.member.name, figures(member)));
    line("(documents)", [0, 0, 0, 0, 0, 0, 0, 0, survey.refused.len()]);
    line("total", totals(survey));
    out.push_str(
        "\nmodules: files under src that are no tests. circle: files of the largest import circle. upward: imports of a\n\
         top-level module declared above. code: source without blank lines and comments. riddles: doc comments that open\n\
         with a pronoun or question word; share: of all doc comments. refused: phrases that the glossary refuses.\n",
    );
    for member in survey.crates.iter().filter(|_| is_verbose) {
        for file in member.circle() {
            writeln!(out, "{}: circle: {}", member.member.name, file.display()).expect("a string takes it");
        }
        for (file, line, what) in member.upward() {
            writeln!(out, "{}: upward: {}:{line}: {what}", member.member.name, file.display())
                .expect("a string takes it");
        }
    }
    out
}

/// The table's figures and the files of the circles.
pub(crate) fn json(survey: &Survey) -> String {
    let row = |figures: [usize; 9]| -> Value {
        COLUMNS.iter().zip(figures).map(|(column, figure)| ((*column).to_owned(), json!(figure))).collect()
    };
    let member = |member: &Crate| {
        let mut row = row(figures(member));
        row["crate"] = json!(member.member.name);
        row["circle_files"] = json!(member.circle());
        row["share_percent"] = json!((member.share() * 10.0).round() / 10.0);
        row
    };
    let crates: Vec<Value> = survey.crates.iter().map(member).collect();
    let documents = json!({ "refused": survey.refused.len() });
    format!("{:#}\n", json!({ "crates": crates, "documents": documents, "total": row(totals(survey)) }))
}
