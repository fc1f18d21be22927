//! `man`: manual pages, generated from the flags themselves.

use crate::{exit, output};
use anyhow::Context as _;
use clap::{Args, Command};
use std::{fs, path::PathBuf};

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ManArgs {
    pub(super) fn run(&self, command: Command) -> anyhow::Result<u8> {
        if let Some(dir) = &self.dir {
            let writing = || format!("writing manual pages to {}", dir.display());
            fs::create_dir_all(dir).with_context(writing)?;
            clap_mangen::generate_to(command, dir).with_context(writing)?;
            return Ok(exit::OK);
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        output::print(&String::from_utf8(page)?)?;
        Ok(exit::OK)
    }
}
