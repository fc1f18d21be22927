//! Output of results: files, stdout, a table.

use anyhow::Context as _;
use phalanx_lab::{
    doctor,
    error::Usage,
    machine::temporary::{Unfinished, in_the_making},
    report::{
        self, Gallery, Output,
        svg::{Origin, Picture},
    },
    result::BenchResult,
};
use serde::Serialize;
use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

/// Writes `value` to a file, or to stdout for `-`.
pub(crate) fn json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    if path == Path::new("-") {
        return print(&text);
    }
    whole(path, text.as_bytes())
}

/// Writes a file as a whole: beside, synced, and renamed. What is no plain file, like a pipe, is written in place.
pub(crate) fn whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = Beside::create(path)?;
    file.write_all(bytes).with_context(|| format!("writing {}", path.display()))?;
    file.finish()
}

/// File in the making: it has another name until it is whole, and goes if it is not finished.
#[derive(Debug)]
pub(crate) struct Beside {
    file: BufWriter<File>,
    /// Name in the making; `None` if the file is written in place.
    new: Option<Unfinished>,
    path: PathBuf,
}

impl Beside {
    /// Begins the file at `path`. A link is followed.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let in_place = fs::metadata(&path).is_ok_and(|meta| !meta.is_file());
        let new = (!in_place).then(|| Unfinished::new(in_the_making(&path)));
        let opened = match &new {
            Some(new) => File::create(new.path()),
            None => OpenOptions::new().write(true).open(&path),
        };
        let file = opened.with_context(|| format!("creating {}", path.display()))?;
        Ok(Self { file: BufWriter::new(file), new, path })
    }

    /// Ends the file and gives it its name.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let finished = self.sync_and_rename();
        finished.with_context(|| format!("writing {}", self.path.display()))
    }

    fn sync_and_rename(&mut self) -> std::io::Result<()> {
        self.file.flush()?;
        let Some(new) = self.new.take() else { return Ok(()) };
        self.file.get_ref().sync_all()?;
        new.finish(&self.path)
    }
}

impl std::io::Write for Beside {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Refuses a path that does not exist.
pub(crate) fn check_exist(paths: &[PathBuf]) -> Result<(), Usage> {
    let missing = paths.iter().find(|path| !path.exists());
    missing.map_or(Ok(()), |path| Err(Usage(format!("{} does not exist", path.display()))))
}

/// Prints to stdout. A closed pipe is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("writing to stdout"),
    }
}

/// Quotes a word for a shell, if needed.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Command line of this process, quoted for a shell.
pub(crate) fn command() -> String {
    let arguments = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("phalanx".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Files for a measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Files<'a> {
    /// `-` for stdout, without the text.
    pub(crate) json: Option<&'a Path>,
    pub(crate) csv: Option<&'a Path>,
    pub(crate) svg: Option<&'a Path>,
    /// Folder for a page with the picture.
    pub(crate) report: Option<&'a Path>,
}

/// Shows a measurement: JSON alone on stdout, or its text there and files beside it.
pub(crate) fn show(output: &Output, files: Files<'_>) -> anyhow::Result<()> {
    // Stdout first: a file that cannot be written must not lose the result of a long run.
    let stdout = files.json == Some(Path::new("-"));
    if stdout {
        json(Path::new("-"), &output.value)?;
    } else {
        print(&output.text)?;
    }
    if let Some(path) = files.json.filter(|_| !stdout) {
        json(path, &output.value)?;
    }
    let command = command();
    let svg = || output.picture.as_ref().map(|picture| picture.standalone(&Origin::here(&command)));
    for (path, content) in [(files.csv, output.csv.clone()), (files.svg, files.svg.and_then(|_| svg()))] {
        if let Some((path, content)) = path.zip(content) {
            whole(path, content.as_bytes())?;
        }
    }
    let Some(dir) = files.report else { return Ok(()) };
    let pictures = output.picture.iter().map(|picture| ("figure".to_owned(), picture.clone())).collect();
    let rows = output.csv.clone().map(|rows| ("points.csv", rows));
    gallery(
        dir,
        &Gallery {
            title: output.picture.as_ref().map_or("benchmark", Picture::title),
            claim: output.claim.clone(),
            doubts: doctor::spoils(),
            table: &output.text,
            pictures,
            rows,
            command: &command,
        },
        stdout,
    )
}

/// Writes a page with pictures into `dir`, and says where unless stdout has JSON.
pub(crate) fn gallery(dir: &Path, gallery: &Gallery<'_>, quiet: bool) -> anyhow::Result<()> {
    let index = gallery.write(dir).with_context(|| format!("writing the report to {}", dir.display()))?;
    if quiet { Ok(()) } else { print(&format!("\nReport: {}\n", index.display())) }
}

/// Shows results: JSON alone on stdout, or a table there and files beside it.
pub(crate) fn results(
    results: &[BenchResult],
    json_path: Option<&Path>,
    value: &impl Serialize,
    csv_path: Option<&Path>,
    report_dir: Option<&Path>,
) -> anyhow::Result<()> {
    // Stdout first: a file that cannot be written must not lose the result of a long run.
    let stdout = Path::new("-");
    if json_path == Some(stdout) {
        json(stdout, value)?;
    } else {
        print(&report::table(results))?;
    }
    let file = json_path.filter(|path| *path != stdout).map_or(Ok(()), |path| json(path, value));
    let rows = csv_path.map_or(Ok(()), |path| whole(path, report::csv(results).as_bytes()));
    let page = report_dir.map_or(Ok(Vec::new()), |dir| {
        report::write(dir, results).with_context(|| format!("writing the report to {}", dir.display()))
    });
    if let (Ok(page), false) = (&page, json_path == Some(stdout))
        && let Some(index) = page.first()
    {
        print(&format!("\nReport: {}\n", index.display()))?;
    }
    file.and(rows).and(page.map(|_| ()))
}
