//! Origin of a picture: commit, machine and command, so that a picture that is copied elsewhere still says where it is from.

use crate::{
    machine::host,
    result::{BenchResult, Host, Tool},
};

/// Program, machine and command behind a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    lines: Vec<String>,
}

impl Origin {
    /// Origin of what this process measures or computes.
    pub fn here(command: &str) -> Self {
        Self::new(&host::tool(), &host::host(None), command)
    }

    /// Origin of results, which may be of several programs, machines and commands.
    pub(crate) fn of(results: &[BenchResult]) -> Self {
        let mut lines = Vec::new();
        for result in results {
            for line in Self::new(&result.tool, &result.host, &result.command).lines {
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
        Self { lines }
    }

    fn new(tool: &Tool, host: &Host, command: &str) -> Self {
        let cores = if host.cores == 1 { "1 core".to_owned() } else { format!("{} cores", host.cores) };
        let program = format!("phalanx {}, commit {}, {} build", tool.version, tool.commit, tool.profile);
        let machine = format!("{program}; {}, {cores}", host.cpu);
        let command = (!command.is_empty()).then(|| format!("$ {command}"));
        Self { lines: [machine].into_iter().chain(command).collect() }
    }

    /// Lines of text, unwrapped.
    pub(in crate::report) fn lines(&self) -> &[String] {
        &self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn equal_machines_are_named_once_and_every_command() {
        let origin = Origin::of(&fixture::demo());
        assert_eq!(origin.lines.len(), 3, "{origin:?}");
        assert_eq!(
            origin.lines[0],
            "phalanx 0.1.0, commit 3f9c2ab41d07, release build; Some Processor 9000 @ 2.60GHz, 2 cores"
        );
        assert!(origin.lines[1].starts_with("$ phalanx bench run --workload native"), "{origin:?}");
        assert!(Origin::here("phalanx demo").lines[1] == "$ phalanx demo");
    }
}
