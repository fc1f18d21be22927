//! A modelled workload as table, rows, picture and JSON.

use super::{
    CALL_NS, Capacity, Scaled,
    knee::{self, ENOUGH},
    shape::Part,
};
use crate::{
    config::{RunConfig, word},
    head::Head,
    papers,
    report::{
        Claim,
        svg::{Line, Picture, ratios},
        text,
    },
    written::{self, Named},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// `1 core`, `2 cores`.
fn cores_of(count: usize) -> String {
    if count == 1 { "1 core".to_owned() } else { format!("{count} cores") }
}

impl Scaled {
    pub(super) fn table(&self, capacity: &Capacity) -> String {
        let mut out = format!("{:46} {:>10}\n", "measured on one thread", "ns per tx");
        for (part, ns) in self.parts().into_iter().filter(|(_, ns)| *ns >= 0.05) {
            out.push_str(&format!("{:46} {ns:>10.1}\n", part.name()));
        }
        out.push_str(&format!("\n{:>7} {:>14} {:>14} {:>10}\n", "workers", "real tx/s", "model tx/s", "deviation"));
        for (workers, real, model) in &self.real {
            let deviation = (model / real - 1.0) * 100.0;
            out.push_str(&format!(
                "{workers:>7} {:>14} {:>14} {deviation:>+9.1} %\n",
                text::count(*real),
                text::count(*model)
            ));
        }
        out.push_str(&self.doubt().unwrap_or_else(|| "The model is within 5 % of this machine.".into()));
        out.push('\n');
        out.push_str(&format!("\n{:>7} {:>14} {:>10}\n", "cores", "model tx/s", "of ideal"));
        for (cores, tps) in &self.curve {
            let share = text::percent(self.efficiency(*cores, *tps));
            out.push_str(&format!("{cores:>7} {:>14} {share:>10}\n", text::count(*tps)));
        }
        let ideal = text::percent(ENOUGH);
        out.push_str(&match self.knee() {
            Some(knee) => format!("\nKnee: {}, the most with {ideal} of ideal.", cores_of(knee)),
            None => format!("\nNo knee: {} cores have {ideal} of ideal.", knee::MOST),
        });
        out.push('\n');
        for (cores, causes) in &self.causes {
            out.push_str(&format!("Gain in scaling at {} without\n", cores_of(*cores)));
            for (part, gain) in causes.iter().take(4) {
                out.push_str(&format!("  {:44} {:>+9.0} %\n", part.name(), (gain - 1.0) * 100.0));
            }
        }
        out.push_str(&format!(
            "Assumed: {} GB/s of memory, {} GB/s of disk, {} µs to call all workers, {:.0} ns per transaction to hand it \
             to one of several; several cores slow each other down by {:.1} %, as two engines of one thread do here, and \
             so in the ideal; the writer is one of the cores.\n",
            capacity.memory_gbs,
            capacity.disk_gbs,
            CALL_NS / 1e3,
            self.constants.dispatch_ns,
            (self.constants.crowding - 1.0) * 100.0
        ));
        if self.escapes > 0 {
            out.push_str(&format!("{} escapes are not modelled.\n", self.escapes));
        }
        out
    }

    pub(super) fn csv(&self) -> String {
        let mut out = "cores,model_tps,efficiency,real_tps\n".to_owned();
        for (cores, tps) in &self.curve {
            let real = self.real.iter().find(|(workers, ..)| workers == cores);
            let real = real.map_or_else(String::new, |(_, real, _)| format!("{real:.0}"));
            out.push_str(&format!("{cores},{tps:.0},{:.4},{real}\n", self.efficiency(*cores, *tps)));
        }
        out
    }

    pub(super) fn picture(&self, config: &RunConfig) -> Picture {
        let point = |(cores, tps): &(usize, f64)| (*cores as f64, *tps);
        let model = Line { label: "model".into(), group: 0, points: self.curve.iter().map(point).collect() };
        let points = self.real.iter().map(|(workers, real, _)| (*workers as f64, *real)).collect();
        let real = Line { label: "this machine".into(), group: 1, points };
        let ideal =
            |(cores, _): &(usize, f64)| (*cores as f64, knee::ideal(&self.curve, self.constants.crowding, *cores));
        let points = self.curve.iter().map(ideal).collect();
        let ideal = Line { label: "ideal".into(), group: 2, points };
        let slowed = (self.constants.crowding - 1.0) * 100.0;
        let groups = [
            "model: one thread's costs replayed over the true DAGs".to_owned(),
            "real runs of this machine".to_owned(),
            format!("ideal: one core × cores, slowed by {slowed:.0} % as cores beside each other are here"),
        ];
        let knee = match self.knee() {
            Some(knee) => format!("knee at {}", cores_of(knee)),
            None => format!("no knee up to {}", cores_of(knee::MOST)),
        };
        let doubt = self.doubt();
        let title = match &doubt {
            Some(_) => format!("NOT VALIDATED: throughput by cores, {knee}"),
            None => format!("Throughput by cores: {knee}"),
        };
        // The paper's figure is of loads without contention.
        let workload = word(config.load.workload);
        let papers = papers::published("fafo-table-1", |series| series == workload && config.load.is_uniform());
        let labels = [&title, "transactions per second", "cores"];
        let picture = ratios(labels, &groups, &[model, real, ideal], &papers);
        picture.warned(doubt.as_slice())
    }

    pub(super) fn claim(&self) -> Claim {
        let knee = match self.knee() {
            Some(knee) => format!("{} of ideal is kept up to {}", text::percent(ENOUGH), cores_of(knee)),
            None => {
                format!("{} of ideal is kept up to {}, and may be beyond", text::percent(ENOUGH), cores_of(knee::MOST))
            }
        };
        let most = self.curve.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or((1, 0.0), |point| *point);
        let workers: Vec<String> = self.real.iter().map(|(workers, ..)| workers.to_string()).collect();
        Claim {
            what: format!(
                "A model, not a run: up to {} transactions per second, on {}; {knee}",
                text::count(most.1),
                cores_of(most.0)
            ),
            sure: format!(
                "Off by at most {:.0} % from real runs on {} threads of this machine; results {}.",
                self.deviation() * 100.0,
                workers.join(", "),
                text::compared(self.verdict.0)
            ),
        }
    }

    /// Reason why the model is not validated, for text and picture alike; `None` if it is.
    fn doubt(&self) -> Option<String> {
        match (self.is_compared(), self.validated()) {
            (false, _) => Some("NOT VALIDATED: it was compared with one worker only.".into()),
            (true, true) => None,
            (true, false) => Some(format!(
                "NOT VALIDATED: the model is off by {:.0} % here, more than 5 %; is the machine quiet?",
                self.deviation() * 100.0
            )),
        }
    }

    pub(super) fn value(&self, config: &RunConfig, capacity: &Capacity) -> Value {
        let cores = |at: usize| self.causes.get(at).map(|(cores, _)| *cores);
        let without = |at: usize| self.causes.get(at).map(|(_, causes)| named(causes));
        written::value(&Written {
            head: Head::here(config.store.path(), &config.command),
            config: config.resolved(self.real.last().map_or(1, |(workers, ..)| *workers)),
            integrity: Verdict { oracle: self.verdict.0, detail: &self.verdict.1 },
            parts_ns_per_tx: named(&self.parts()),
            us_core_per_tx: self.cpu_us_per_tx,
            crowding: self.constants.crowding,
            real: self.real.iter().map(Beside::from).collect(),
            validated: self.validated(),
            curve: self.curve.iter().map(|(cores, tps)| self.point(*cores, *tps)).collect(),
            knee: self.knee(),
            beyond: cores(0),
            scales_better_without: without(0),
            half: cores(1),
            scales_better_without_at_half: without(1),
            assumed: Assumed {
                memory_gbs: capacity.memory_gbs,
                disk_gbs: capacity.disk_gbs,
                call_ns: CALL_NS,
                dispatch_ns: self.constants.dispatch_ns,
                write_ns: self.constants.write_ns,
            },
            escapes: self.escapes,
            tags: if self.validated() { Vec::new() } else { vec!["not-validated"] },
        })
    }

    fn point(&self, cores: usize, tps: f64) -> Point {
        Point { cores, tps, efficiency: self.efficiency(cores, tps) }
    }
}

fn named(figures: &[(Part, f64)]) -> Vec<OfPart> {
    figures.iter().map(|(part, figure)| OfPart { part: part.name(), figure: *figure }).collect()
}

/// The output.
#[derive(Serialize, JsonSchema)]
struct Written<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// Every flag as resolved.
    config: Map<String, Value>,
    /// Comparison with the oracle.
    integrity: Verdict<'a>,
    /// Processor time per transaction on one thread by part, in ns.
    parts_ns_per_tx: Vec<OfPart>,
    /// Processor time per transaction of the fastest plain run on one thread, in µs.
    us_core_per_tx: f64,
    /// Factor by which cores beside each other are slower.
    crowding: f64,
    /// Runs of this machine, and the model of them.
    real: Vec<Beside>,
    /// True if the model is within 5 % of several real runs.
    validated: bool,
    /// Rates of the model.
    curve: Vec<Point>,
    /// Most cores with 90 % of ideal. Null without a knee.
    knee: Option<usize>,
    /// Cores beyond the knee, whose causes are listed.
    beyond: Option<usize>,
    /// Factors of the rate at `beyond` cores, if a part cost nothing.
    scales_better_without: Option<Vec<OfPart>>,
    /// Cores beyond half of ideal.
    half: Option<usize>,
    /// Factors of the rate at `half` cores, if a part cost nothing.
    scales_better_without_at_half: Option<Vec<OfPart>>,
    /// Figures that are not measured with the load.
    assumed: Assumed,
    /// Mispredictions, which are not modelled.
    escapes: u64,
    /// Tags: `not-validated`.
    tags: Vec<&'a str>,
}

