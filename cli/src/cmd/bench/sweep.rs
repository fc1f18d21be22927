//! `bench sweep`: one workload over a range of settings, or a figure of FAFO's.

use super::{run::RunArgs, scale::scale};
use crate::{
    exit,
    output::{self, Files},
    ui,
};
use clap::{Args, ValueEnum};
use phalanx_lab::{
    bench::sweep::{self, Axis, Over},
    error::Usage,
    model::Capacity,
};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    bench: RunArgs,
    #[command(flatten)]
    capacity: Capacity,
    /// Figure of FAFO's: fafo-3 is throughput by cores, real and modelled as in bench scale; fafo-4 is --alpha by --gamma
    #[arg(long, value_enum, required_unless_present = "axis", conflicts_with = "axis")]
    figure: Option<SweepFigure>,
    /// Flag of `bench run` that takes a number, and its values
    #[arg(long, value_name = "NAME=a,b,c")]
    axis: Option<Axis>,
    /// Write the picture as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// A figure of FAFO's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SweepFigure {
    #[value(name = "fafo-3")]
    Fafo3,
    #[value(name = "fafo-4")]
    Fafo4,
}

impl SweepArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let over = match (self.figure, &self.axis) {
            (Some(SweepFigure::Fafo3), _) => return scale(&self.bench, &self.capacity, self.svg.as_deref()),
            (_, Some(axis)) => Over::Axis(axis.clone()),
            (..) => Over::Fafo4,
        };
        if self.bench.report.is_some() {
            return Err(Usage("a sweep runs one --executor, and writes --json, --csv and --svg".into()).into());
        }
        let (swept, ending) = sweep::run(&self.bench.config(), &over, &ui::open())?;
        let (json, csv, svg) = (self.bench.json.as_deref(), self.bench.csv.as_deref(), self.svg.as_deref());
        output::show(&swept, Files { json, csv, svg })?;
        Ok(exit::code_of_ending(ending))
    }
}
