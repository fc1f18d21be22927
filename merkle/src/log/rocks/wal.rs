//! Checks RocksDB's write-ahead logs before RocksDB opens them: it would take the first bad record anywhere for the end,
//! and delete the rest.
//!
//! A log is a row of blocks of 32 KiB, which records never cross: a record is split into fragments, each with a checksum.
//! So whatever users store, every block begins with a fragment that RocksDB wrote.
//!
//! ```text
//! fragment = masked crc32c || len || kind || (number of the log, for kinds of reused logs) || data      (little endian)
//! ```

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
};

use crate::{
    log::disk::{Disk, at},
    log::frames::read_at,
    log::promise::{Promise, same_boot},
    log::record::{Fields, Kind, Marks},
    log::torn::keep,
    types::{Error, Step},
};

const BLOCK: usize = 32 << 10;

/// Bytes of a fragment before its data, and of one in a reused log.
const HEADER: usize = 7;
const LONG_HEADER: usize = 11;

/// Torn end of the last log.
#[derive(Debug)]
pub(super) struct TornWal {
    pub(super) path: PathBuf,
    pub(super) from: u64,
    pub(super) end: u64,
}

impl TornWal {
    /// Keeps the torn end beside the log, if there is room, cuts it off, and returns the path of the copy.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn cut_off(&self, disk: &Disk) -> Result<Option<PathBuf>, Error> {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&self.path).map_err(at(&self.path))?;
        let kept = keep(&file, &self.path, self.from, self.end, disk)?;
        disk.cut(&file, &self.path, self.from)?;
        disk.sync(&file, &self.path)?;
        Ok(kept)
    }
}

/// Kind of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Full,
    First,
    Middle,
    Last,
    /// Record about the log itself.
    About,
}

impl Part {
    /// Kind, and length of the header.
    const fn of(id: u8) -> Option<(Self, usize)> {
        Some(match id {
            1 => (Self::Full, HEADER),
            2 => (Self::First, HEADER),
            3 => (Self::Middle, HEADER),
            4 => (Self::Last, HEADER),
            5 => (Self::Full, LONG_HEADER),
            6 => (Self::First, LONG_HEADER),
            7 => (Self::Middle, LONG_HEADER),
            8 => (Self::Last, LONG_HEADER),
            9 | 10 | 130 => (Self::About, HEADER),
            11 | 131 => (Self::About, LONG_HEADER),
            _ => return None,
        })
    }
}

/// Fragment of a log.
#[derive(Clone, Copy, Debug)]
struct Fragment {
    part: Part,
    /// Length of header and data.
    len: usize,
}

/// Reads the fragment at the begin of `bytes`, if it is whole.
fn fragment(bytes: &[u8]) -> Option<Fragment> {
    let [a, b, c, d, low, high, id] = *bytes.first_chunk::<HEADER>()?;
    let (part, header) = Part::of(id)?;
    let len = header + usize::from(u16::from_le_bytes([low, high]));
    let covered = bytes.get(6..len)?;
    (unmasked(u32::from_le_bytes([a, b, c, d])) == crc32c::crc32c(covered)).then_some(Fragment { part, len })
}

/// RocksDB masks checksums, because it sums data with embedded sums.
const fn unmasked(masked: u32) -> u32 {
    masked.wrapping_sub(0xa282_ead8).rotate_right(17)
}

/// Result of reading one log.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// All records are whole.
    Whole,
    /// The log ends in the record at this offset.
    Torn(u64),
    /// The fragment at the first offset is bad, and whole records follow, or it has all its bytes.
    Damaged(u64),
}

/// Logs and records of RocksDB as bytes that are read a block at a time.
struct Blocks<'f> {
    file: &'f File,
    len: u64,
}

