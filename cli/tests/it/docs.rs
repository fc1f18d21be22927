//! The pages under `docs/`, held against the code: quoted snippets, commands that run, references, and links.
//!
//! A page marks what is checked by a comment before a fenced block. `<!-- quote FILE#REGION -->` quotes the lines between
//! `[REGION]` and `[/REGION]` of a source file, `<!-- run -->` marks a part of the page's script, `<!-- help ARGUMENTS -->` quotes the output of
//! `phalanx ARGUMENTS`. `PHALANX_RENEW_DOCS=1` writes quotes and help anew instead of comparing them.

use crate::command::{end, phalanx};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Paths of all pages, in order: the Markdown files of `docs/` and of the root.
fn pages() -> Vec<PathBuf> {
    let mut folders = vec![root().join("docs")];
    let mut pages: Vec<_> = markdown(&root()).collect();
    while let Some(folder) = folders.pop() {
        pages.extend(markdown(&folder));
        folders.extend(entries(&folder).filter(|path| path.is_dir()));
    }
    pages.sort();
    pages
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
}

fn markdown(folder: &Path) -> impl Iterator<Item = PathBuf> {
    entries(folder).filter(|path| path.extension().is_some_and(|extension| extension == "md"))
}

/// Text of a file under the root.
fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A fenced block that follows a comment `<!-- KIND ARGUMENT -->`.
struct Marked<'t> {
    argument: &'t str,
    /// Contents of the fence, each line with its end.
    text: &'t str,
    /// Byte where `text` begins in the page.
    at: usize,
}

/// The marked blocks of one kind, in order.
fn marked<'t>(page: &'t str, kind: &str) -> Vec<Marked<'t>> {
    let open = format!("<!-- {kind}");
    let mut found = Vec::new();
    for (start, _) in page.match_indices(&open) {
        let rest = &page[start + open.len()..];
        let Some((argument, rest)) = rest.split_once("-->\n```") else { panic!("no fence behind {open}: {rest:.80}") };
        let (_, text) = rest.split_once('\n').expect("a fence has lines");
        let len = text.find("```\n").expect("a fence ends");
        let at = text.as_ptr().addr() - page.as_ptr().addr();
        found.push(Marked { argument: argument.trim(), text: &text[..len], at });
    }
    found
}

/// Compares every marked block of one kind with its true text, or writes that where the environment says so.
fn hold(kind: &str, truth: impl Fn(&str) -> String) {
    let (mut stale, mut held) = (Vec::new(), 0);
    for path in pages() {
        let page = read(&path);
        let mut renewed = page.clone();
        for block in marked(&page, kind).into_iter().rev() {
            held += 1;
            let truth = truth(block.argument);
            if block.text != truth {
                renewed.replace_range(block.at..block.at + block.text.len(), &truth);
                stale.push(format!("{}: {}", path.display(), block.argument));
            }
        }
        if renewed != page && env::var_os("PHALANX_RENEW_DOCS").is_some() {
            fs::write(&path, renewed).expect("a page that can be written");
            stale.clear();
        }
    }
    assert!(held > 0, "no page has a block of the kind {kind:?}");
    assert!(stale.is_empty(), "differ from the code, PHALANX_RENEW_DOCS=1 renews them: {stale:#?}");
}

/// A region of a source file, without its common indentation and without the marks of regions inside.
fn region(file: &str, name: &str) -> String {
    let source = read(file);
    let is = |line: &&str, mark: &str| line.trim() == format!("// [{mark}{name}]");
    let inside = source.lines().skip_while(|line| !is(line, "")).skip(1).take_while(|line| !is(line, "/"));
    let lines: Vec<_> = inside.filter(|line| !(line.trim().starts_with("// [") && line.ends_with(']'))).collect();
    assert!(!lines.is_empty(), "{file} has no region {name}");
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let common = lines.iter().filter(|line| !line.is_empty()).map(indentation).min().unwrap_or(0);
    lines.iter().map(|line| format!("{}\n", line.get(common..).unwrap_or(""))).collect()
}

#[test]
fn quoted_snippets_equal_their_source() {
    hold("quote", |argument| {
        let (file, name) = argument.split_once('#').expect("FILE#REGION");
        region(file, name)
    });
}

/// The pages quote the default build, which has `node`.
#[cfg(feature = "node")]
#[test]
fn help_is_quoted_as_the_command_prints_it() {
    hold("help", |arguments| {
        let ended = end(phalanx(arguments.split_whitespace()));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    });
}

/// Every command that help names has a section in the reference.
#[test]
fn the_reference_has_every_command() {
    let page = read("docs/reference/commands.md");
    let has: BTreeSet<_> = marked(&page, "help").iter().map(|block| block.argument.to_owned()).collect();
    let mut open = vec![String::new()];
    while let Some(command) = open.pop() {
        let arguments = format!("{command} -h").trim().to_owned();
        assert!(has.contains(&arguments), "docs/reference/commands.md lacks {arguments:?}");
        let help = end(phalanx(arguments.split_whitespace())).stdout;
        let Some((_, commands)) = help.split_once("\nCommands:\n") else { continue };
        let names =
            commands.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
        open.extend(names.filter(|name| *name != "help").map(|name| format!("{command} {name}").trim().to_owned()));
    }
}

