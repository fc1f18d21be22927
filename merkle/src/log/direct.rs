//! Whether files can be written past the system's page cache.

use std::path::Path;

/// Tries it in a directory, with a file that has no name any more when it is written. Some file systems refuse to open such a
/// file and some to write it; `false` is never wrong.
#[cfg(target_os = "linux")]
pub(super) fn bypasses_page_cache(dir: &Path) -> bool {
    use std::{fs::OpenOptions, io::Write as _, os::unix::fs::OpenOptionsExt as _};

    /// Such writes are aligned, in memory too.
    #[repr(align(4096))]
    struct Page([u8; 4096]);

    let path = dir.join("direct-io-probe");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
    let file = options.open(&path);
    // Also where opening failed: some file systems have made it by then.
    let removed = std::fs::remove_file(&path);
    file.and_then(|mut file| file.write_all(&Page([0; 4096]).0)).and(removed).is_ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) const fn bypasses_page_cache(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = bypasses_page_cache(dir.path());
        assert_eq!(bypasses_page_cache(dir.path()), first, "it is a property of the file system");
        assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0);
        assert!(!bypasses_page_cache(&dir.path().join("absent")));
    }
}