impl Blocks<'_> {
    /// Block that contains an offset, and its own offset.
    fn at(&self, offset: u64) -> std::io::Result<(u64, Vec<u8>)> {
        let begin = offset / BLOCK as u64 * BLOCK as u64;
        let mut bytes = vec![0; (self.len - begin).min(BLOCK as u64) as usize];
        let read = read_at(self.file, &mut bytes, begin)?;
        bytes.truncate(read);
        Ok((begin, bytes))
    }
}

/// Store of a log, as far as it tells damage from a torn end.
#[derive(Clone, Copy, Debug)]
struct Origin<'m> {
    marks: &'m Marks,
    /// True if no power cut came since: all bytes are there up to the log's end.
    in_order: bool,
}

/// Reads a log from its begin.
fn read(file: &File, len: u64, of: Origin<'_>) -> std::io::Result<End> {
    let blocks = Blocks { file, len };
    let (mut record, mut open, mut begin) = (0u64, false, 0u64);
    while begin < len {
        let (_, bytes) = blocks.at(begin)?;
        let mut at = 0;
        // RocksDB fills what has no room for a header with zeros.
        while at + HEADER <= bytes.len() {
            let offset = begin + at as u64;
            let fits = |part| match part {
                Part::Full | Part::First => !open,
                Part::Middle | Part::Last => open,
                Part::About => true,
            };
            let Some(Fragment { part, len }) = fragment(&bytes[at..]).filter(|found| fits(found.part)) else {
                let from = if open { record } else { offset };
                return Ok(if is_damage(&blocks, offset, of)? { End::Damaged(offset) } else { End::Torn(from) });
            };
            if matches!(part, Part::Full | Part::First) {
                record = offset;
            }
            open = match part {
                Part::First => true,
                Part::Last => false,
                Part::Full | Part::Middle | Part::About => open,
            };
            at += len;
        }
        let rest = &bytes[at..];
        let last = begin + bytes.len() as u64 >= len;
        // Padding is read by nothing.
        if last && !rest.is_empty() && bytes.len() < BLOCK {
            let (offset, from) = (begin + at as u64, if open { record } else { begin + at as u64 });
            return Ok(if is_damage(&blocks, offset, of)? { End::Damaged(offset) } else { End::Torn(from) });
        }
        begin += BLOCK as u64;
    }
    Ok(if open { End::Torn(record) } else { End::Whole })
}

/// Returns true if a bad fragment is no torn end: a whole record begins behind it, or all its bytes are there.
fn is_damage(blocks: &Blocks<'_>, bad: u64, of: Origin<'_>) -> std::io::Result<bool> {
    let Origin { marks, in_order } = of;
    let (begin, bytes) = blocks.at(bad)?;
    let rest = &bytes[(bad - begin) as usize..];
    let mut seqs = BTreeSet::new();
    collect(rest, marks, &mut seqs);
    // Only the length is damaged: with the length up to the end of the block the checksum fits. What users store can have it
    // fit wherever a crash may tear it, but ends with no row.
    let is_whole = begin + (bytes.len() as u64) < blocks.len || !seqs.is_empty() || !marks.is_secret();
    if is_whole
        && let Some([a, b, c, d, ..]) = rest.first_chunk::<HEADER>()
        && unmasked(u32::from_le_bytes([*a, *b, *c, *d])) == crc32c::crc32c(&rest[6..])
    {
        return Ok(true);
    }
    // The length is sound, so fragments follow each other behind it.
    if let Some([.., low, high, id]) = rest.first_chunk::<HEADER>() {
        let header = Part::of(*id).map_or(HEADER, |(_, header)| header);
        let mut at = header + usize::from(u16::from_le_bytes([*low, *high]));
        while let Some(found) = rest.get(at..).and_then(fragment) {
            if matches!(found.part, Part::Full | Part::First) {
                return Ok(true);
            }
            at += found.len;
        }
    }
    // The begins of blocks are fragments, whatever was stored.
    let mut next = begin + BLOCK as u64;
    loop {
        // Rows of two writes: at least one write is behind the bad one.
        if seqs.len() > 1 {
            return Ok(true);
        }
        if next >= blocks.len {
            return Ok(false);
        }
        let (_, block) = blocks.at(next)?;
        let mut at = 0;
        while let Some(found) = block.get(at..).and_then(fragment) {
            if in_order || matches!(found.part, Part::Full | Part::First) {
                return Ok(true);
            }
            at += found.len;
        }
        // A row may cross the blocks' border, but its first bytes rarely do.
        collect(&block, marks, &mut seqs);
        next += BLOCK as u64;
    }
}