/// Runs the scripts of each page as one, in a folder of its own, with the built command on the path.
#[test]
fn scripts_run() {
    let command = Path::new(env!("CARGO_BIN_EXE_phalanx")).parent().expect("a folder").to_owned();
    let inherited = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([command].into_iter().chain(env::split_paths(&inherited))).expect("a path");
    let mut ran = 0;
    for page in pages() {
        let text = read(&page);
        let script: String = marked(&text, "run").iter().map(|block| block.text).collect();
        if script.is_empty() {
            continue;
        }
        ran += 1;
        let folder = tempfile::tempdir().expect("a folder");
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("REPOSITORY", root())
            .output()
            .expect("bash starts");
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{}: {}\n{script}\n{stdout}\n{stderr}", page.display(), output.status);
    }
    assert!(ran > 0, "no page has a script that runs");
}

/// Adds the path of every leaf of `value`, as the reference writes it.
fn leaves(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                leaves(value, &if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().for_each(|item| leaves(item, &format!("{path}[]"), found));
        }
        _ => _ = found.insert(path.to_owned()),
    }
}

#[test]
fn every_field_of_a_result_is_in_the_reference() {
    let page = read("docs/reference/result-fields.md");
    let listed: BTreeSet<_> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(path, _)| path).collect();
    let mut fields = BTreeSet::new();
    for load in ["--workload mixed --executor dag --executor block-stm", "--workload native --signatures on"] {
        let line = format!("bench run {load} --accounts 500 --txs 3000 --block-txs 100 --threads 2 --json -");
        leaves(&end(phalanx(line.split_whitespace())).json(), "", &mut fields);
    }
    let line = "bench adversary --case hot-slot,false-list --block-gas 3000000 --runs 1 --threads 1 --json -";
    leaves(&end(phalanx(line.split_whitespace())).only_json(), "", &mut fields);
    // A group `config.*` or `stages.*` stands for all its fields.
    let is_listed = |field: &&String| {
        listed.contains(field.as_str())
            || listed.iter().any(|path| path.strip_suffix('*').is_some_and(|group| field.starts_with(group)))
    };
    let missing: Vec<_> = fields.iter().filter(|field| !is_listed(field)).collect();
    assert!(missing.is_empty(), "docs/reference/result-fields.md lacks {missing:#?}");
}

/// Names of the setters in `impl NAME` blocks of the sources below a folder.
fn setters(folder: &Path, name: &str, found: &mut BTreeSet<String>) {
    for path in entries(folder) {
        if path.is_dir() {
            setters(&path, name, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("a source file");
            for rest in source.split(&format!("\nimpl {name} {{\n")).skip(1) {
                let body = rest.split("\n}\n").next().unwrap_or(rest);
                let words = body.split(|c: char| !c.is_alphanumeric() && c != '_');
                found.extend(words.filter(|word| word.starts_with("with_")).map(str::to_owned));
            }
        }
    }
}

#[test]
fn every_setting_is_in_the_reference() {
    let page = read("docs/reference/configuration.md");
    for (folder, name) in [
        ("engine/src", "EngineBuilder"),
        ("engine/src", "Tuning"),
        ("merkle/src", "StoreConfig"),
        ("engine/src", "ServiceConfig"),
    ] {
        let mut found = BTreeSet::new();
        setters(&root().join(folder), name, &mut found);
        assert!(!found.is_empty(), "no settings of {name} in {folder}");
        // Hidden from the documentation: it makes the disk fail, in tests.
        found.remove("with_faults");
        let missing: Vec<_> = found.iter().filter(|setting| !page.contains(&format!("| `{setting}`"))).collect();
        assert!(missing.is_empty(), "docs/reference/configuration.md lacks {missing:?} of {name}");
    }
}

/// Every relative link leads to a file or folder, every fragment to a heading.
#[test]
fn links_resolve() {
    let mut broken = Vec::new();
    for path in pages() {
        let page = read(&path);
        for link in page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") || link.contains([' ', '\n']) {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().expect("a folder").join(file) };
            let has_heading = || read(&target).lines().any(|line| line.starts_with('#') && anchor(line) == fragment);
            if !target.exists() || !fragment.is_empty() && !has_heading() {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Fragment of a heading, as code hosts derive it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    text.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_bound_of_work_names_a_test_that_exists() {
    let page = read("docs/reference/bounds-of-work.md");
    let table = page.split("\n## ").next().expect("a page begins with its table");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| place")).collect();
    assert!(rows.len() >= 20, "{} rows", rows.len());
    for row in rows {
        let column = row.trim_end_matches(" |").rsplit("| ").next().expect("a column");
        let mut names = column.split('`').skip(1).step_by(2);
        let (Some(file), Some(test), None) = (names.next(), names.next(), names.next()) else {
            panic!("no file and test: {row}");
        };
        let code = read(file);
        let at = code.find(&format!("fn {test}()")).unwrap_or_else(|| panic!("{file} has no test {test}"));
        assert!(code[..at].trim_end().ends_with("#[test]"), "{test} is no test");
    }
}
