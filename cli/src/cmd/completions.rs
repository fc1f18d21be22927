//! `completions`: a script that completes commands and flags, generated from the flags themselves.

use crate::{exit, output};
use clap::{Args, Command};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Name of the shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

impl CompletionsArgs {
    pub(super) fn run(&self, command: &mut Command) -> anyhow::Result<u8> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, "phalanx", &mut script);
        output::print(&String::from_utf8(script)?)?;
        Ok(exit::OK)
    }
}