/// Collects the numbers of the writes whose rows begin in these bytes.
fn collect(bytes: &[u8], marks: &Marks, seqs: &mut BTreeSet<u64>) {
    // Without a secret anything can look like a row.
    if !marks.is_secret() {
        return;
    }
    for (kind, mark) in [(Kind::Block, marks.block), (Kind::Tip, marks.tip)] {
        let needle = [&[kind as u8], mark.as_slice()].concat();
        for (at, _) in bytes.windows(needle.len()).enumerate().filter(|(_, found)| *found == &needle[..]) {
            seqs.extend(Fields(&bytes[at + needle.len()..]).u64());
        }
    }
}

/// Paths of the logs in a directory, by number.
fn logs(dir: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let mut logs = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(at(dir))? {
        let entry = entry.map_err(at(dir))?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|name| name.parse::<u64>().ok());
        logs.extend(number.map(|number| (number, entry.path())));
    }
    logs.sort_unstable();
    Ok(logs)
}

/// Returns true if the directory has a log.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn is_there(dir: &Path) -> Result<bool, Error> {
    logs(dir).map(|logs| !logs.is_empty())
}

/// Checks the logs of the database in a directory, and the log of its own records. Changes nothing.
///
/// # Errors
/// [`Error::Corrupt`], which names file and offset; [`Error::Io`].
pub(super) fn check(dir: &Path, marks: &Marks, promise: &Promise, disk: &Disk) -> Result<Option<TornWal>, Error> {
    let of = Origin { marks, in_order: same_boot(promise) };
    let logs = logs(dir)?;
    let mut torn: Option<TornWal> = None;
    for (_, path) in logs {
        disk.ask(Step::Read(&path))?;
        let (file, len) = match File::open(&path).and_then(|file| file.metadata().map(|meta| (file, meta.len()))) {
            Ok(opened) => opened,
            // A node that runs removes logs that it needs no longer.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(at(&path)(error)),
        };
        if len == 0 {
            continue;
        }
        if let Some(TornWal { path, from, .. }) = torn {
            return Err(Error::Corrupt { path, what: format!("bad record at byte {from}, and logs follow") });
        }
        match read(&file, len, of).map_err(at(&path))? {
            End::Whole => {}
            End::Torn(from) => torn = Some(TornWal { path, from, end: len }),
            End::Damaged(offset) => {
                let what = format!("bad record at byte {offset} of {len}, and more follows it");
                return Err(Error::Corrupt { path, what });
            }
        }
    }
    check_manifest(dir, of, disk)?;
    Ok(torn)
}

