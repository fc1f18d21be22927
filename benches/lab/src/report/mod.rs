//! Results for people: a table for a terminal, and a folder with a page and plots.
//!
//! ```text
//! &[BenchResult] ─► rows ─┬─► table  text for a terminal
//!                         ├─► plots ─► svg
//!                         └─► html   page with the plots inside
//! ```
//!
//! All but [`write()`] are pure functions of the results. A row whose results differ from the oracle's has no figures anywhere:
//! a fast wrong answer is no measurement.

mod gallery;
mod html;
mod plots;
mod settled;
mod summary;
pub mod svg;
pub(crate) mod table;
pub mod text;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

pub use gallery::{Claim, Gallery};
pub(crate) use summary::rows;
pub use table::{csv, table};

use crate::{machine::temporary, result::BenchResult};
use serde_json::Value;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A measurement in every form that a command shows.
#[derive(Clone, Debug)]
pub struct Output {
    /// For programs.
    pub value: Value,
    /// The result in a sentence, for the page.
    pub claim: Option<Claim>,
    /// For a terminal.
    pub text: String,
    /// A row per point, if there are points.
    pub csv: Option<String>,
    /// The picture, if there is one.
    pub picture: Option<svg::Picture>,
}

/// Writes `index.html`, `results.json`, `tps.svg` and `stages.svg` into `dir`, which is made if it is missing.
///
/// The page needs none of the other files, no network and no scripts. Returns what was written, the page first.
///
/// # Errors
/// When the folder cannot be made or a file cannot be written; files written before that stay.
pub fn write(dir: &Path, results: &[BenchResult]) -> io::Result<Vec<PathBuf>> {
    let (rows, origin) = (summary::rows(results), svg::Origin::of(results));
    let files = [
        ("index.html", html::page(results)),
        ("results.json", serde_json::to_string_pretty(results)? + "\n"),
        ("tps.svg", plots::tps(&rows).standalone(&origin)),
        ("stages.svg", plots::stages(&rows).standalone(&origin)),
    ];
    fs::create_dir_all(dir)?;
    files
        .into_iter()
        .map(|(name, content)| {
            let path = dir.join(name);
            temporary::write_whole(&path, content.as_bytes())?;
            Ok(path)
        })
        .collect()
}
