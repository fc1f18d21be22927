//! Everything that report and check need of a workspace, gathered once.

use std::path::{Path, PathBuf};

use anyhow::Context;
use regex::Regex;

use crate::arrows::{self, Arrow};
use crate::prose;
use crate::tree::Tree;
use crate::workspace::{self, Member};

/// Glossary of this version, for workspaces that have none yet.
const GLOSSARY: &str = include_str!("../../reference/glossary.md");

/// Path of the glossary in a workspace.
pub(crate) const GLOSSARY_FILE: &str = "docs/reference/glossary.md";

/// A line of a file, with the words or path that is found there.
pub(crate) type Place = (PathBuf, usize, String);

/// A workspace.
#[derive(Debug)]
pub(crate) struct Survey {
    /// Members in the order of `Cargo.toml`.
    pub crates: Vec<Crate>,
    /// Refused phrases in documents.
    pub refused: Vec<Place>,
}

/// A member of the workspace, measured.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    /// Name, folder and files.
    pub member: Member,
    /// Module tree of each root, with its resolved imports.
    pub trees: Vec<(Tree, Vec<Arrow>)>,
    /// Files under `src` that are not tests.
    pub modules: usize,
    /// Lines of source: all but tests.
    pub source: usize,
    /// Lines of source that are neither blank nor comments.
    pub code: usize,
    /// Lines of `tests/`, `benches/`, and of test items and files under `src`.
    pub tests: usize,
    /// Lines of each `mod.rs` under `src`, without tests.
    pub maps: Vec<(PathBuf, usize)>,
    /// Number of doc comments.
    pub docs: usize,
    /// Doc comments that open with a pronoun or question word.
    pub openers: Vec<Place>,
    /// Refused phrases in comments and strings.
    pub refused: Vec<Place>,
}

impl Crate {
    /// Percentage of doc comments that open with a pronoun or question word.
    pub(crate) fn share(&self) -> f64 {
        self.openers.len() as f64 * 100.0 / self.docs.max(1) as f64
    }

    /// Largest import circle of files.
    pub(crate) fn circle(&self) -> Vec<&PathBuf> {
        let circles = self.trees.iter().filter_map(|(tree, arrows)| {
            let largest = arrows::circles(tree, arrows).into_iter().next()?;
            Some(largest.iter().map(|&file| &tree.files[file]).collect::<Vec<_>>())
        });
        circles.max_by_key(Vec::len).unwrap_or_default()
    }

    /// Types whose methods call each other across files, with the files of the circle; the largest first.
    pub(crate) fn method_circles(&self) -> Vec<(String, Vec<&PathBuf>)> {
        let mut circles = Vec::new();
        for (tree, _) in &self.trees {
            let files = |circle: Vec<usize>| circle.into_iter().map(|file| &tree.files[file]).collect();
            circles.extend(arrows::method_circles(tree).into_iter().map(|(name, circle)| (name, files(circle))));
        }
        circles.sort_by_key(|(name, files): &(String, Vec<&PathBuf>)| (usize::MAX - files.len(), name.clone()));
        circles
    }

    /// Imports of a top-level module from one that its root declares above it.
    pub(crate) fn upward(&self) -> Vec<Place> {
        let of_tree = |(tree, arrows): &(Tree, Vec<Arrow>)| {
            let place = |arrow: &Arrow| {
                let above = arrows::upward(tree, arrow)?;
                let (own, file) = (tree.top(arrow.from)?, &tree.files[tree.modules[arrow.from].file]);
                let (own, above) = (&tree.modules[own].name, &tree.modules[above].name);
                Some((file.clone(), arrow.line, format!("`{}`: {own} lies below {above}", arrow.path)))
            };
            arrows.iter().filter_map(place).collect::<Vec<_>>()
        };
        self.trees.iter().flat_map(of_tree).collect()
    }
}

/// Reads the workspace at `root`.
///
/// # Errors
/// If a file cannot be read or parsed.
pub(crate) fn survey(root: &Path) -> anyhow::Result<Survey> {
    let glossary = std::fs::read_to_string(root.join(GLOSSARY_FILE)).unwrap_or_else(|_| GLOSSARY.to_owned());
    let phrases = prose::refused(&glossary)?;
    let crates = workspace::members(root)?.into_iter().map(|member| read_crate(root, member, &phrases));
    let crates = crates.collect::<anyhow::Result<_>>()?;
    let mut refused = Vec::new();
    for file in workspace::files(root, "md").into_iter().filter(|file| file != Path::new(GLOSSARY_FILE)) {
        let text = workspace::read(root, &file)?;
        let found = prose::phrases(prose::current(&file, &text), &phrases);
        refused.extend(found.into_iter().map(|(line, words)| (file.clone(), line, words)));
    }
    Ok(Survey { crates, refused })
}

fn read_crate(root: &Path, member: Member, phrases: &[Regex]) -> anyhow::Result<Crate> {
    let trees: Vec<(Tree, Vec<Arrow>)> = member
        .roots()
        .map(|file| {
            Tree::parse(root, file).map(|tree| (arrows::arrows(&tree), tree)).map(|(arrows, tree)| (tree, arrows))
        })
        .collect::<anyhow::Result<_>>()?;
    let mut found = Crate { member, trees, ..Crate::default() };
    let src = found.member.folder.join("src");
    let outside = [found.member.folder.join("tests"), found.member.folder.join("benches")];
    for file in &found.member.files {
        let text = workspace::read(root, file)?;
        let prose = prose::prose(&text).with_context(|| format!("cannot read {}", file.display()))?;
        let is_test = outside.iter().any(|folder| file.starts_with(folder) && !file.starts_with(&src))
            || found.trees.iter().any(|(tree, _)| tree.test_files.iter().any(|test| file.starts_with(test)))
            || file.strip_prefix(&src).is_ok_and(|file| file.components().any(|part| part.as_os_str() == "tests"))
            || file.starts_with(&src) && file.ends_with("tests.rs");
        let mut tests = vec![is_test; text.lines().count()];
        for (tree, _) in &found.trees {
            let of_file = tree.test_lines.iter().filter(|(index, ..)| &tree.files[*index] == file);
            of_file.for_each(|&(_, first, last)| tests[first - 1..last].fill(true));
        }
        if !is_test && file.starts_with(&src) && file.ends_with("mod.rs") {
            found.maps.push((file.clone(), tests.iter().filter(|test| !**test).count()));
        }
        found.modules += usize::from(!is_test && file.starts_with(&src));
        found.tests += tests.iter().filter(|test| **test).count();
        found.source += tests.iter().filter(|test| !**test).count();
        found.code += tests.iter().zip(&prose.code).filter(|(test, code)| !**test && **code).count();
        let (docs, openers) = prose::doc_comments(&text);
        found.docs += docs;
        found.openers.extend(openers.into_iter().map(|(line, word)| (file.clone(), line, word)));
        let refused = prose::phrases(&prose.text, phrases);
        found.refused.extend(refused.into_iter().map(|(line, words)| (file.clone(), line, words)));
    }
    Ok(found)
}
