//! Paths of recorded inputs.

use std::path::{Path, PathBuf};

/// A file or folder that is part of the repository.
pub(crate) fn committed(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(part)
}

/// A part of the large collections: below `PHALANX_FIXTURES`, or `shared` beside the repository. If it is missing, prints what
/// is skipped; with `PHALANX_REQUIRE_FIXTURES=1` it fails.
pub(crate) fn collection(part: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let path = std::env::var_os("PHALANX_FIXTURES").map_or_else(beside, PathBuf::from).join(part);
    if path.exists() {
        return Some(path);
    }
    let required = std::env::var_os("PHALANX_REQUIRE_FIXTURES").is_some_and(|value| value == "1");
    assert!(!required, "{} is missing", path.display());
    eprintln!("skipped: {} is not there", path.display());
    None
}

/// A copy of a folder of files.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
