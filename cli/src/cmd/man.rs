//! `man`: manual pages, generated from the flags themselves.

use crate::{exit, output};
use anyhow::Context as _;
use clap::{Args, Command};
use std::{fmt::Write as _, fs, path::PathBuf};

/// Worked examples, for the page of the whole command.
const EXAMPLES: [(&str, &str); 4] = [
    ("phalanx demo", "Two workloads through every stage, with a page of plots."),
    ("phalanx bench run --workload erc20 --accounts 2^20 --txs 1M --report out", "A million token transfers."),
    ("phalanx bench compare --preset abc", "Sequential revm, one thread and two, in turns."),
    ("phalanx doctor", "Sources of noise on this machine."),
];

/// Head of the section of exit codes.
const EXIT_STATUS: &str = ".SH \"EXIT STATUS\"";

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
            let name = command.get_name().to_owned();
            clap_mangen::generate_to(command, dir).with_context(writing)?;
            for entry in fs::read_dir(dir).with_context(writing)? {
                let path = entry.with_context(writing)?.path();
                let page = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".1"));
                if let Some(page) = page.filter(|page| page.starts_with(&name)) {
                    let text = fs::read_to_string(&path).with_context(writing)?;
                    // A page of an earlier version that is no command any more has its sections already.
                    if !text.contains(EXIT_STATUS) {
                        output::whole(&path, (text + &sections(page == name)).as_bytes())?;
                    }
                }
            }
            return Ok(exit::OK);
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        output::print(&(String::from_utf8(page)? + &sections(true)))?;
        Ok(exit::OK)
    }
}

/// Sections that clap does not know, in roff; `whole` adds the examples of the whole command.
fn sections(whole: bool) -> String {
    let mut text = format!("{EXIT_STATUS}\n");
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('-', "\\-");
    let list = |text: &mut String, name: &str, means: &str| {
        _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escaped(name), escaped(means))
    };
    exit::CODES.iter().for_each(|(code, means)| list(&mut text, &code.to_string(), means));
    text.push_str(".SH ENVIRONMENT\n");
    exit::ENVIRONMENT.iter().for_each(|(name, effect)| list(&mut text, name, effect));
    if whole {
        text.push_str(".SH EXAMPLES\n");
        EXAMPLES.iter().for_each(|(command, does)| list(&mut text, command, does));
    }
    text
}
