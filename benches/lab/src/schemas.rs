//! Schemas of all that the laboratory writes.

use crate::{
    bench, claims, compare, cores, doctor, model,
    result::{BenchResult, Tool},
    written::{Named, schema},
};

/// Schemas of all that the laboratory writes, by command.
pub fn all() -> Vec<Named> {
    let mut all = vec![
        schema::<BenchResult>("bench-run", "bench run --json, bench build --json"),
        schema::<Vec<BenchResult>>("demo", "demo --json; results.json of every --report of results"),
    ];
    all.extend(bench::schemas());
    all.extend([model::schema(), compare::schema(), doctor::schema(), claims::schema(), cores::schema()]);
    all.push(schema::<Tool>("version", "version --json"));
    all
}
