//! The page of a result: claim, method and repetition. No scripts, no network.
//!
//! The order follows a sceptical reader: claim, scope, command, machine, settings; then the figures, and last a glossary.

mod claim;
mod context;
mod figures;
mod tag;

use super::{
    Claim, Gallery, plots, settled,
    summary::{self, Row},
    svg::{self, Origin, Picture},
    table,
    text::escape,
};
use crate::result::BenchResult;
use tag::{distinct, section, tag};

const STYLE: &str = include_str!("page.css");
const GLOSSARY: &str = include_str!("glossary.html");

/// The page as a file of its own.
pub(crate) fn page(results: &[BenchResult]) -> String {
    let names = summary::names(results);
    let rows = summary::rows(results);
    let mut body = String::from("<h1 class=\"brand\">Phalanx benchmark</h1>\n");
    body.push_str(&claim::claims(results, &names, &rows));
    if !results.is_empty() {
        body.push_str(&context::scope(results, &names));
        body.push_str(&context::commands(results));
        body.push_str(&context::machines(results));
        body.push_str(&context::config(results, &names));
    }
    if !rows.is_empty() {
        body.push_str(&figures::table(&rows));
        let absent = not_drawn(&rows);
        let tps = "A dip is a pause: often the disk, sometimes another program.";
        body.push_str(&figure(&plots::tps(&rows), tps, &absent));
        let stages = "The stages are explained in the words below. “other” is what the process spent outside all stages. \
                      Of small blocks only some are timed, and stand for the rest.";
        body.push_str(&figure(&plots::stages(&rows), stages, &absent));
        let latency = "The figures on the right are the four quantiles in milliseconds, in the order of the legend.";
        body.push_str(&figure(&plots::latency(&rows), latency, &absent));
        body.push_str(&figures::inside(&rows));
        if let Some(lines) = settled::lines(&rows) {
            body.push_str(&section("Over time, and over workers", &tag("pre", &lines)));
        }
    }
    for lines in results.iter().filter_map(table::building) {
        body.push_str(&section("Built blocks", &tag("pre", &lines)));
    }
    body.push_str(GLOSSARY);
    body.push_str(
        "<footer>The same figures for programs: <a href=\"results.json\">results.json</a>. Plots as files: \
         <a href=\"tps.svg\">tps.svg</a>, <a href=\"stages.svg\">stages.svg</a>.</footer>\n",
    );
    document(&format!("Phalanx: {}", names.join(", ")), &body)
}

/// The page of a [`Gallery`]; `files` are beside it.
pub(crate) fn gallery(of: &Gallery<'_>, origin: &Origin, files: &[&str]) -> String {
    let mut body = format!("<h1 class=\"brand\">{}</h1>\n", escape(of.title));
    if let Some(Claim { what, sure }) = &of.claim {
        let warnings = of.pictures.iter().flat_map(|(_, picture)| picture.warnings());
        body.push_str(&claim::sentence(what, &distinct(warnings.chain(&of.doubts)), sure));
    }
    let lines: String = origin.lines().iter().map(|line| tag("pre", line) + "\n").collect();
    body.push_str(&section("Program, machine and command", &lines));
    of.pictures.iter().for_each(|(_, picture)| body.push_str(&figure(picture, "", "")));
    body.push_str(&section("Figures", &paragraphs(of.table)));
    let links: Vec<String> = files.iter().map(|name| format!("<a href=\"{0}\">{0}</a>", escape(name))).collect();
    body.push_str(&format!("<footer>The same as files: {}.</footer>\n", links.join(", ")));
    document(&format!("Phalanx: {}", of.title), &body)
}