/// Comparison with the oracle.
#[derive(Serialize, JsonSchema)]
struct Verdict<'a> {
    /// `match`, `sampled` or `off`.
    oracle: &'a str,
    /// Scope of the comparison.
    detail: &'a str,
}

/// A figure of a part of the work.
#[derive(Serialize, JsonSchema)]
struct OfPart {
    /// Name of the part.
    part: &'static str,
    /// The figure.
    figure: f64,
}

/// A real run beside the model of it.
#[derive(Serialize, JsonSchema)]
struct Beside {
    /// Worker threads.
    workers: usize,
    /// Measured transactions per second.
    real_tps: f64,
    /// Modelled transactions per second.
    model_tps: f64,
    /// Model ÷ real, less one.
    deviation: f64,
}

impl From<&(usize, f64, f64)> for Beside {
    fn from((workers, real, model): &(usize, f64, f64)) -> Self {
        Self { workers: *workers, real_tps: *real, model_tps: *model, deviation: model / real - 1.0 }
    }
}

/// A point of the model's curve.
#[derive(Serialize, JsonSchema)]
struct Point {
    /// Cores.
    cores: usize,
    /// Transactions per second.
    tps: f64,
    /// Share of ideal.
    efficiency: f64,
}

/// Figures that are not measured with the load.
#[derive(Serialize, JsonSchema)]
struct Assumed {
    /// Bandwidth of memory, in GB/s.
    memory_gbs: f64,
    /// Bandwidth of the disk, in GB/s.
    disk_gbs: f64,
    /// Time to call all workers, in ns.
    call_ns: f64,
    /// Time to hand a transaction to one of several workers, in ns.
    dispatch_ns: f64,
    /// Writer's time per transaction, in ns.
    write_ns: f64,
}

/// Schema of what is written.
pub(crate) fn schema() -> Named {
    written::schema::<Written<'_>>("bench-scale", "bench scale --json")
}
