//! The log of a replica: records in groups, one sync each, replaced as a whole when older records can go.
//!
//! A vote leaves only once its record is durable, so the log must never lose one that was: a file that ends before its mark is
//! refused. Nothing is searched for: what users store cannot pass for a record.

use crate::append::{
    HEAD, Held, Link, Mark, Place, START, Unfit, Unopened, beginning, beside, frame, keep, length, link,
    open_or_create, promise, put_at, read_mark, sync_folder, unframe,
};
use alloy_primitives::Bytes;
use std::{
    fs::OpenOptions,
    io::{self, BufReader, Read, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

/// First bytes of a log.
const MAGIC: &[u8; 8] = b"PHXWAL_1";

/// Length from which on a replacement begins another group, in bytes: opening needs memory for one group more.
const MOST_GROUP: usize = 16 << 20;

/// Reason why a log cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalError {
    /// The file cannot be opened, read or written. After a failed write the log has to be opened again.
    #[error("the log {path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another process holds the file.
    #[error("the log {path} is in use by another process")]
    Locked {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is no log, one of another version, or its first bytes are damaged.
    #[error("{path} is no log of this version, or its first bytes are damaged: it is left as it is")]
    Format {
        /// Path of the file.
        path: PathBuf,
    },
    /// A promised group is damaged or missing, or both marks are. A crash cannot do that.
    #[error(
        "the log {path} has lost records that were durable, from byte {at} on: a replica without them may contradict its \
         votes, so let it rejoin under new keys; restore another log, or let the node get its blocks from others"
    )]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the damage, in bytes.
        at: u64,
    },
    /// A record is too long.
    #[error("a record of {bytes} bytes does not fit into the log {path}")]
    TooLong {
        /// Path of the file.
        path: PathBuf,
        /// Length of the group with the record, in bytes.
        bytes: usize,
    },
    /// An earlier write failed.
    #[error("an earlier write to the log {path} failed: open it again")]
    Broken {
        /// Path of the file.
        path: PathBuf,
    },
}

/// Moment at which appended records survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// At the return of the append, a power cut.
    Always,
    /// At the return of the append, a crash of the process. A power cut may lose a suffix.
    Never,
}

/// A write-ahead log in a file.
///
/// Opening reads the whole file, and cuts off a last group that was never promised. Time and memory of everything else are in
/// proportion to the records handed in.
#[derive(Debug)]
pub struct Wal {
    file: Held,
    path: PathBuf,
    sync: Sync,
    /// Number of groups, end of the last one in bytes, and its link.
    groups: u64,
    end: u64,
    link: Link,
    /// Bytes that were cut off at opening.
    torn: u64,
    /// True after a failed write: the end of the file is unknown then.
    broken: bool,
}

impl Wal {
    /// Opens a log, or creates an empty one if there is no file. Returns its records, oldest first.
    ///
    /// # Errors
    /// [`WalError`]. A damaged file is left as it is.
    pub fn open(path: impl Into<PathBuf>, sync: Sync) -> Result<(Self, Vec<Bytes>), WalError> {
        let mut records = Vec::new();
        let wal = Self::scan(path.into(), MAGIC, sync, |_, group| {
            records.extend(group);
            true
        })?;
        Ok((wal, records))
    }

    /// Opens a file of the kind that `magic` names, and hands each group to `each` with its place. A group that `each` refuses is
    /// damage: its checksums fit, so only a fault of the program could have written it.
    pub(crate) fn scan(
        path: PathBuf,
        magic: &[u8; 8],
        sync: Sync,
        mut each: impl FnMut(Place, Vec<Bytes>) -> bool,
    ) -> Result<Self, WalError> {
        let failed = |source| WalError::Io { path: path.clone(), source };
        let file = open_or_create(&path, magic).map_err(|unopened| match unopened {
            Unopened::Locked => WalError::Locked { path: path.clone() },
            Unopened::Io(source) => failed(source),
        })?;
        (&*file).seek(SeekFrom::Start(0)).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut reader = BufReader::with_capacity(1 << 16, &*file);
        let mut head = Vec::with_capacity(START);
        (&mut reader).take(START as u64).read_to_end(&mut head).map_err(failed)?;
        let mark = read_mark(&head, magic).map_err(|unfit| match unfit {
            Unfit::Format => WalError::Format { path: path.clone() },
            Unfit::Damaged => WalError::Corrupt { path: path.clone(), at: 0 },
        })?;
        let mut place = Place { at: START as u64, after: Link::default() };
        let (mut groups, mut begin) = (0, place.at);
        while let Some((bytes, next)) = read_group(&mut reader, size, &place).map_err(failed)? {
            if !split(&bytes).is_some_and(|group| each(place, group)) {
                return Err(WalError::Corrupt { path, at: place.at });
            }
            (begin, place, groups) = (place.at, next, groups + 1);
        }
        if place.at < mark.end {
            return Err(WalError::Corrupt { path, at: place.at });
        }
        let torn = size - place.at;
        if torn > 0 {
            keep(&file, &path, place.at).map_err(failed)?;
            file.set_len(place.at).map_err(failed)?;
        }
        drop(reader);
        if sync == Sync::Always {
            // One of the marks may be damaged, or one behind.
            promise(&*file, &Mark { height: groups, begin, end: place.at }).map_err(failed)?;
        }
        let wal =
            Self { file, path: path.clone(), sync, groups, end: place.at, link: place.after, torn, broken: false };
        wal.file.sync_all().and_then(|()| sync_folder(&path)).map_err(failed)?;
        Ok(wal)
    }

    /// Place of the next group.
    pub(crate) const fn place(&self) -> Place {
        Place { at: self.end, after: self.link }
    }

