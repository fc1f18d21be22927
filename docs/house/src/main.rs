//! Measures the workspace and holds it to its rules; reads files and changes none.
//!
//! `report` prints figures per crate, `check` lists what breaks a rule. `tree.rs` parses a crate, `arrows.rs` resolves its
//! imports and calls between files, `prose.rs` reads its words, and `check.rs` holds the rules.

mod check;
mod claims;
mod components;
mod report;
mod survey;
mod arrows;
mod tree;
mod methods;
mod attributes;
mod prose;
mod workspace;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures the workspace and holds it to its rules.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints modules, import circles, lines and words per crate.
    Report {
        /// Prints JSON instead of a table.
        #[arg(long)]
        json: bool,
        /// Lists the files of each crate's largest import circle, and its upward imports.
        #[arg(long)]
        verbose: bool,
        /// Folder of the workspace.
        #[arg(default_value = ".")]
        root: PathBuf,
    },
    /// Lists every place that breaks a rule; exit code 1 if there is one.
    Check {
        /// Checks the commits of this range as well: `origin/main..HEAD`.
        #[arg(long, value_name = "RANGE")]
        commits: Option<String>,
        /// Lists only places below these folders.
        #[arg(long, value_name = "FOLDER")]
        only: Vec<PathBuf>,
        /// Folder of the workspace.
        #[arg(default_value = ".")]
        root: PathBuf,
    },
    /// Marks the claims of the documents that are older than the code that they measure.
    Claims {
        /// Folder of the workspace.
        #[arg(default_value = ".")]
        root: PathBuf,
    },
    /// Prints the components of a package in CycloneDX 1.5. Reads what `cargo metadata --format-version 1` prints from stdin.
    Components {
        /// Name of the package.
        #[arg(long, default_value = "phalanx-cli")]
        package: String,
        /// Folder of the workspace.
        #[arg(default_value = ".")]
        root: PathBuf,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    match Args::parse().command {
        Command::Components { package, root } => {
            let metadata = serde_json::from_reader(std::io::stdin().lock())?;
            let lock = std::fs::read_to_string(root.join("Cargo.lock"))?;
            println!("{:#}", components::components(&metadata, &lock, &package)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Claims { root } => {
            claims::ages(&root)?.iter().for_each(|line| println!("{line}"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Report { json, verbose, root } => {
            let survey = survey::survey(&root)?;
            print!("{}", if json { report::json(&survey) } else { report::table(&survey, verbose) });
            Ok(ExitCode::SUCCESS)
        }
        Command::Check { commits, only, root } => {
            let mut findings = check::check(&root, &survey::survey(&root)?)?;
            if let Some(range) = commits {
                findings.extend(check::commits(&root, &range)?);
            }
            findings.retain(|finding| only.is_empty() || only.iter().any(|folder| finding.file.starts_with(folder)));
            findings.iter().for_each(|finding| println!("{finding}"));
            eprintln!("{} findings", findings.len());
            Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}
