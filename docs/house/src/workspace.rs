//! Crates of a workspace and their files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use regex::Regex;
use walkdir::WalkDir;

/// A member of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// Name of the package.
    pub name: String,
    /// Folder, relative to the workspace.
    pub folder: PathBuf,
    /// Rust files relative to the workspace, without those of members below; sorted.
    pub files: Vec<PathBuf>,
}

impl Member {
    /// Roots of module trees: library, binary of the crate's name, further binaries.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        let src = self.folder.join("src");
        let is_root = move |file: &Path| file == src.join("lib.rs") || file == src.join("main.rs");
        let bin = self.folder.join("src/bin");
        self.files.iter().filter(move |file| is_root(file) || file.parent() == Some(&bin))
    }
}

/// Members that `Cargo.toml` lists, in its order.
///
/// # Errors
/// If a manifest is missing or names no package.
pub(crate) fn members(root: &Path) -> anyhow::Result<Vec<Member>> {
    let manifest = read(root, Path::new("Cargo.toml"))?;
    let list = Regex::new(r"(?s)members\s*=\s*\[(.*?)\]")?;
    let list = list.captures(&manifest).context("Cargo.toml lists no members")?;
    let folders: Vec<PathBuf> = list[1].split('"').skip(1).step_by(2).map(PathBuf::from).collect();
    let name = Regex::new(r#"(?m)^name\s*=\s*"([^"]+)""#)?;
    let rust = files(root, "rs");
    let member = |folder: &PathBuf| {
        let manifest = read(root, &folder.join("Cargo.toml"))?;
        let name = name.captures(&manifest).with_context(|| format!("{} names no package", folder.display()))?;
        let owner = |file: &Path| folders.iter().filter(|f| file.starts_with(f)).max_by_key(|f| f.components().count());
        let files = rust.iter().filter(|file| owner(file) == Some(folder)).cloned().collect();
        Ok(Member { name: name[1].to_owned(), folder: folder.clone(), files })
    };
    folders.iter().map(member).collect()
}

/// Files of the workspace that end in `extension`, relative to `root` and sorted; build outputs and hidden folders are left out.
pub(crate) fn files(root: &Path, extension: &str) -> Vec<PathBuf> {
    let walk = WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(|entry| {
        let name = entry.file_name().to_string_lossy();
        entry.depth() == 0 || !(name.starts_with('.') || name == "target" || name == "phalanx-report")
    });
    let paths = walk.filter_map(Result::ok).map(walkdir::DirEntry::into_path);
    let paths = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    paths.filter_map(|path| path.strip_prefix(root).map(Path::to_path_buf).ok()).collect()
}

/// Reads a file of the workspace.
///
/// # Errors
/// If it cannot be read; the error names it.
pub(crate) fn read(root: &Path, file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {}", root.join(file).display()))
}
