//! A segment, one file of the log: its head first, which names the store, its parameters and the segment's number; then
//! frames.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, atomic::AtomicU64},
};

use phalanx_merkle_proof::Params;

use crate::{
    log::disk::{Disk, at},
    log::record::{Marks, Other, check_head, encode_head},
    types::{Error, Step},
};

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    /// Opened for appending unless the log is only read; also read at offsets.
    pub(super) file: Arc<File>,
    /// Parts that reads need, which wait for no write.
    pub(super) readable: Arc<Readable>,
    /// Length in bytes, buffered bytes included.
    pub(super) len: u64,
    /// Highest block id in the segment.
    pub(super) last_id: u64,
    /// True if the head is not whole: the segment's creation was interrupted.
    pub(super) begun: bool,
}

/// Segment as it is read.
#[derive(Debug)]
pub(super) struct Readable {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    pub(super) file: Arc<File>,
    /// The file, opened past the page cache on first use.
    pub(super) direct: OnceLock<Arc<File>>,
    /// Bytes that were made durable since the log was opened; all of them once the next segment begins. Stored after the sync.
    pub(super) durable: AtomicU64,
}

impl Readable {
    fn new(number: u32, path: &Path, file: &Arc<File>) -> Arc<Self> {
        let (direct, durable) = (OnceLock::new(), AtomicU64::new(0));
        Arc::new(Self { number, path: path.to_path_buf(), file: Arc::clone(file), direct, durable })
    }
}

/// Opens a file for reading and appending; creates it if `create`.
pub(super) fn append(path: &Path, create: bool) -> Result<File, Error> {
    OpenOptions::new().read(true).append(true).create(create).open(path).map_err(at(path))
}

/// Opens a file that must be there.
pub(super) fn existing(path: &Path, writes: bool) -> Result<File, Error> {
    OpenOptions::new().read(true).append(writes).open(path).map_err(at(path))
}

pub(super) fn corrupt(path: &Path, what: String) -> Error {
    Error::Corrupt { path: path.to_path_buf(), what }
}

/// Number of the segment with this name.
pub(in crate::log) fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".seg").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let number = digits.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

fn name_of(number: u32) -> String {
    format!("{number:08}.seg")
}

/// Numbers of all segments in a directory, without gaps.
pub(super) fn numbers(dir: &Path) -> Result<Vec<u32>, Error> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(at(dir))? {
        numbers.extend(entry.map_err(at(dir))?.file_name().to_str().and_then(number_of));
    }
    numbers.sort_unstable();
    if let Some(gap) = numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        return Err(corrupt(dir, format!("segment {} is missing", gap[0] + 1)));
    }
    Ok(numbers)
}

/// First record of a segment, as its file has it.
pub(in crate::log) fn params_row(dir: &Path) -> Result<Option<Vec<u8>>, Error> {
    let Some(first) = numbers(dir)?.first().copied() else { return Ok(None) };
    let path = dir.join(name_of(first));
    let len = encode_head(&Params::default(), &Marks::PLAIN, first).bytes.len() as u64;
    let mut row = Vec::new();
    File::open(&path).and_then(|file| file.take(len).read_to_end(&mut row)).map_err(at(&path))?;
    Ok(Some(row))
}

impl Segment {
    /// Opens a segment that is there.
    ///
    /// # Errors
    /// [`Error::Format`], [`Error::Corrupt`], [`Error::Io`].
    pub(super) fn open(dir: &Path, number: u32, params: &Params, marks: &Marks, writes: bool) -> Result<Self, Error> {
        let path = dir.join(name_of(number));
        let mut file = existing(&path, writes)?;
        let head = encode_head(params, marks, number).bytes;
        let mut found = Vec::new();
        (&mut file).take(head.len() as u64).read_to_end(&mut found).map_err(at(&path))?;
        let len = file.metadata().map_err(at(&path))?.len();
        let same = found.iter().zip(&head).take_while(|(found, expected)| found == expected).count();
        // Its creation was interrupted, perhaps by power loss before its bytes were durable.
        let begun = found != head && len <= head.len() as u64 && found[same..].iter().all(|byte| *byte == 0);
        if !begun {
            check_head(&found, &head, params).map_err(|other| match other {
                Other::Params(found, expected) => Error::Format { path: path.clone(), found, expected },
                Other::Damage(what) => corrupt(&path, what.into()),
            })?;
        }
        let file = Arc::new(file);
        Ok(Self {
            number,
            readable: Readable::new(number, &path, &file),
            path,
            file,
            len: head.len() as u64,
            last_id: 0,
            begun,
        })
    }

