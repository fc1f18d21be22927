//! Rows of the result, and the verdict on each.

use super::run::{Cost, Role};
use schemars::JsonSchema;
use serde::Serialize;

/// Work that a time is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reference {
    /// Sequential execution of the same list.
    List,
    /// The same, or sequential execution of as many full blocks, whichever takes longer.
    Block,
}

/// A row of the result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    /// Name of the list.
    case: &'static str,
    /// Role of the engine.
    role: Role,
    /// `dag`, `block-stm` or `access-list`.
    executor: &'static str,
    /// Worker threads.
    threads: usize,
    /// Transactions in the blocks.
    txs: usize,
    /// Gas that the valid blocks used.
    gas: u64,
    /// `match` or `mismatch`.
    oracle: &'static str,
    /// The first difference from sequential revm.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Figures; none beside a wrong result.
    figures: Option<Figures>,
    /// Highest factor of the processor time.
    bound: f64,
    /// True if the results match and the factor is within the bound.
    holds: bool,
}

/// Times and factors of a row.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
struct Figures {
    #[serde(flatten)]
    cost: Cost,
    /// Work that the time is compared with.
    reference: Reference,
    /// Processor time of the reference, in s.
    reference_cpu_s: f64,
    /// Wall time of the reference, in s.
    reference_wall_s: f64,
    /// `cpu_s` ÷ `reference_cpu_s`.
    cpu_factor: f64,
    /// `wall_s` ÷ `reference_wall_s`.
    wall_factor: f64,
}

impl Row {
    pub(super) fn new(
        case: &'static str,
        (role, executor, threads): (Role, &'static str, usize),
        (txs, gas): (usize, u64),
        cost: Cost,
        (reference, against): (Reference, Cost),
        bound: f64,
        detail: Option<String>,
    ) -> Self {
        let figures = Figures {
            cost,
            reference,
            reference_cpu_s: against.cpu_s,
            reference_wall_s: against.wall_s,
            cpu_factor: cost.cpu_s / against.cpu_s,
            wall_factor: cost.wall_s / against.wall_s,
        };
        let figures = detail.is_none().then_some(figures);
        let holds = figures.is_some_and(|figures| figures.cpu_factor <= bound);
        let oracle = if detail.is_none() { "match" } else { "mismatch" };
        Self { case, role, executor, threads, txs, gas, oracle, detail, figures, bound, holds }
    }

    /// True if the results are right, and the factor of the processor time is within the bound.
    pub(super) const fn holds(&self) -> bool {
        self.holds
    }
}

/// Table of the rows, with a line about each that does not hold.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<18} {:<9} {:<11} {:>7} {:>8} {:>10} {:>8} {:>8} {:>6}\n",
        "case", "role", "executor", "threads", "Mgas", "cpu ms", "cpu", "wall", "bound"
    );
    for row in rows {
        let Row { case, role, executor, threads, gas, bound, .. } = row;
        let role = match role {
            Role::Validator => "validator",
            Role::Builder => "builder",
            Role::Planner => "planner",
        };
        text.push_str(&format!("{case:<18} {role:<9} {executor:<11} {threads:>7} {:>8.2} ", *gas as f64 / 1e6));
        match row.figures {
            Some(Figures { cost, cpu_factor, wall_factor, .. }) => {
                let cpu_ms = cost.cpu_s * 1e3;
                text.push_str(&format!("{cpu_ms:>10.2} {cpu_factor:>7.2}× {wall_factor:>7.2}× {bound:>5.1}×"));
            }
            None => text.push_str("— (results differ from the oracle)"),
        }
        text.push_str(if row.holds { "\n" } else { "  broken\n" });
    }
    let broken: Vec<&Row> = rows.iter().filter(|row| !row.holds).collect();
    text.push_str(&format!("\n{} of {} bounds hold.\n", rows.len() - broken.len(), rows.len()));
    for row in broken {
        if let Some(detail) = &row.detail {
            let Row { case, executor, threads, .. } = row;
            text.push_str(&format!("{case} on {executor}, {threads} threads: {detail}\n"));
        }
    }
    text.push_str(
        "Factors of sequential execution: of the same list for a validator, of as much gas as fits for the others.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cpu_s: f64, detail: Option<&str>) -> Row {
        let (cost, against) = (Cost { cpu_s, wall_s: 9.0 }, Cost { cpu_s: 1.0, wall_s: 3.0 });
        let variant = (Role::Validator, "dag", 2);
        Row::new("a", variant, (1, 21_000), cost, (Reference::List, against), 2.0, detail.map(str::to_owned))
    }

    #[test]
    fn the_verdict_follows_from_the_processor_time() {
        assert!(row(2.0, None).holds() && !row(2.01, None).holds());
        let text = table(&[row(2.0, None), row(2.5, None)]);
        assert!(text.contains("1 of 2 bounds hold.") && text.contains("2.50×    3.00×   2.0×  broken"), "{text}");
    }

    #[test]
    fn a_wrong_result_has_no_figures() {
        let wrong = row(0.5, Some("block 1: another root"));
        assert!(!wrong.holds());
        let value = serde_json::to_value(&wrong).expect("JSON");
        assert_eq!((&value["figures"], &value["oracle"]), (&serde_json::Value::Null, &"mismatch".into()));
        let text = table(&[wrong]);
        assert!(text.contains("results differ") && text.contains("block 1: another root"), "{text}");
    }
}
