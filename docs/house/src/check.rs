//! Rules of the house: each returns the places that break it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use regex::Regex;

use crate::arrows;
use crate::prose;
use crate::survey::{Crate, Place, Survey};
use crate::workspace;

/// Largest allowed import circle, in files.
const MAX_CIRCLE: usize = 3;
/// Maximum share of doc comments that open with a pronoun or question word, in percent.
const MAX_SHARE: f64 = 2.0;
/// Maximum length of a commit's subject, in characters.
const MAX_SUBJECT: usize = 72;

/// Maximum lines of a `mod.rs`, without those of tests: it is a map of its folder.
const MAX_MAP: usize = 80;
/// Lines by which a map has to shrink before its allowance shrinks with it.
const SLACK: usize = 20;

/// Circles and maps that exceed the rules as long as they are named here.
const ALLOWED: &str = "docs/house/allowed.txt";

/// List of sentences that are no longer true.
const SUPERSEDED: &str = "docs/house/superseded.txt";

/// A place that breaks a rule.
#[derive(Debug)]
pub(crate) struct Finding {
    /// File, or the id of a commit.
    pub file: PathBuf,
    /// Line; 0 for a whole file or a commit.
    pub line: usize,
    /// Name of the rule.
    pub rule: &'static str,
    /// Fault and remedy.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file.display(), self.line, self.rule, self.text)
    }
}

/// Places that break a rule, by file and line.
///
/// # Errors
/// If a document cannot be read.
pub(crate) fn check(root: &Path, survey: &Survey) -> anyhow::Result<Vec<Finding>> {
    let mut findings: Vec<Finding> = survey.crates.iter().flat_map(check_crate).collect();
    findings.extend(check_allowed(root, survey)?);
    findings.extend(survey.refused.iter().cloned().map(refused));
    let superseded = superseded(root)?;
    for file in workspace::files(root, "md") {
        let text = workspace::read(root, &file)?;
        for (sentence, now) in &superseded {
            for (line, words) in prose::phrases(prose::current(&file, &text), core::slice::from_ref(sentence)) {
                let text = format!("\"{words}\" is no longer true: {now}");
                findings.push(Finding { file: file.clone(), line, rule: "superseded", text });
            }
        }
        for (line, words) in
            prose::twice(prose::current(&file, &text)).into_iter().filter(|_| file.ends_with("CHANGELOG.md"))
        {
            let text = format!("\"{words}\" stands there twice: once is enough");
            findings.push(Finding { file: file.clone(), line, rule: "twice", text });
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        for (line, target) in prose::links(&text) {
            let path = target.strip_prefix('/').map_or_else(|| folder.join(&target), PathBuf::from);
            if !root.join(&path).exists() {
                let text = format!("`{target}` does not exist: link to a file of the repository");
                findings.push(Finding { file: file.clone(), line, rule: "link", text });
            }
        }
        for (line, path) in prose::quoted_paths(&text).into_iter().filter(|_| file == Path::new("ARCHITECTURE.md")) {
            let is_ours = path.split('/').next().is_some_and(|folder| root.join(folder).is_dir());
            if is_ours && !root.join(&path).exists() {
                let text = format!("`{path}` does not exist: name the file as it is now");
                findings.push(Finding { file: file.clone(), line, rule: "path", text });
            }
        }
    }
    findings.sort_by(|a, b| (&a.file, a.line, a.rule, &a.text).cmp(&(&b.file, b.line, b.rule, &b.text)));
    findings.dedup_by(|a, b| (&a.file, a.line, &a.text) == (&b.file, b.line, &b.text));
    Ok(findings)
}

/// Sentences that are no longer true, each with what is. None without a list.
fn superseded(root: &Path) -> anyhow::Result<Vec<(Regex, String)>> {
    let list = root.join(SUPERSEDED);
    if !list.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&list).with_context(|| format!("cannot read {SUPERSEDED}"))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let sentence = |line: &str| {
        let (sentence, now) =
            line.split_once(" => ").with_context(|| format!("{SUPERSEDED}: no ` => ` in {line:?}"))?;
        Ok((prose::phrase(sentence)?, now.trim().to_owned()))
    };
    lines.map(sentence).collect()
}

fn refused((file, line, words): Place) -> Finding {
    let text = format!("\"{words}\": say it in the words of docs/reference/glossary.md");
    Finding { file, line, rule: "phrase", text }
}

