//! Direct I/O, which bypasses the page cache: finds out if a file system supports it.

use std::path::Path;

/// Tries direct I/O in a directory, with an unnamed file where possible, and opens what RocksDB reads at open in the
/// same mode.
///
/// Some file systems refuse to open such files, and some to read or write them; `false` is always safe.
#[cfg(target_os = "linux")]
pub(super) fn bypasses_page_cache(dir: &Path) -> bool {
    use std::{
        fs::OpenOptions,
        io::ErrorKind,
        os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    };

    /// Direct I/O needs aligned memory.
    #[repr(align(4096))]
    struct Page([u8; 4096]);

    let open =
        |path: &Path, flags| OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT | flags).open(path);
    let named = |path: &Path| {
        open(path, libc::O_CREAT | libc::O_EXCL).inspect_err(|error| {
            // Some file systems create the file before they refuse.
            if error.kind() != ErrorKind::AlreadyExists {
                let _ = std::fs::remove_file(path);
            }
        })
    };
    let file = match open(dir, libc::O_TMPFILE) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            tempfile::Builder::new().make_in(dir, named).map(tempfile::NamedTempFile::into_file)
        }
        tried => tried,
    };
    let mut page = Page([0; 4096]);
    let works = file.and_then(|file| {
        file.write_all_at(&Page([7; 4096]).0, 0)?;
        file.read_exact_at(&mut page.0, 0)
    });
    let current = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(dir.join("CURRENT"));
    works.is_ok() && page.0 == [7; 4096] && current.map_or_else(|error| error.kind() == ErrorKind::NotFound, |_| true)
}

#[cfg(not(target_os = "linux"))]
pub(super) const fn bypasses_page_cache(_: &Path) -> bool {
    false
}

#[cfg(all(test, target_os = "linux", feature = "rocksdb"))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn trying_direct_io_leaves_no_file_behind() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = bypasses_page_cache(dir.path());
        assert_eq!(bypasses_page_cache(dir.path()), first, "it is a property of the file system");
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);
        assert!(!bypasses_page_cache(&dir.path().join("absent")));
    }
}