    /// Records of the group at a place; `None` if it is not what was written there.
    pub(crate) fn read(&self, place: &Place) -> io::Result<Option<Vec<Bytes>>> {
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(place.at))?;
        Ok(read_group(&mut file, self.end, place)?.and_then(|(bytes, _)| split(&bytes)))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends records as one group, all or none after a crash. Returns when they are as durable as [`Sync`] says.
    ///
    /// # Errors
    /// [`WalError`]. After a failed write the log refuses all others until it is opened again.
    pub fn append(&mut self, records: &[Bytes]) -> Result<(), WalError> {
        if self.broken {
            return Err(WalError::Broken { path: self.path.clone() });
        }
        if records.is_empty() {
            return Ok(());
        }
        let framed = frame(&self.place(), |out| join(records, out));
        let bytes = || records.iter().map(|record| record.len()).sum();
        let (group, link) = framed.ok_or_else(|| WalError::TooLong { path: self.path.clone(), bytes: bytes() })?;
        self.broken = true;
        let written = put_at(&self.file, self.end, &group).and_then(|()| self.promise(&group));
        written.map_err(|source| WalError::Io { path: self.path.clone(), source })?;
        self.broken = false;
        (self.groups, self.end, self.link) = (self.groups + 1, self.end + group.len() as u64, link);
        Ok(())
    }

    /// Makes a written group durable, and marks it.
    fn promise(&self, group: &[u8]) -> io::Result<()> {
        if self.sync == Sync::Never {
            return Ok(());
        }
        self.file.sync_data()?;
        let mark = Mark { height: self.groups + 1, begin: self.end, end: self.end + group.len() as u64 };
        // Durable with the next sync: a mark never names more than is durable.
        put_at(&self.file, Mark::page(mark.height), &mark.encode())
    }

    /// Replaces all records, at once after a crash.
    ///
    /// # Errors
    /// [`WalError`]. The old file stays in its place, or the new one is whole; if it is unknown which, the log refuses all others
    /// until it is opened again.
    pub fn replace(&mut self, records: &[Bytes]) -> Result<(), WalError> {
        if self.broken {
            return Err(WalError::Broken { path: self.path.clone() });
        }
        let path = self.path.clone();
        let failed = |source| WalError::Io { path: path.clone(), source };
        let new = beside(&self.path, ".next");
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&new);
        let file = options.map_err(failed)?;
        // The lock of the new file is held before it has the name.
        let file = Held::take(file).map_err(|_| WalError::Locked { path: self.path.clone() })?;
        put_at(&file, 0, &beginning(MAGIC)).map_err(failed)?;
        let mut next = Self::empty(file, self.path.clone());
        let mut group = Vec::new();
        let mut bytes = 0;
        let mut begin = next.end;
        for record in records {
            bytes += record.len();
            group.push(record.clone());
            if bytes >= MOST_GROUP {
                begin = next.end;
                next.append(&group)?;
                (group, bytes) = (Vec::new(), 0);
            }
        }
        if !group.is_empty() {
            begin = next.end;
            next.append(&group)?;
        }
        if next.groups > 0 && self.sync == Sync::Always {
            let mark = Mark { height: next.groups, begin, end: next.end };
            put_at(&next.file, Mark::page(mark.height), &mark.encode()).map_err(failed)?;
        }
        next.file.sync_all().map_err(failed)?;
        // From here on it is unknown which of the two files a crash leaves: records appended to either may be lost.
        self.broken = true;
        std::fs::rename(&new, &self.path).and_then(|()| sync_folder(&self.path)).map_err(failed)?;
        (next.sync, next.torn) = (self.sync, self.torn);
        *self = next;
        Ok(())
    }

    /// The log of a file that has nothing but its beginning.
    fn empty(file: Held, path: PathBuf) -> Self {
        let (groups, end, link, torn, broken) = (0, START as u64, Link::default(), 0, false);
        Self { file, path, sync: Sync::Never, groups, end, link, torn, broken }
    }

    /// Length of the file, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end
    }

    /// Number of bytes of a last group that a crash had torn, cut off and kept in a file beside the log when it was opened.
    #[must_use]
    pub const fn torn(&self) -> u64 {
        self.torn
    }
}

/// Reads the next group and the place behind it; `None` if it is not whole.
fn read_group(reader: &mut impl Read, size: u64, place: &Place) -> io::Result<Option<(Vec<u8>, Place)>> {
    let left = size.saturating_sub(place.at);
    let mut head = [0; HEAD];
    if left < HEAD as u64 {
        return Ok(None);
    }
    reader.read_exact(&mut head)?;
    let Some(length) = length(&head, place).filter(|length| *length <= left) else { return Ok(None) };
    let mut bytes = head.to_vec();
    bytes.resize(length as usize, 0);
    reader.read_exact(&mut bytes[HEAD..])?;
    let next = Place { at: place.at + length, after: link(&head) };
    Ok(unframe(&bytes, place).map(|(body, _)| (body.to_vec(), next)))
}

/// Appends records to the body of a group, each behind its length. `None` for a record that is too long.
fn join(records: &[Bytes], out: &mut Vec<u8>) -> Option<()> {
    for record in records {
        out.extend_from_slice(&u32::try_from(record.len()).ok()?.to_be_bytes());
        out.extend_from_slice(record);
    }
    Some(())
}

/// Records of a group's body.
fn split(mut body: &[u8]) -> Option<Vec<Bytes>> {
    let mut records = Vec::new();
    while let Some((length, rest)) = body.split_first_chunk::<4>() {
        let (record, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        records.push(Bytes::copy_from_slice(record));
        body = rest;
    }
    body.is_empty().then_some(records)
}
