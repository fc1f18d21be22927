//! The log as one append-only file of frames. A block's row is written last and is what makes its extents count; what
//! follows the last block row was torn and is cut off when the file is opened.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Batch, Log, Replay};
use crate::{
    Durability, Error, Params,
    row::{
        BLOCK_MAGIC, BlockRow, FRAME_HEADER, Kind, Rows, check_params, encode_params, extent_head, frame_body,
        frame_header,
    },
};

/// Bytes that [`Durability::None`] collects before it hands them to the kernel.
const BUFFER: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct FileLog {
    path: PathBuf,
    durability: Durability,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Opened for appending and exclusively locked; the cursor serves reads.
    file: File,
    /// Bytes of the file, with what is buffered.
    len: u64,
    /// What `Durability::None` has not written yet.
    buffer: Vec<u8>,
    next_extent: u64,
    /// Per twig, the frame of the first extent that reaches into it.
    twigs: Vec<u64>,
    blocks: Vec<u64>,
    codes: HashMap<[u8; 32], u64>,
}

impl FileLog {
    /// Opens or creates the log in `dir` and cuts off a torn tail.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Format`], [`Error::Corrupt`], [`Error::Io`].
    pub(crate) fn open(dir: &Path, durability: Durability, params: &Params) -> Result<Self, Error> {
        let path = dir.join("state.log");
        let at = |source| Error::Io { path: path.clone(), source };
        std::fs::create_dir_all(dir).map_err(|source| Error::Io { path: dir.to_path_buf(), source })?;
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(at)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { path }),
            Err(TryLockError::Error(source)) => return Err(at(source)),
        }
        let begin = begin(&mut file, &path, params, dir)?;
        let mut state = State {
            file,
            len: begin,
            buffer: Vec::new(),
            next_extent: 0,
            twigs: Vec::new(),
            blocks: Vec::new(),
            codes: HashMap::new(),
        };
        state.scan(&path)?;
        Ok(Self { path, durability, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn io(&self, source: io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }

    fn corrupt(&self, at: u64) -> Error {
        corrupt(&self.path, format!("no valid row at byte {at}"))
    }

    fn body(&self, offset: u64, wanted: Kind) -> Result<Vec<u8>, Error> {
        let mut state = self.state();
        state.push_buffer().map_err(|source| self.io(source))?;
        let mut frames = Frames::new(&state.file, offset, state.len).map_err(|source| self.io(source))?;
        match frames.next().map_err(|source| self.io(source))? {
            Some((kind, body)) if kind == wanted => Ok(body.to_vec()),
            _ => Err(self.corrupt(offset)),
        }
    }
}

/// Writes or checks the first frame, and returns where the second begins.
fn begin(file: &mut File, path: &Path, params: &Params, dir: &Path) -> Result<u64, Error> {
    let at = |source| Error::Io { path: path.to_path_buf(), source };
    let expected = encode_params(params).bytes;
    let mut found = vec![0; expected.len()];
    let mut len = 0;
    while len < found.len() {
        match file.read(&mut found[len..]).map_err(at)? {
            0 => break,
            read => len += read,
        }
    }
    found.truncate(len);
    if len < expected.len() && expected.starts_with(&found) {
        // A new store, or one whose creation was interrupted.
        file.set_len(0).map_err(at)?;
        file.write_all(&expected).map_err(at)?;
        file.sync_all().map_err(at)?;
        // The file's name must survive as well.
        if let Ok(dir) = File::open(dir) {
            dir.sync_all().map_err(at)?;
        }
        return Ok(expected.len() as u64);
    }
    check_params(&found, params).map_err(|(found, expected)| Error::Format {
        path: path.to_path_buf(),
        found,
        expected,
    })?;
    Ok(len as u64)
}

fn corrupt(path: &Path, what: String) -> Error {
    Error::Corrupt { path: path.to_path_buf(), what }
}

impl State {
    /// Notes where things are, up to the last complete block, and cuts the file there.
    fn scan(&mut self, path: &Path) -> Result<(), Error> {
        let at = |source| Error::Io { path: path.to_path_buf(), source };
        let end = self.file.metadata().map_err(at)?.len();
        let begin = self.len;
        let mut frames = Frames::new(&self.file, begin, end).map_err(at)?;
        let (mut good, mut offset) = (begin, begin);
        // What belongs to the block whose row has not come yet.
        let (mut twigs, mut codes) = (Vec::new(), Vec::new());
        while let Some((kind, body)) = frames.next().map_err(at)? {
            let wrong = || corrupt(path, format!("row at byte {offset} does not fit"));
            match kind {
                Kind::Extent => {
                    let (head, _) = extent_head(body).ok_or_else(wrong)?;
                    twigs.extend(head.opens_twig().map(|_| offset));
                }
                Kind::Code => codes.push((*body.first_chunk().ok_or_else(wrong)?, offset)),
                Kind::Block => {
                    let row = BlockRow::decode(body).ok_or_else(wrong)?;
                    if row.height != self.blocks.len() as u64 || row.first_extent != self.next_extent {
                        return Err(wrong());
                    }
                    self.next_extent = row.first_extent.checked_add(row.extents).ok_or_else(wrong)?;
                    self.blocks.push(offset);
                    self.twigs.append(&mut twigs);
                    self.codes.extend(codes.drain(..));
                    good = offset + (FRAME_HEADER + body.len()) as u64;
                }
                Kind::Params => return Err(wrong()),
            }
            offset = frames.offset;
        }
        // The last block may be torn anywhere, its own row may have reached the disk before its extents; a block above it
        // was written only after it was complete.
        if let Some(height) = find_block(&self.file, offset, end, self.blocks.len() as u64).map_err(at)? {
            return Err(corrupt(path, format!("bad row at byte {offset} before block {height}")));
        }
        if good < end {
            self.file.set_len(good).map_err(at)?;
            self.file.sync_all().map_err(at)?;
        }
        self.len = good;
        Ok(())
    }

    fn push_buffer(&mut self) -> io::Result<()> {
        // A write that fails has put down an unknown part; writing the buffer again would bury it mid-file.
        let buffer = std::mem::take(&mut self.buffer);
        self.file.write_all(&buffer)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    fn append(&mut self, rows: &Rows, buffered: bool) -> io::Result<()> {
        if buffered {
            self.buffer.extend_from_slice(&rows.bytes);
            if self.buffer.len() >= BUFFER {
                self.push_buffer()?;
            }
        } else {
            self.file.write_all(&rows.bytes)?;
        }
        self.len += rows.bytes.len() as u64;
        Ok(())
    }
}

impl Log for FileLog {
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn keeps_entries(&self) -> bool {
        true
    }

    fn write(&self, batch: Batch) -> Result<(), Error> {
        let io = |source| self.io(source);
        let state = &mut *self.state();
        let buffered = self.durability == Durability::None;
        for (hash, code) in batch.codes {
            let mut rows = Rows::default();
            rows.push(Kind::Code, |out| {
                out.extend_from_slice(&hash);
                out.extend_from_slice(&code);
            });
            state.codes.insert(hash, state.len);
            state.append(&rows, buffered).map_err(io)?;
        }
        for rows in batch.extents {
            let mut offset = state.len;
            for frame in rows.iter() {
                let opens = extent_head(&frame[FRAME_HEADER..]).and_then(|(head, _)| head.opens_twig());
                state.twigs.extend(opens.map(|_| offset));
                offset += frame.len() as u64;
            }
            state.append(&rows, buffered).map_err(io)?;
        }
        state.next_extent = batch.block.first_extent + batch.block.extents;
        state.blocks.push(state.len);
        state.append(&batch.block.encode(), buffered).map_err(io)?;
        if self.durability == Durability::Block {
            state.file.sync_data().map_err(io)?;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), Error> {
        let mut state = self.state();
        state.push_buffer().and_then(|()| state.file.sync_data()).map_err(|source| self.io(source))
    }

    fn replay(&self, to: &mut dyn Replay) -> Result<(), Error> {
        let state = self.state();
        let begin = encode_params(&Params::default()).bytes.len() as u64;
        let mut frames = Frames::new(&state.file, begin, state.len).map_err(|source| self.io(source))?;
        loop {
            let offset = frames.offset;
            match frames.next().map_err(|source| self.io(source))? {
                Some((Kind::Extent, body)) => to.extent(body)?,
                Some((Kind::Block, body)) => to.block(BlockRow::decode(body).ok_or_else(|| self.corrupt(offset))?)?,
                Some((Kind::Code, _)) => {}
                None if offset == state.len => return Ok(()),
                _ => return Err(self.corrupt(offset)),
            }
        }
    }

    fn twig(&self, twig: u64, see: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Error> {
        let mut state = self.state();
        let Some(offset) = usize::try_from(twig).ok().and_then(|twig| state.twigs.get(twig)).copied() else {
            return Ok(());
        };
        state.push_buffer().map_err(|source| self.io(source))?;
        let mut frames = Frames::new(&state.file, offset, state.len).map_err(|source| self.io(source))?;
        while let Some((kind, body)) = frames.next().map_err(|source| self.io(source))? {
            if kind == Kind::Extent && !see(body) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn block(&self, height: u64) -> Result<Option<BlockRow>, Error> {
        let offset = usize::try_from(height).ok().and_then(|height| self.state().blocks.get(height).copied());
        let Some(offset) = offset else { return Ok(None) };
        let body = self.body(offset, Kind::Block)?;
        BlockRow::decode(&body).map(Some).ok_or_else(|| self.corrupt(offset))
    }

    fn code(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, Error> {
        let offset = self.state().codes.get(hash).copied();
        let Some(offset) = offset else { return Ok(None) };
        let body = self.body(offset, Kind::Code)?;
        Ok(Some(body.get(hash.len()..).unwrap_or_default().into()))
    }

    fn next_extent(&self) -> u64 {
        self.state().next_extent
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        // Durability::None promises nothing about the buffer; writing it is a kindness whose failure changes no promise.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = state.push_buffer();
        // Closing would unlock as well, but not while a process that was just forked still holds the descriptor.
        let _ = state.file.unlock();
    }
}

/// Frames of a file from an offset on.
struct Frames<'f> {
    reader: BufReader<&'f File>,
    /// Where the next frame begins.
    offset: u64,
    end: u64,
    frame: Vec<u8>,
}

impl<'f> Frames<'f> {
    fn new(mut file: &'f File, offset: u64, end: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { reader: BufReader::with_capacity(1 << 18, file), offset, end, frame: Vec::new() })
    }

    /// The next frame, or `None` where there is no valid one.
    fn next(&mut self) -> io::Result<Option<(Kind, &[u8])>> {
        let left = self.end - self.offset;
        let mut header = [0; FRAME_HEADER];
        if left < FRAME_HEADER as u64 {
            return Ok(None);
        }
        self.reader.read_exact(&mut header)?;
        let Some((_, len)) = frame_header(&header).filter(|(_, len)| (FRAME_HEADER + len) as u64 <= left) else {
            return Ok(None);
        };
        self.frame.clear();
        self.frame.extend_from_slice(&header);
        self.frame.resize(FRAME_HEADER + len, 0);
        self.reader.read_exact(&mut self.frame[FRAME_HEADER..])?;
        let frame = frame_body(&self.frame);
        if frame.is_some() {
            self.offset += self.frame.len() as u64;
        }
        Ok(frame)
    }
}

/// The height of some valid block row above `next` between two offsets: its presence tells damage from a torn tail.
fn find_block(file: &File, begin: u64, end: u64, next: u64) -> io::Result<Option<u64>> {
    const WINDOW: usize = 1 << 20;
    let needle: Vec<u8> = std::iter::once(Kind::Block as u8).chain(BLOCK_MAGIC).collect();
    let mut start = begin;
    while start < end {
        let mut window = Vec::new();
        (&mut &*file).seek(SeekFrom::Start(start))?;
        file.take((end - start).min(WINDOW as u64)).read_to_end(&mut window)?;
        for (at, _) in window.windows(needle.len()).enumerate().filter(|(_, bytes)| *bytes == needle) {
            let Some(frame) = (start + at as u64).checked_sub(FRAME_HEADER as u64 - 1) else { continue };
            if frame < begin {
                continue;
            }
            if let Some((Kind::Block, body)) = Frames::new(file, frame, end)?.next()?
                && let Some(row) = BlockRow::decode(body)
                && row.height > next
            {
                return Ok(Some(row.height));
            }
        }
        if window.len() < WINDOW {
            break;
        }
        start += (WINDOW - needle.len()) as u64;
    }
    Ok(None)
}
