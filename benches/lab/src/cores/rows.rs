//! Rows from what the commands wrote: rates beside the model, and the stage that takes more than it should.

use super::Part;
use crate::result::BenchResult;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A part of the system on a number of cores.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Part of the system.
    pub part: Part,
    /// Cores, each with a worker.
    pub cores: usize,
    /// Transactions per second; of recorded blocks by the sum of their times.
    pub tps: f64,
    /// The same ÷ that of one core times the cores; null where one core was not measured.
    pub of_ideal: Option<f64>,
    /// Processor time per transaction, in µs; of a node that of its process.
    pub us_core_per_tx: f64,
    /// Transactions per second by the model; null without one.
    pub model_tps: Option<f64>,
    /// Measured ÷ model, less one; null without a model.
    pub deviation: Option<f64>,
    /// Stage that takes most beyond what the model has, or one core without a model; null on one core.
    pub stage: Option<Grown>,
}

/// A stage that takes more time than it should.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Grown {
    /// Name of the stage; of a node that of a thread; `waiting` for cores without work.
    pub name: String,
    /// Time of a core beyond what it should take, per transaction, in ns.
    pub ns_per_tx: f64,
}

/// A measurement on some cores; times are nanoseconds of a core per transaction.
#[derive(Clone, Debug)]
struct Measured {
    cores: usize,
    tps: f64,
    cpu_ns: f64,
    stages: Vec<(String, f64)>,
}

impl Measured {
    /// Time of cores that had no work.
    fn waiting(&self) -> f64 {
        (self.cores as f64 * 1e9 / self.tps - self.cpu_ns).max(0.0)
    }

    /// Stages, and what belongs to none.
    fn stages(&self) -> impl Iterator<Item = (&str, f64)> {
        let inside: f64 = self.stages.iter().map(|(_, ns)| ns).sum();
        let stages = self.stages.iter().map(|(name, ns)| (&**name, *ns));
        stages.chain([("outside of the stages", (self.cpu_ns - inside).max(0.0))])
    }
}

/// The model: rates by cores, and the factor by which cores beside each other are slower.
#[derive(Clone, Debug)]
struct Model {
    curve: Vec<(usize, f64)>,
    crowding: f64,
}

impl Model {
    fn of(scale: &Value) -> Option<Self> {
        let points = scale["curve"].as_array()?.iter();
        let curve: Option<Vec<_>> =
            points.map(|point| Some((point["cores"].as_u64()? as usize, point["tps"].as_f64()?))).collect();
        Some(Self { curve: curve?, crowding: scale["crowding"].as_f64()? })
    }

    /// Transactions per second on `cores`: on the line between the two nearest points of the curve.
    fn tps(&self, cores: usize) -> Option<f64> {
        let above = self.curve.iter().position(|(at, _)| *at >= cores)?;
        let (right, most) = self.curve[above];
        if right == cores {
            return Some(most);
        }
        let (left, least) = self.curve[above.checked_sub(1)?];
        Some(least + (most - least) * (cores - left) as f64 / (right - left) as f64)
    }
}

/// Rows of `part` from the output of its commands, each with the cores that it had: of those that ended in time. A model that is
/// missing leaves the rows without one.
///
/// # Errors
/// If an output is not what its command writes, or a result is wrong.
pub fn rows(part: Part, outputs: &[(Option<usize>, Vec<Value>)]) -> Result<Vec<Row>, String> {
    let (mut measured, mut model) = (Vec::new(), None);
    for (cores, values) in outputs {
        match (part, cores, &values[..]) {
            (Part::Blocks, Some(cores), lines) => measured.extend(of_replay(*cores, lines)),
            (Part::Node, Some(cores), [node]) => {
                measured.push(of_node(*cores, node).ok_or("a result of `bench node` without figures")?);
            }
            (_, None, [scale]) if scale.get("curve").is_some() => model = Model::of(scale),
            (_, Some(_), [run]) => measured.extend(of_run(run)?),
            _ => return Err(format!("a command of {} wrote another number of results", part.name())),
        }
    }
    Ok(judged(part, &measured, model.as_ref()))
}