    /// Creates a segment.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn create(dir: &Path, number: u32, params: &Params, marks: &Marks, disk: &Disk) -> Result<Self, Error> {
        let path = dir.join(name_of(number));
        let file = Arc::new(append(&path, true)?);
        let len = encode_head(params, marks, number).bytes.len() as u64;
        let readable = Readable::new(number, &path, &file);
        let mut segment = Self { number, path, file, readable, len, last_id: 0, begun: true };
        segment.begin(dir, params, marks, disk)?;
        Ok(segment)
    }

    /// Writes the head of a segment whose creation was interrupted.
    pub(super) fn begin(&mut self, dir: &Path, params: &Params, marks: &Marks, disk: &Disk) -> Result<(), Error> {
        disk.cut(&self.file, &self.path, 0)?;
        disk.append(&self.file, &self.path, &encode_head(params, marks, self.number).bytes)?;
        disk.sync(&self.file, &self.path)?;
        disk.sync_names(dir)?;
        self.begun = false;
        Ok(())
    }
}

/// Lengths of the files of segments.
pub(super) fn lengths(segments: &[Segment]) -> Result<Vec<u64>, Error> {
    segments.iter().map(|segment| segment.file.metadata().map(|meta| meta.len()).map_err(at(&segment.path))).collect()
}

/// Opens all segments of a log, with the lengths of their files. A segment that is pruned meanwhile, by a node that runs, is no
/// damage: those before it are gone as well, and the promise says where the log begins.
///
/// # Errors
/// Errors of [`Segment::open`].
pub(super) fn open_segments(opening: &Segments<'_>) -> Result<(Vec<Segment>, Vec<u64>), Error> {
    const TRIES: u32 = 16;
    for _ in 1..TRIES {
        match opening.open() {
            Err(_) if !opening.writes => {}
            opened => return opened,
        }
    }
    opening.open()
}

/// Segments that are to be opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segments<'o> {
    pub(super) dir: &'o Path,
    pub(super) params: &'o Params,
    pub(super) marks: &'o Marks,
    pub(super) disk: &'o Disk,
    pub(super) writes: bool,
}

impl Segments<'_> {
    fn segment(&self, number: u32) -> Result<Segment, Error> {
        self.disk.ask(Step::Read(&self.dir.join(name_of(number))))?;
        Segment::open(self.dir, number, self.params, self.marks, self.writes)
    }

    /// Opens the segments from the last one backwards, up to one that was pruned meanwhile.
    fn backwards(&self) -> Result<Vec<Segment>, Error> {
        let mut opened = Vec::new();
        for number in numbers(self.dir)?.into_iter().rev() {
            match self.segment(number) {
                Err(Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && !self.writes && !opened.is_empty() =>
                {
                    break;
                }
                segment => opened.push(segment?),
            }
        }
        opened.reverse();
        Ok(opened)
    }

    /// Opens the segments, and follows a writer until none was added. What is missing in front was pruned for a tip that the
    /// lengths hold; an earlier tip may need it.
    fn open(&self) -> Result<(Vec<Segment>, Vec<u64>), Error> {
        let mut opened = self.backwards()?;
        loop {
            let ends = lengths(&opened)?;
            let Some(last) = opened.last().map(|segment| segment.number).filter(|_| !self.writes) else {
                return Ok((opened, ends));
            };
            let later: Vec<u32> = numbers(self.dir)?.into_iter().filter(|number| *number > last).collect();
            let goes_on = |(segment, end): (&Segment, &u64)| segment.begun && *end > segment.len;
            if later.is_empty() && !opened.iter().zip(&ends).any(goes_on) {
                return Ok((opened, ends));
            }
            if later.first().is_some_and(|first| *first != last + 1) {
                return Err(corrupt(self.dir, format!("segment {} is missing", last + 1)));
            }
            for segment in opened.iter_mut().filter(|segment| segment.begun) {
                *segment = self.segment(segment.number)?;
            }
            for number in later {
                opened.push(self.segment(number)?);
            }
        }
    }
}