/// Text that a command prints: columns stay columns, and prose wraps at the width of the screen.
fn paragraphs(text: &str) -> String {
    let is_prose = |block: &str| block.lines().all(|line| !line.starts_with(' ') && !line.contains("  "));
    let shown = |block: &str| {
        if is_prose(block) {
            return tag("p", &block.lines().collect::<Vec<_>>().join(" ")) + "\n";
        }
        let table = folded(block);
        let wide = if table.lines().any(|line| line.chars().count() > NARROW) { " wide" } else { "" };
        format!("<pre class=\"table{wide}\">{}</pre>\n", escape(&table))
    };
    text.split("\n\n").filter(|block| !block.trim().is_empty()).map(|block| shown(block.trim_matches('\n'))).collect()
}

/// Width of the longest lines of a table that the widest small screen shows, in characters.
const NARROW: usize = 80;

/// Width of a table in a page, in characters.
const TABLE: usize = 132;

/// Lines of at most [`TABLE`] characters, where blanks permit. What is left of a line goes on below, set off from its begin.
fn folded(table: &str) -> String {
    let mut out = String::with_capacity(table.len());
    for line in table.lines() {
        let mut rest = line.to_owned();
        while rest.chars().count() > TABLE {
            let end = rest.char_indices().nth(TABLE).map_or(rest.len(), |(at, _)| at);
            let indent = rest.len() - rest.trim_start().len();
            let Some(blank) = rest[..end].rfind(' ').filter(|blank| *blank > indent) else { break };
            out.push_str(rest[..blank].trim_end());
            out.push('\n');
            rest = format!("{:8}{}", "", rest[blank..].trim_start());
        }
        out.push_str(&rest);
        out.push('\n');
    }
    out
}

/// A whole document.
fn document(title: &str, body: &str) -> String {
    // The policy makes the browser enforce this: no scripts, no network.
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<link rel=\"icon\" href=\"data:,\"/>\n\
         <title>{title}</title>\n<style>\n{STYLE}{plots}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        title = escape(title),
        plots = svg::STYLE,
    )
}

fn figure(picture: &Picture, caption: &str, absent: &str) -> String {
    let (svg, caption) = (picture.inline(), escape(&format!("{caption}{absent}")));
    let caption = if caption.is_empty() { caption } else { format!("<figcaption>{caption}</figcaption>\n") };
    format!("<figure>\n{svg}{caption}</figure>\n")
}

/// Caption for rows that are in no plot; empty if there are none.
fn not_drawn(rows: &[Row<'_>]) -> String {
    let absent: Vec<String> = rows.iter().filter(|row| row.differs()).map(Row::name).collect();
    if absent.is_empty() {
        return String::new();
    }
    format!(" Not drawn, because the results differ from the oracle: {}.", absent.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_beside_a_table_wraps_and_the_table_does_not() {
        let shown = paragraphs("\n        tps\nours     1\n\nWords on\nthe columns.\n\n\nOne < two.\n");
        let wanted = "<pre class=\"table\">        tps\nours     1\n</pre>\n<p>Words on the columns.</p>\n<p>One &lt; two.</p>\n";
        assert_eq!(shown, wanted);
        let row = |width: usize| paragraphs(&format!("a{:>width$}\n", "b"));
        assert!(row(79).contains("\"table\"") && row(80).contains("\"table wide\""));
    }

    #[test]
    fn long_lines_of_a_table_go_on_below_and_no_word_is_lost() {
        let row = format!("{:>60}{:>60}", "a", "b");
        let prose = "word ".repeat(90);
        let unbroken = "x".repeat(300);
        let text = folded(&format!("{row}\n{prose}\n{unbroken}\n"));
        assert!(text.starts_with(&row) && text.contains(&unbroken), "{text}");
        let folds = text.lines().filter(|line| line.contains("word")).collect::<Vec<_>>();
        assert!(folds.len() > 3 && folds.iter().all(|line| line.chars().count() <= TABLE), "{text}");
        assert_eq!(text.split_whitespace().filter(|word| *word == "word").count(), 90);
        assert!(folded(&format!("{:200}end", "")).contains("end"));
    }
}