fn of_run(run: &Value) -> Result<Vec<Measured>, String> {
    let result: BenchResult = serde_json::from_value(run.clone()).map_err(|error| error.to_string())?;
    let measured = |run: &crate::result::Run| {
        let throughput = run.throughput.as_ref().ok_or_else(|| run.integrity.detail.clone())?;
        let stages = run.stages_ns_per_tx.named().into_iter().map(|(name, ns)| (name.to_owned(), ns)).collect();
        Ok(Measured { cores: run.threads, tps: throughput.tps, cpu_ns: run.cpu.us_core_per_tx * 1e3, stages })
    };
    result.runs.iter().map(measured).collect()
}

/// All blocks together; none if no block was executed.
fn of_replay(cores: usize, lines: &[Value]) -> Option<Measured> {
    let (mut txs, mut seconds, mut cpu_ns) = (0.0, 0.0, 0.0);
    for line in lines {
        let figure = |name: &str| line[name].as_f64();
        let (Some(of_block), Some(ms), Some(us)) = (figure("txs"), figure("block_ms"), figure("us_core_per_tx")) else {
            continue;
        };
        (txs, seconds, cpu_ns) = (txs + of_block, seconds + ms / 1e3, cpu_ns + us * 1e3 * of_block);
    }
    (txs > 0.0 && seconds > 0.0).then(|| Measured {
        cores,
        tps: txs / seconds,
        cpu_ns: cpu_ns / txs,
        stages: Vec::new(),
    })
}

