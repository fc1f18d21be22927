//! Figures of a survey, as a table and as JSON.

use serde_json::{Value, json};

use crate::survey::{Crate, Survey};

const COLUMNS: [&str; 10] =
    ["modules", "circle", "methods", "upward", "source", "code", "tests", "docs", "riddles", "refused"];

/// A figure per column.
fn figures(member: &Crate) -> [usize; 10] {
    [
        member.modules,
        member.circle().len(),
        member.method_circles().first().map_or(0, |(_, files)| files.len()),
        member.upward().len(),
        member.source,
        member.code,
        member.tests,
        member.docs,
        member.openers.len(),
        member.refused.len(),
    ]
}

/// Sums, but for the circles, which are the largest.
fn totals(survey: &Survey) -> [usize; 10] {
    let mut totals = [0; 10];
    for figures in survey.crates.iter().map(figures) {
        for (column, (total, figure)) in totals.iter_mut().zip(figures).enumerate() {
            *total = if (1..3).contains(&column) { (*total).max(figure) } else { *total + figure };
        }
    }
    totals[9] += survey.refused.len();
    totals
}

/// Table with one line per crate. `is_verbose` adds the files of the circles and the upward imports.
pub(crate) fn table(survey: &Survey, is_verbose: bool) -> String {
    let line = |name: &str, figures: [usize; 10]| {
        let columns: String = figures.iter().map(|figure| format!("{figure:>9}")).collect();
        format!("{name:<24}{columns}{:>6.1} %\n", figures[8] as f64 * 100.0 / figures[7].max(1) as f64)
    };
    let mut out = format!("{:<24}{}   share\n", "crate", COLUMNS.map(|column| format!("{column:>9}")).concat());
    out.extend(survey.crates.iter().map(|member| line(&member.member.name, figures(member))));
    out.push_str(&line("(documents)", [0, 0, 0, 0, 0, 0, 0, 0, 0, survey.refused.len()]));
    out.push_str(&line("total", totals(survey)));
    out.push_str(
        "\nmodules: files under src that are no tests. circle: files of the largest import circle. methods: files of one\n\
         type in the largest circle of calls through self. upward: imports of a top-level module declared above. code: source without blank lines and comments. riddles: doc comments that open\n\
         with a pronoun or question word; share: of all doc comments. refused: phrases that the glossary refuses.\n",
    );
    for member in survey.crates.iter().filter(|_| is_verbose) {
        let name = &member.member.name;
        out.extend(member.circle().iter().map(|file| format!("{name}: circle: {}\n", file.display())));
        for (of, files) in member.method_circles() {
            out.extend(files.iter().map(|file| format!("{name}: methods of {of}: {}\n", file.display())));
        }
        let upward = member.upward().into_iter();
        out.extend(upward.map(|(file, line, what)| format!("{name}: upward: {}:{line}: {what}\n", file.display())));
    }
    out
}

/// The table's figures and the files of the circles.
pub(crate) fn json(survey: &Survey) -> String {
    let row = |figures: [usize; 10]| -> Value {
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
