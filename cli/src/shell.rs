//! What a shell and a manual want to know of the command line, generated from the flags themselves.

use crate::{args::Cli, output};
use anyhow::Context as _;
use clap::CommandFactory as _;
use std::{fs, path::Path};

/// A script that completes commands and flags.
pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "phalanx", &mut script);
    output::print(&String::from_utf8(script)?)
}

/// The page of `phalanx` on stdout, or the pages of all commands in a folder.
pub(crate) fn man(dir: Option<&Path>) -> anyhow::Result<()> {
    if let Some(dir) = dir {
        let writing = || format!("writing manual pages to {}", dir.display());
        fs::create_dir_all(dir).with_context(writing)?;
        return clap_mangen::generate_to(Cli::command(), dir).with_context(writing);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    output::print(&String::from_utf8(page)?)
}
