//! `bench sweep`: one workload over a range of settings, or a figure of FAFO's.

use super::{run::RunArgs, scale::scale};
use crate::{
    exit,
    output::{self, Files},
    ui,
};
use clap::{Args, ValueEnum};
use phalanx_lab::{
    bench::sweep::{self, AXIS_HELP, Axis, Over},
    config::heading,
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
    #[arg(long, value_enum, conflicts_with = "axis", help_heading = heading::LOAD)]
    figure: Option<SweepFigure>,
    #[arg(long, value_name = "NAME=a,b,c", help = AXIS_HELP, help_heading = heading::LOAD)]
    axis: Option<Axis>,
    /// Write the picture as SVG
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
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
            (Some(SweepFigure::Fafo4), _) => Over::Fafo4,
            (None, None) => {
                let what =
                    "name what to vary: --axis NAME=a,b,c, as in --axis threads=1,2,4, or --figure fafo-3 or fafo-4";
                return Err(Usage(what.into()).into());
            }
        };
        let (swept, ending) = sweep::run(&self.bench.config(), &over, &ui::measuring())?;
        output::show(&swept, Files { svg: self.svg.as_deref(), ..self.bench.files() })?;
        Ok(exit::code_of_ending(ending))
    }
}