/// Checks the log of the database's own records: one whose bytes are all there is no torn one.
fn check_manifest(dir: &Path, of: Origin<'_>, disk: &Disk) -> Result<(), Error> {
    let current = dir.join("CURRENT");
    let name = match std::fs::read(&current) {
        Ok(name) => name,
        // RocksDB says what is missing.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(&current)(error)),
    };
    let number = name.strip_prefix(b"MANIFEST-").and_then(|rest| rest.strip_suffix(b"\n"));
    let Some(number) = number.filter(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit)) else {
        return Err(Error::Corrupt { path: current, what: "it names no log of the database's records".into() });
    };
    let path = dir.join(format!("MANIFEST-{}", String::from_utf8_lossy(number)));
    let opened = File::open(&path).and_then(|file| file.metadata().map(|meta| (file, meta.len())));
    // RocksDB says what is missing.
    let Ok((file, len)) = opened else { return Ok(()) };
    disk.ask(Step::Read(&path))?;
    match read(&file, len, of).map_err(at(&path))? {
        End::Whole | End::Torn(_) => Ok(()),
        End::Damaged(offset) => Err(Error::Corrupt { path, what: format!("bad record at byte {offset} of {len}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocksdb::{DB, Options};

    /// Every flipped bit and every cut of a log is told apart as RocksDB wrote it.
    #[test]
    fn a_log_that_rocksdb_wrote_is_whole_torn_or_damaged() {
        let dir = tempfile::tempdir().expect("a folder");
        let db = DB::open_default(dir.path()).expect("a database");
        let lens = [10usize, 4000, 70_000, 32_000, 1, 200];
        for (key, len) in lens.iter().enumerate() {
            db.put([key as u8], vec![7 * key as u8; *len]).expect("a write");
        }
        drop(db);
        drop(DB::open_for_read_only(&Options::default(), dir.path(), false).expect("readable"));
        let log = std::fs::read_dir(dir.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
        let log = log.filter(|path| path.extension().is_some_and(|end| end == "log")).max().expect("a log");
        let bytes = std::fs::read(&log).expect("the log");
        let copy = dir.path().join("copy");
        let end_of = |bytes: &[u8], in_order| {
            std::fs::write(&copy, bytes).expect("a write");
            let file = File::open(&copy).expect("the copy");
            read(&file, bytes.len() as u64, Origin { marks: &Marks::PLAIN, in_order }).expect("a read")
        };
        let end = |bytes: &[u8]| end_of(bytes, false);
        assert_eq!(end(&bytes), End::Whole);
        // The last record is short; a flip in any other is followed by it.
        let last = bytes.len() - 200 - 40;
        for at in (0..bytes.len()).step_by(61).chain(last..bytes.len()) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let found = end(&flipped);
            assert!(found != End::Whole, "byte {at}");
            assert!(at >= last || matches!(found, End::Damaged(_)), "byte {at}: {found:?}");
        }
        for cut in (0..bytes.len()).step_by(97) {
            for in_order in [false, true] {
                match end_of(&bytes[..cut], in_order) {
                    End::Whole => {}
                    End::Torn(from) => {
                        assert!(from < cut as u64 && end(&bytes[..from as usize]) == End::Whole, "{cut}")
                    }
                    End::Damaged(at) => panic!("cut at {cut}: damaged at {at}"),
                }
            }
        }
    }

    /// A damaged length is told in the last record, too, if no power cut came since.
    #[test]
    fn a_damaged_length_of_the_last_record_is_no_torn_end() {
        let dir = tempfile::tempdir().expect("a folder");
        for len in [300, 50_000, 100_000] {
            let place = dir.path().join(len.to_string());
            let db = DB::open_default(&place).expect("a database");
            db.put([1], vec![1; 20_000]).expect("a write");
            db.put([2], vec![2; len]).expect("a write");
            drop(db);
            let log = logs(&place).expect("a folder").pop().expect("a log").1;
            let bytes = std::fs::read(&log).expect("the log");
            let mut at = fragment(&bytes).expect("the first record").len;
            while let Some(found) = fragment(&bytes[at..bytes.len().min(at / BLOCK * BLOCK + BLOCK)]) {
                for bit in 0..16 {
                    let mut flipped = bytes.clone();
                    flipped[at + 4 + bit / 8] ^= 1 << (bit % 8);
                    std::fs::write(&log, &flipped).expect("a write");
                    let file = File::open(&log).expect("the log");
                    let end = read(&file, bytes.len() as u64, Origin { marks: &Marks::PLAIN, in_order: true });
                    assert_eq!(end.expect("a read"), End::Damaged(at as u64), "bit {bit} of {len}");
                }
                at += found.len;
                at = if BLOCK - at % BLOCK < HEADER { at.next_multiple_of(BLOCK) } else { at };
            }
            assert_eq!(at, bytes.len());
        }
    }
}
