//! Context of the figures: scope, commands, machines and settings.

use super::tag::{distinct, section, tag};
use crate::{
    report::{
        summary::plain,
        text::{self, escape},
    },
    result::{BenchResult, Finding, Host, Scope, Verdict},
};

/// Contents of the timer, a column per distinct scope.
pub(super) fn scope(results: &[BenchResult], names: &[String]) -> String {
    let scopes = distinct(results.iter().map(|result| &result.scope));
    let mut body = String::from(
        "<p>Making the transactions, filling the store before the first block, and comparing with sequential revm are never \
         inside. Of the rest:</p>\n<div class=\"scroll\"><table>\n",
    );
    if scopes.len() > 1 {
        body.push_str("<thead>\n<tr><th></th>");
        for scope in &scopes {
            let of =
                results.iter().zip(names).filter(|(result, _)| result.scope == **scope).map(|(_, name)| name.as_str());
            body.push_str(&tag("th", &of.collect::<Vec<_>>().join(", ")));
        }
        body.push_str("</tr>\n</thead>\n");
    }
    body.push_str("<tbody>\n");
    let columns: Vec<_> = scopes.into_iter().map(covered).collect();
    for i in 0..columns.first().map_or(0, |column| column.len()) {
        body.push_str(&format!("<tr>{}", tag("th", columns[0][i].0)));
        for (_, inside, meaning) in columns.iter().map(|column| &column[i]) {
            let (class, sign) = match inside {
                Some(true) => ("in", "✓"),
                Some(false) => ("out", "✗"),
                None => ("plain", "•"),
            };
            body.push_str(&format!("<td><span class=\"{class}\">{sign}</span> {}</td>", escape(meaning)));
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</tbody>\n</table></div>\n");
    section("Contents of the timer", &body)
}

/// Rows of a scope: name, true if it is inside the timer (`None` if that is no question), and meaning.
fn covered(scope: &Scope) -> [(&'static str, Option<bool>, String); 12] {
    let choose = |inside: bool, yes: &str, no: &str| (Some(inside), if inside { yes } else { no }.to_owned());
    let item = |name, (inside, meaning): (Option<bool>, String)| (name, inside, meaning);
    let root = match scope.root_interval_blocks {
        0 => (Some(false), "never made".to_owned()),
        1 => (Some(true), "made after every block".to_owned()),
        n => (Some(true), format!("made after every {} blocks", text::count(n as f64))),
    };
    let durability = match scope.durability.as_str() {
        "none" => (Some(false), "none: a crash may lose everything since the last flush".to_owned()),
        "async" => (Some(true), "async: a commit survives the end of the process, not a power cut".to_owned()),
        "block" => (Some(true), "block: every block is on the disk (fsync) before the next one counts".to_owned()),
        other => (None, other.to_owned()),
    };
    let access = match scope.access_source.as_str() {
        "static" => {
            let rest = "rules, access lists and templates of earlier calls; what none knows is run once beforehand";
            (Some(true), format!("static: {rest}"))
        }
        "rules" => (Some(true), "rules: rules and access lists; what neither knows is run once beforehand".to_owned()),
        "simulate" => (Some(true), "simulate: every transaction is run once beforehand".to_owned()),
        "templates" => (Some(true), "templates: as static, without the rule for tokens".to_owned()),
        "oracle" => (Some(false), "oracle: handed in by the generator, which a real chain does not have".to_owned()),
        other => (None, other.to_owned()),
    };
    let order = match scope.order.as_str() {
        "free" => {
            (Some(true), "free: as a block builder, which may reorder; reordering is inside the timer".to_owned())
        }
        "given" => (None, "given: as a validator, which must keep the order of the block".to_owned()),
        other => (None, other.to_owned()),
    };
    let memory = match scope.touched_gib {
        0 => (Some(true), "mapped by the system on first use".to_owned()),
        gib => (Some(false), format!("{gib} GiB was written to before the timer started")),
    };
    let rules = match scope.disabled_rules.as_slice() {
        [] => (Some(true), "every rule of the chain applied".to_owned()),
        rules => (Some(false), format!("did not apply: {}", rules.join(", "))),
    };
    let timer = match scope.inside_timer.as_slice() {
        [] => (None, "not stated: the result is older than the statement".to_owned()),
        parts => (Some(true), parts.join(", ")),
    };
    [
        item("Inside the timer", timer),
        item("Nonces", choose(scope.nonces, "checked", "not checked")),
        item("Fees", choose(scope.fees, "charged and paid", "not charged")),
        item("Gas limits", choose(scope.gas_limit, "enforced", "not enforced")),
        item("Receipts", choose(scope.receipts, "made, with their root", "not made")),
        item("State root", root),
        item("Durability", durability),
        item(
            "Signatures",
            choose(scope.signatures, "senders recovered from them", "not recovered: senders were known"),
        ),
        item("Access sets", access),
        item("Order", order),
        item("Memory", memory),
        item("Rules", rules),
    ]
}

/// The exact commands.
pub(super) fn commands(results: &[BenchResult]) -> String {
    let commands = distinct(results.iter().map(|result| result.command.as_str()));
    let body: String = commands.into_iter().map(|command| tag("pre", command) + "\n").collect();
    section("Run it again", &body)
}

/// Machine and program, a pair of tables per distinct pair.
pub(super) fn machines(results: &[BenchResult]) -> String {
    // Findings vary from run to run; the machine is the same.
    let plain = |result: &BenchResult| Host { findings: Vec::new(), ..result.host.clone() };
    let pairs = distinct(results.iter().map(|result| (plain(result), &result.tool)));
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| text::NONE.to_owned());
    let list = |values: &[String]| if values.is_empty() { "none".to_owned() } else { values.join(", ") };
    let tables = pairs.into_iter().map(|(host, tool)| {
        let machine = [
            ("Processor", host.cpu.clone()),
            ("Logical cores", host.cores.to_string()),
            ("Memory", text::bytes(host.memory_bytes)),
            ("Disk of the store", or_none(&host.disk)),
            ("Kernel", host.kernel.clone()),
            ("Frequency governor", or_none(&host.governor)),
            ("Huge pages", or_none(&host.thp)),
        ];
        let program = [
            ("Version", tool.version.clone()),
            ("Commit", tool.commit.clone()),
            ("Compiler", tool.rustc.clone()),
            ("Profile", tool.profile.clone()),
            ("Features", list(&tool.features)),
            ("Allocator", tool.allocator.clone()),
        ];
        format!(
            "<div class=\"pair\">\n{}{}</div>\n",
            pairs_table("Machine", &machine),
            pairs_table("Program", &program)
        )
    });
    section("Machine and program", &(tables.collect::<String>() + &noise(results)))
}

/// Name of a finding, and what was found with its remedy.
pub(super) fn remark(finding: &Finding) -> (&str, String) {
    let advice = finding.advice.as_ref().map_or_else(String::new, |advice| format!(": {advice}"));
    (&finding.check, format!("{}{advice}", finding.found))
}

/// Sources of noise that were found before the runs, each once; empty if there are none.
fn noise(results: &[BenchResult]) -> String {
    let findings = distinct(results.iter().flat_map(|result| &result.host.findings));
    let of = |verdict| -> Vec<(&str, String)> {
        findings.iter().filter(|of| of.verdict == verdict).map(|of| remark(of)).collect()
    };
    let table = |title: &str, lines: Vec<(&str, String)>| {
        if lines.is_empty() { String::new() } else { pairs_table(title, &lines) }
    };
    table("Spoils figures", of(Verdict::Spoils)) + &table("To keep in mind", of(Verdict::Note))
}

fn pairs_table(title: &str, pairs: &[(&str, String)]) -> String {
    let rows: String =
        pairs.iter().map(|(name, value)| format!("<tr>{}{}</tr>\n", tag("th", name), tag("td", value))).collect();
    format!("<table>\n{}\n<tbody>\n{rows}</tbody>\n</table>\n", tag("caption", title))
}

/// Every setting; a column per result where results differ.
pub(super) fn config(results: &[BenchResult], names: &[String]) -> String {
    let keys = distinct(results.iter().flat_map(|result| result.config.keys()));
    let mut body =
        String::from("<details>\n<summary>Every flag as resolved</summary>\n<div class=\"scroll\"><table>\n");
    if results.len() > 1 {
        let heads: String = names.iter().map(|name| tag("th", name)).collect();
        body.push_str(&format!("<thead>\n<tr><th></th>{heads}</tr>\n</thead>\n"));
    }
    body.push_str("<tbody>\n");
    for key in keys {
        let values: Vec<String> =
            results.iter().map(|result| result.config.get(key).map_or_else(|| text::NONE.to_owned(), plain)).collect();
        let cells = match values.iter().all(|value| *value == values[0]) {
            true => format!("<td colspan=\"{}\">{}</td>", values.len(), escape(&values[0])),
            false => values.iter().map(|value| tag("td", value)).collect(),
        };
        body.push_str(&format!("<tr>{}{cells}</tr>\n", tag("th", key)));
    }
    body.push_str("</tbody>\n</table></div>\n</details>\n");
    section("Configuration", &body)
}
