//! Words of a file: comments and strings without the code, doc comments by their first word, refused phrases, links.

use std::collections::HashSet;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use proc_macro2::{TokenStream, TokenTree};
use regex::{Captures, Regex};

/// First words that make a doc comment a riddle.
const OPENERS: &str = "^(Who(se|ever|m)?|What(ever)?|Whether|How|Of|Its?|Those|(Some|No|Any)body|One)$";

/// Stands for a byte of code in [`Prose::text`]; matches neither a word nor a space.
const CODE: u8 = 1;

/// A Rust file with its code blanked out.
#[derive(Debug)]
pub(crate) struct Prose {
    /// Comments and strings, on as many lines as the file. Comment marks are spaces: a phrase may continue on the next line.
    pub text: String,
    /// True for lines with code or a string.
    pub code: Vec<bool>,
}

/// Blanks out the code of a Rust file: every token but strings and doc comments.
///
/// # Errors
/// If `source` consists of no tokens of Rust.
pub(crate) fn prose(source: &str) -> anyhow::Result<Prose> {
    fn blank(tokens: TokenStream, text: &mut [u8], code: &mut [bool]) {
        for token in tokens {
            let whole = &text[token.span().byte_range()];
            if whole.starts_with(b"//") || whole.starts_with(b"/*") {
                continue;
            }
            let spans = match &token {
                TokenTree::Group(group) => vec![group.span_open(), group.span_close()],
                _ => vec![token.span()],
            };
            for span in spans {
                code[span.start().line - 1..span.end().line].fill(true);
                let token = &mut text[span.byte_range()];
                let is_string = token.len() > 2 && token.ends_with(b"\"") || token.ends_with(b"\"#");
                let is_blanked = |byte: &&mut u8| !is_string && !byte.is_ascii_whitespace();
                token.iter_mut().filter(is_blanked).for_each(|byte| *byte = CODE);
            }
            if let TokenTree::Group(group) = token {
                blank(group.stream(), text, code);
            }
        }
    }
    let tokens = TokenStream::from_str(source).map_err(|error| anyhow::anyhow!("{error}"))?;
    let (mut text, mut code) = (source.as_bytes().to_vec(), vec![false; source.lines().count()]);
    blank(tokens, &mut text, &mut code);
    let marks = Regex::new(r"(?m)^([ \t]*)//[/!]?|\\(?:n|\n)").expect("a constant");
    let unmark = |found: &Captures<'_>| if found[0].ends_with('\n') { "\n" } else { " " };
    let text = marks.replace_all(&String::from_utf8(text)?, unmark).into_owned();
    Ok(Prose { text, code })
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
    block.lines().skip(1).filter(|line| !line.trim().is_empty()).map(phrase).collect()
}

/// The regular expression of a line, matched without case and across lines.
///
/// # Errors
/// If it is none.
pub(crate) fn phrase(line: &str) -> anyhow::Result<Regex> {
    Ok(Regex::new(&format!("(?i){}", line.trim().replace(' ', r"\s+")))?)
}

/// Line and text of each item of a list that has stood in `text` before.
pub(crate) fn twice(text: &str) -> Vec<(usize, String)> {
    let mut seen = HashSet::new();
    let items = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with("- "));
    // An item that continues on the next line begins like others.
    let ends = |line: &str| line.ends_with('.');
    items
        .filter(|(_, line)| ends(line) && !seen.insert(*line))
        .map(|(number, line)| (number, line.to_owned()))
        .collect()
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
