//! A setting with its figures, and the verdict on many.

use crate::{
    report::rows,
    result::{BenchResult, Ending},
};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// FAFO's grid (§3.2, Figure 4).
pub(super) const ALPHAS: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 0.99];
pub(super) const GAMMAS: [u64; 3] = [100, 1_000, 10_000];

/// Throughput is flat if no cell with enough parallelism is below the best by more than this share.
pub(super) const FLAT: f64 = 0.1;
/// Parallelism that the paper's Figure 4 requires: transactions ÷ critical path.
pub(super) const ENOUGH: f64 = 130.0;

/// A setting and its figures.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Cell {
    /// Value of each axis, by its name.
    #[serde(flatten, serialize_with = "by_name")]
    #[schemars(with = "BTreeMap<&str, f64>")]
    pub(super) at: Vec<(&'static str, f64)>,
    /// Median succeeded transactions per second. Null if a result differs from the oracle's.
    pub(super) tps: Option<f64>,
    /// Lowest and highest rate of the runs. Null for a single run or wrong results.
    pub(super) tps_spread: Option<[f64; 2]>,
    /// Processor time of the process ÷ succeeded transactions, in µs.
    pub(super) us_core_per_tx: f64,
    /// Transactions ÷ frames. Null if nothing was framed.
    pub(super) tlp_frames: Option<f64>,
    /// Transactions ÷ critical path. Null without a DAG.
    pub(super) tlp_dag: Option<f64>,
    /// Mispredicted transactions.
    pub(super) escapes: u64,
    /// `match`, `sampled`, `off` or `mismatch`.
    pub(super) oracle: String,
    /// Scope of the oracle's comparison, or the first difference.
    pub(super) detail: String,
    /// Tags of the runs.
    pub(super) tags: Vec<String>,
}

/// Writes the value of each axis as a field.
fn by_name<S: Serializer>(at: &[(&'static str, f64)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(at.iter().copied())
}

impl Cell {
    pub(super) fn new(at: Vec<(&'static str, f64)>, result: &BenchResult) -> Self {
        let rows = rows(core::slice::from_ref(result));
        let row = &rows[0];
        Self {
            at,
            tps: row.tps(),
            tps_spread: row.spread().map(|(low, high)| [low, high]),
            us_core_per_tx: row.us_core(),
            tlp_frames: row.tlp_frames(),
            tlp_dag: row.tlp_dag(),
            escapes: row.runs.iter().map(|run| run.parallelism.escapes).max().unwrap_or(0),
            oracle: row.oracle().to_owned(),
            detail: row.detail().to_owned(),
            tags: result.tags.clone(),
        }
    }
}

/// Cells up to and including the first that is wrong or interrupted; all, if that happens after the first round.
#[derive(Debug)]
pub(super) struct Swept {
    pub(super) cells: Vec<Cell>,
    pub(super) ending: Ending,
}

impl Swept {
    /// Flatness of a complete sweep; `None` for a sweep that was cut short.
    pub(super) fn judged(&self) -> Option<Judged> {
        if self.ending == Ending::Complete { judge(&self.cells) } else { None }
    }

    /// Warnings that belong into the picture.
    pub(super) fn warnings(&self) -> Vec<String> {
        let cells = |holds: &dyn Fn(&Cell) -> bool| {
            let places: Vec<String> =
                self.cells.iter().filter(|cell| holds(cell)).map(|cell| place(&cell.at)).collect();
            places.join("; ")
        };
        let of_tag =
            |tag: &&str| format!("{}: {}", tag.to_uppercase(), cells(&|cell| cell.tags.iter().any(|own| own == tag)));
        let wrong = cells(&|cell| cell.tps.is_none());
        let wrong = (!wrong.is_empty()).then(|| format!("NOT DRAWN, the results differ from the oracle: {wrong}"));
        let unchecked = self.cells.iter().any(|cell| cell.oracle == "off");
        let unchecked =
            unchecked.then(|| "NOT COMPARED with sequential revm: --oracle full or sampled does".to_owned());
        self.tags().iter().map(of_tag).chain(unchecked).chain(wrong).collect()
    }

    pub(super) fn tags(&self) -> Vec<&str> {
        let mut tags: Vec<&str> = self.cells.iter().flat_map(|cell| &cell.tags).map(String::as_str).collect();
        tags.sort_unstable();
        tags.dedup();
        tags
    }
}

/// A cell by the values of its axes.
pub(super) fn place(at: &[(&'static str, f64)]) -> String {
    at.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// Verdict on the flatness of throughput.
pub(super) struct Judged {
    pub(super) flat: bool,
    /// Number of cells with enough parallelism, and of all.
    pub(super) held: (usize, usize),
    pub(super) worst: usize,
    pub(super) best: usize,
}

/// Judges the cells with enough parallelism; all cells, if none has it.
fn judge(cells: &[Cell]) -> Option<Judged> {
    let holds = |cell: &Cell| cell.tlp_dag.is_some_and(|tlp| tlp >= ENOUGH);
    let held = cells.iter().filter(|cell| holds(cell)).count();
    let tps = |index: &usize| cells[*index].tps.unwrap_or(0.0);
    let counted = |index: &usize| held == 0 || holds(&cells[*index]);
    let by_tps = |a: &usize, b: &usize| tps(a).total_cmp(&tps(b));
    let worst = (0..cells.len()).filter(counted).min_by(by_tps)?;
    let best = (0..cells.len()).filter(counted).max_by(by_tps)?;
    Some(Judged { flat: tps(&worst) >= (1.0 - FLAT) * tps(&best), held: (held, cells.len()), worst, best })
}
