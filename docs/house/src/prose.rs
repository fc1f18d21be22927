//! Words of a file: comments and strings without the code, doc comments by their first word, refused phrases, links.

use std::path::Path;

use anyhow::Context;
use regex::Regex;

/// First words that make a doc comment a riddle.
const OPENERS: &str = "^(Who(se|ever|m)?|What(ever)?|Whether|How|Of|Its?|Those|(Some|No|Any)body|One)$";

/// Stands for a character of code in [`Prose::text`]; matches neither a word nor a space.
const CODE: char = '\u{1}';

/// A Rust file with its code blanked out.
#[derive(Debug)]
pub(crate) struct Prose {
    /// As many lines as the file. Comment marks are spaces, so that a phrase may continue on the next line.
    pub text: String,
    /// True for lines with code or a string.
    pub code: Vec<bool>,
}

impl Prose {
    fn put(&mut self, c: char, is_code: bool, is_shown: bool) {
        if c == '\n' {
            self.code.push(false);
        } else if is_code && !c.is_whitespace() {
            *self.code.last_mut().expect("starts with one line") = true;
        }
        self.text.push(if is_shown || c.is_whitespace() { c } else { CODE });
    }
}

/// Blanks out the code of a Rust file.
pub(crate) fn prose(source: &str) -> Prose {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\n');
    let mut out = Prose { text: String::with_capacity(source.len()), code: vec![false] };
    let mut i = 0;
    while i < chars.len() {
        let starts_word = i == 0 || !(at(i - 1).is_alphanumeric() || at(i - 1) == '_') || "bc".contains(at(i - 1));
        let hashes = if at(i) == 'r' && starts_word { (i + 1..).take_while(|&j| at(j) == '#').count() } else { 0 };
        if at(i) == '/' && at(i + 1) == '/' {
            let mut in_mark = true;
            while i < chars.len() && at(i) != '\n' {
                in_mark &= at(i) == '/' || at(i) == '!';
                out.put(if in_mark { ' ' } else { at(i) }, false, true);
                i += 1;
            }
            continue;
        }
        if at(i) == '/' && at(i + 1) == '*' {
            let mut depth = 0;
            while i < chars.len() {
                depth += i32::from(at(i) == '/' && at(i + 1) == '*') - i32::from(at(i - 1) == '*' && at(i) == '/');
                out.put(if at(i) == '*' { ' ' } else { at(i) }, false, true);
                i += 1;
                if depth == 0 {
                    break;
                }
            }
            continue;
        }
        let start = i;
        if at(i) == '"' || (at(i) == 'r' && starts_word && at(i + 1 + hashes) == '"') {
            let is_raw = at(i) == 'r';
            let is_end = |j: usize| at(j) == '"' && (1..=hashes).all(|h| at(j + h) == '#');
            i += if is_raw { 2 + hashes } else { 1 };
            (start..i).for_each(|j| out.put(at(j), true, false));
            while i < chars.len() && !is_end(i) {
                if !is_raw && at(i) == '\\' {
                    out.put(' ', true, true);
                    i += 1;
                    out.put(if at(i) == '\n' { '\n' } else { ' ' }, true, true);
                } else {
                    out.put(at(i), true, true);
                }
                i += 1;
            }
        } else if at(i) == '\'' && at(i + 1) == '\\' {
            i = (i + 3..chars.len()).find(|&j| at(j) == '\'').unwrap_or(i);
            (start..i).for_each(|j| out.put(at(j), true, false));
        } else if at(i) == '\'' && at(i + 2) == '\'' {
            i += 2;
            (start..i).for_each(|j| out.put(at(j), true, false));
        }
        if i < chars.len() {
            out.put(at(i), true, false);
            i += 1;
        }
    }
    out
}

/// Number of doc comments, and line and first word of those that open with a pronoun or question word. A run of `///` or
/// `//!` lines is one comment.
pub(crate) fn doc_comments(source: &str) -> (usize, Vec<(usize, String)>) {
    let openers = Regex::new(OPENERS).expect("a constant");
    let (mut count, mut found, mut last) = (0, Vec::new(), "");
    for (number, line) in (1..).zip(source.lines()) {
        let line = line.trim_start();
        let mark = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark) && !line.starts_with("////"));
        if let Some(mark) = mark.filter(|mark| *mark != last) {
            let word: String = line[mark.len()..].trim_start().chars().take_while(|c| c.is_alphanumeric()).collect();
            count += 1;
            found.extend(openers.is_match(&word).then_some((number, word)));
        }
        last = mark.unwrap_or("");
    }
    (count, found)
}

/// Phrases that `glossary` refuses: each line of the fenced block under their heading, matched without case and across lines.
///
/// # Errors
/// If the section is missing or a line is no regular expression.
pub(crate) fn refused(glossary: &str) -> anyhow::Result<Vec<Regex>> {
    let section =
        glossary.split("## Phrases that the check refuses").nth(1).context("the glossary refuses no phrases")?;
    let block = section.split("```").nth(1).context("no fenced block of phrases in the glossary")?;
    let regex = |line: &str| Ok(Regex::new(&format!("(?i){}", line.trim().replace(' ', r"\s+")))?);
    block.lines().skip(1).filter(|line| !line.trim().is_empty()).map(regex).collect()
}

/// Line and words of each refused phrase in `text`.
pub(crate) fn phrases(text: &str, refused: &[Regex]) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for hit in refused.iter().flat_map(|phrase| phrase.find_iter(text)) {
        let words: Vec<&str> = hit.as_str().split_whitespace().collect();
        found.push((text[..hit.start()].matches('\n').count() + 1, words.join(" ")));
    }
    found.sort();
    found
}

/// The part of a document that is held to the rules: all, or a changelog's newest section.
pub(crate) fn current<'a>(file: &Path, text: &'a str) -> &'a str {
    let history = text.match_indices("\n## ").nth(1).filter(|_| file.ends_with("CHANGELOG.md"));
    history.map_or(text, |(at, _)| &text[..at])
}

/// Line and target of each link to a file in a Markdown text; fenced blocks are left out.
pub(crate) fn links(text: &str) -> Vec<(usize, String)> {
    let link = Regex::new(r"\]\(([^)\s]+)[^)]*\)|^\[[^\]]+\]:\s*(\S+)").expect("a constant");
    let mut in_fence = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        in_fence ^= line.trim_start().starts_with("```");
        for hit in link.captures_iter(line).filter(|_| !in_fence) {
            let target = hit.get(1).or(hit.get(2)).map_or("", |target| target.as_str());
            let target = target.split('#').next().unwrap_or("");
            if !(target.is_empty() || target.contains(':')) {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// Line and path of each quoted path, like `` `access/src/lib.rs` ``, in a Markdown text.
pub(crate) fn quoted_paths(text: &str) -> Vec<(usize, String)> {
    let path = Regex::new(r"`([\w.-]+(?:/[\w.-]*)+)`").expect("a constant");
    let on_line = |(number, line): (usize, &str)| {
        path.captures_iter(line).map(|hit| (number, hit[1].to_owned())).collect::<Vec<_>>()
    };
    (1..).zip(text.lines()).flat_map(on_line).collect()
}