fn of_node(cores: usize, node: &Value) -> Option<Measured> {
    let run = &node["runs"][0];
    let threads = run["threads"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let stages =
        threads.filter_map(|thread| Some((thread["name"].as_str()?.to_owned(), thread["us_per_tx"].as_f64()? * 1e3)));
    Some(Measured {
        cores,
        tps: run["tps"].as_f64()?,
        cpu_ns: run["node_us_per_tx"].as_f64()? * 1e3,
        stages: stages.collect(),
    })
}

fn judged(part: Part, measured: &[Measured], model: Option<&Model>) -> Vec<Row> {
    let Some(one) = measured.iter().find(|measured| measured.cores == 1) else {
        return measured.iter().map(|measured| row(part, measured, None, model)).collect();
    };
    measured.iter().map(|measured| row(part, measured, Some(one), model)).collect()
}

fn row(part: Part, measured: &Measured, one: Option<&Measured>, model: Option<&Model>) -> Row {
    let Measured { cores, tps, cpu_ns, .. } = *measured;
    let model_tps = model.and_then(|model| model.tps(cores));
    let of_ideal = one.map(|one| tps / (one.tps * cores as f64));
    let stage = one.filter(|one| one.cores != cores).and_then(|one| grown(part, measured, one, model));
    Row {
        part,
        cores,
        tps,
        of_ideal,
        us_core_per_tx: cpu_ns / 1e3,
        model_tps,
        deviation: model_tps.map(|model| tps / model - 1.0),
        stage,
    }
}

/// The stage whose time exceeds that on one core most, slowed down as cores beside each other are.
fn grown(part: Part, measured: &Measured, one: &Measured, model: Option<&Model>) -> Option<Grown> {
    let crowding = model.map_or(1.0, |model| model.crowding);
    let before = |name: &str| one.stages().find(|(of, _)| *of == name).map_or(0.0, |(_, ns)| ns);
    let stages = measured.stages().map(|(name, ns)| (name, ns - before(name) * crowding));
    // By the model, cores wait for the rest of their time.
    let modelled = model.and_then(|model| model.tps(measured.cores));
    let expected =
        modelled.map_or(one.waiting(), |tps| (measured.cores as f64 * 1e9 / tps - one.cpu_ns * crowding).max(0.0));
    // Clients have the cores for which a node does not.
    let waiting = (part != Part::Node).then(|| ("waiting", measured.waiting() - expected));
    let (name, ns_per_tx) = stages.chain(waiting).max_by(|a, b| a.1.total_cmp(&b.1))?;
    (ns_per_tx > 0.0).then(|| Grown { name: name.to_owned(), ns_per_tx })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use serde_json::json;

    fn scale() -> Value {
        json!({ "crowding": 1.1, "curve": [
            { "cores": 1, "tps": 1e6 }, { "cores": 2, "tps": 1.8e6 }, { "cores": 4, "tps": 3.4e6 },
        ] })
    }

    fn measured(cores: usize, tps: f64, stages: &[(&str, f64)]) -> Measured {
        let stages: Vec<_> = stages.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect();
        Measured { cores, tps, cpu_ns: stages.iter().map(|(_, ns)| ns).sum(), stages }
    }

    #[test]
    fn the_model_has_a_rate_between_its_points_and_none_beyond() {
        let model = Model::of(&scale()).expect("a model");
        let tps = [1, 2, 3, 4, 5].map(|cores| model.tps(cores));
        assert_eq!(tps, [Some(1e6), Some(1.8e6), Some(2.6e6), Some(3.4e6), None]);
        assert!(Model::of(&json!({ "curve": 1 })).is_none());
    }

    #[test]
    fn the_stage_that_grew_beyond_the_model_is_named() {
        let one = measured(1, 1e6, &[("execute", 600.0), ("merkle", 400.0)]);
        // Slowed down by a tenth, 1,100 ns would remain: the root has 200 more.
        let two = measured(2, 1.5e6, &[("execute", 650.0), ("merkle", 640.0)]);
        let rows = judged(Part::Native, &[one.clone(), two], Model::of(&scale()).as_ref());
        assert_eq!((rows[0].of_ideal, rows[0].deviation, &rows[0].stage), (Some(1.0), Some(0.0), &None));
        assert!(
            (rows[1].of_ideal.unwrap() - 0.75).abs() < 1e-9 && (rows[1].deviation.unwrap() + 1.0 / 6.0).abs() < 1e-9
        );
        let grown = rows[1].stage.as_ref().expect("a stage");
        assert!(grown.name == "merkle" && (grown.ns_per_tx - 200.0).abs() < 1e-6, "{grown:?}");
        // Cores that wait are named as such; those of a node belong to its clients.
        let idle = measured(2, 1e6, &[("execute", 600.0), ("merkle", 400.0)]);
        let named = |part| judged(part, &[one.clone(), idle.clone()], None)[1].stage.clone().map(|stage| stage.name);
        assert_eq!((named(Part::Root).as_deref(), named(Part::Node)), (Some("waiting"), None));
    }

    #[test]
    fn rows_come_from_what_the_commands_write() {
        let run = fixture::bench("native", &[("dag", 1, 100.0), ("dag", 2, 150.0)]);
        let value = serde_json::to_value(&run).expect("JSON");
        let two = [(Some(1), vec![value]), (None, vec![scale()])];
        let found = rows(Part::Native, &two).expect("rows");
        assert_eq!(found.iter().map(|row| (row.cores, row.tps)).collect::<Vec<_>>(), [(1, 100.0), (2, 150.0)]);
        assert!(found.iter().all(|row| row.model_tps.is_some()));
        let alone = rows(Part::Native, &two[..1]).expect("rows");
        assert!(alone.iter().all(|row| row.model_tps.is_none()), "the model did not end in time");
        let mut wrong = run;
        fixture::spoil(&mut wrong.runs[1]);
        let wrong = serde_json::to_value(&wrong).expect("JSON");
        assert!(rows(Part::Native, &[(Some(1), vec![wrong])]).is_err());
        assert!(
            rows(Part::Native, &[(Some(1), vec![])]).is_err()
                && rows(Part::Node, &[(Some(1), vec![json!({})])]).is_err()
        );
        let line = |txs: u64, ms: f64| json!({ "txs": txs, "block_ms": ms, "us_core_per_tx": 10.0 });
        let blocks = [(Some(1), vec![line(100, 10.0), json!({ "error": "malformed" }), line(300, 30.0)])];
        let found = rows(Part::Blocks, &blocks).expect("rows");
        assert_eq!((found.len(), found[0].tps, found[0].us_core_per_tx), (1, 10_000.0, 10.0));
        let thread = json!({ "name": "worker", "us_per_tx": 7.0 });
        let node = json!({ "runs": [{ "tps": 50.0, "node_us_per_tx": 9.0, "threads": [thread] }] });
        let found = rows(Part::Node, &[(Some(2), vec![node])]).expect("rows");
        assert!(found[0].of_ideal.is_none() && found[0].us_core_per_tx == 9.0, "{found:?}");
    }
}
