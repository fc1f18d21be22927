//! Flags that name output: looked at before a command runs, so that a long run does not end at a file that cannot be written.

use clap::ArgMatches;
use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// Flags of a file that a command writes at its end.
const FILES: [&str; 4] = ["json", "csv", "svg", "trace"];
/// Flag of a folder for a page.
const FOLDER: &str = "report";

/// Refuses output that cannot be written. Nothing is made but a temporary file without a name.
pub(crate) fn check(matches: &ArgMatches) -> Result<(), String> {
    if let Some((_, below)) = matches.subcommand() {
        return check(below);
    }
    // A flag of this name that is no path is another command's switch.
    let path = |flag: &str| matches.try_get_one::<PathBuf>(flag).ok().flatten();
    for flag in FILES {
        if let Some(path) = path(flag).filter(|path| path.as_path() != Path::new("-")) {
            file(path).map_err(|error| format!("--{flag} {} cannot be written: {error}", path.display()))?;
        }
    }
    path(FOLDER).map_or(Ok(()), |dir| {
        folder(dir).map_err(|error| format!("the report cannot be written to {}: {error}", dir.display()))
    })
}

/// Checks that a file can be made at `path`, beside what is there.
fn file(path: &Path) -> io::Result<()> {
    // The target of a link counts.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    match fs::metadata(&path) {
        Ok(meta) if meta.is_dir() => Err(ErrorKind::IsADirectory.into()),
        // A pipe or a device is written in place; opening it may wait for its reader.
        Ok(meta) if !meta.is_file() => Ok(()),
        _ => folder_is_writable(path.parent().unwrap_or(Path::new(""))),
    }
}

/// Checks that the folder at `dir` can be made, if it is missing, and written to.
fn folder(dir: &Path) -> io::Result<()> {
    match dir.ancestors().find(|above| above.as_os_str().is_empty() || above.exists()) {
        Some(there) => folder_is_writable(there),
        None => Err(ErrorKind::NotFound.into()),
    }
}

fn folder_is_writable(dir: &Path) -> io::Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    tempfile::tempfile_in(dir).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_written_is_left_alone_and_the_rest_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("old"), "kept").expect("a file");
        for name in ["old", "new"] {
            file(&at(name)).expect(name);
        }
        file(Path::new("/dev/null")).expect("a device");
        file(Path::new("relative.json")).expect("in the current folder");
        for name in ["", "none/new", "old/new"] {
            file(&at(name)).expect_err(name);
        }
        for name in ["", "new", "new/deep"] {
            folder(&at(name)).expect(name);
        }
        folder(Path::new("relative/deep")).expect("below the current folder");
        folder(&at("old")).expect_err("a file");
        folder(&at("old/deep")).expect_err("below a file");
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1, "nothing is made");
        assert_eq!(fs::read_to_string(at("old")).expect("a file"), "kept");
    }
}