/// Circles of methods and maps that exceed their limit, or an allowance that has become too large.
fn check_allowed(root: &Path, survey: &Survey) -> anyhow::Result<Vec<Finding>> {
    let mut allowed = allowances(root)?;
    let mut findings = Vec::new();
    let mut weigh =
        |file: &Path, rule: &'static str, of: String, (is, most, slack): (usize, usize, usize), what: &str| {
            let may = allowed.remove(&(rule.to_owned(), of.clone()));
            let text = match may {
                None if is > most => format!("{what}, at most {most} may"),
                Some(may) if is > may => format!("{what}, {ALLOWED} allows {may}: it only shrinks"),
                Some(_) if is <= most => format!("{what}: remove \"{rule} {of}\" from {ALLOWED}"),
                Some(may) if is + slack < may => format!("{what}: lower \"{rule} {of} {may}\" in {ALLOWED}"),
                _ => return,
            };
            findings.push(Finding { file: file.to_path_buf(), line: 0, rule, text });
        };
    for member in &survey.crates {
        for (name, files) in member.method_circles() {
            let list: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            let what = format!("{} files of `{name}` call each other: {}", files.len(), list.join(" "));
            let of = format!("{}::{name}", member.member.name);
            weigh(files[0], "methods", of, (files.len(), MAX_CIRCLE, 0), &what);
        }
        for (file, lines) in &member.maps {
            let (of, what) = (file.display().to_string(), format!("{lines} lines in a map"));
            weigh(file, "map", of, (*lines, MAX_MAP, SLACK), &what);
        }
    }
    let gone = allowed.into_keys().map(|(rule, of)| {
        let text = format!("\"{rule} {of}\" is allowed and is not there: remove it");
        Finding { file: ALLOWED.into(), line: 0, rule: "allowed", text }
    });
    findings.extend(gone);
    Ok(findings)
}

/// Allowances by rule and place: lines of rule, place and number. None without a list.
fn allowances(root: &Path) -> anyhow::Result<BTreeMap<(String, String), usize>> {
    let list = root.join(ALLOWED);
    if !list.exists() {
        return Ok(BTreeMap::new());
    }
    let text = std::fs::read_to_string(&list).with_context(|| format!("cannot read {ALLOWED}"))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let allowance = |line: &str| {
        let [rule, of, number] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            anyhow::bail!("{ALLOWED}: {line:?} is not a rule, a place and a number");
        };
        let number = number.parse().with_context(|| format!("{ALLOWED}: no number in {line:?}"))?;
        Ok(((rule.to_owned(), of.to_owned()), number))
    };
    lines.map(allowance).collect()
}

fn check_crate(member: &Crate) -> Vec<Finding> {
    let mut findings: Vec<Finding> = member.refused.iter().cloned().map(refused).collect();
    for (file, line, text) in member.upward() {
        let text = format!("{text}; move the item down, or the module");
        findings.push(Finding { file, line, rule: "upward", text });
    }
    for (tree, arrows) in &member.trees {
        for arrow in arrows.iter().filter(|arrow| arrow.is_facade) {
            let file = tree.files[tree.modules[arrow.from].file].clone();
            let text = format!("`{}` goes through the root's re-export: import it from its module", arrow.path);
            findings.push(Finding { file, line: arrow.line, rule: "facade", text });
        }
        for circle in arrows::circles(tree, arrows).into_iter().filter(|circle| circle.len() > MAX_CIRCLE) {
            let files: Vec<String> = circle.iter().map(|&file| tree.files[file].display().to_string()).collect();
            let text =
                format!("{} files import each other, at most {MAX_CIRCLE} may: {}", files.len(), files.join(" "));
            findings.push(Finding { file: tree.files[circle[0]].clone(), line: 0, rule: "circle", text });
        }
    }
    if member.share() > MAX_SHARE {
        for (file, line, word) in member.openers.iter().cloned() {
            let share = member.share();
            let text =
                format!("opens with \"{word}\", as {share:.1} % of the crate's doc comments: name the thing first");
            findings.push(Finding { file, line, rule: "opener", text });
        }
    }
    findings
}

/// Commits of `range` with a long subject or without a body.
///
/// # Errors
/// If git does not know the range.
pub(crate) fn commits(root: &Path, range: &str) -> anyhow::Result<Vec<Finding>> {
    let arguments = ["log", "--no-merges", "--format=%h%x00%s%x00%b%x01", range, "--"];
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().context("cannot run git")?;
    ensure!(output.status.success(), "git log {range}: {}", String::from_utf8_lossy(&output.stderr));
    let log = String::from_utf8_lossy(&output.stdout);
    let mut findings = Vec::new();
    for commit in log.split('\u{1}').map(str::trim_start).filter(|commit| !commit.is_empty()) {
        let parts: Vec<&str> = commit.split('\0').collect();
        let mut add = |text| findings.push(Finding { file: parts[0].into(), line: 0, rule: "commit", text });
        let length = parts[1].chars().count();
        if length > MAX_SUBJECT {
            add(format!("the subject has {length} characters, at most {MAX_SUBJECT} may: \"{}\"", parts[1]));
        }
        if parts[2].trim().is_empty() {
            add(format!("\"{}\" has no body: say why", parts[1]));
        }
    }
    Ok(findings)
}
