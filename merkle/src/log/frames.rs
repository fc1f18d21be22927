//! Reads frames of a file.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
};

use crate::row::{BLOCK_MAGIC, BlockRow, FRAME_HEADER, Kind, TIP_MAGIC, TipRow, frame_body, frame_header};

/// Frames of a file from an offset on.
pub(super) struct Frames<'f> {
    reader: BufReader<&'f File>,
    /// Where the next frame begins.
    pub(super) offset: u64,
    end: u64,
    frame: Vec<u8>,
}

impl<'f> Frames<'f> {
    pub(super) fn new(mut file: &'f File, offset: u64, end: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { reader: BufReader::with_capacity(1 << 18, file), offset, end, frame: Vec::new() })
    }

    /// The next frame, or `None` where there is no valid one.
    pub(super) fn next(&mut self) -> io::Result<Option<(Kind, &[u8])>> {
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

/// What may be the frame at an offset, of which `most` bytes are known to be enough: one read, unless it is longer than an
/// extent usually is and nothing is known. `frame` is what it is read into.
pub(super) fn read_frame(file: &File, offset: u64, most: u64, frame: &mut Vec<u8>) -> io::Result<()> {
    const LIKELY: usize = 4 << 10;
    const LONGEST: u64 = 1 << 16;
    let first = if most <= LONGEST { most as usize } else { LIKELY };
    if frame.len() < first {
        frame.resize(first, 0);
    }
    let read = read_at(file, &mut frame[..first], offset)?;
    let header = frame[..read].first_chunk::<FRAME_HEADER>();
    let Some((_, len)) = header.and_then(frame_header) else {
        frame.clear();
        return Ok(());
    };
    frame.resize(FRAME_HEADER + len, 0);
    if frame.len() > read {
        let more = read_at(file, &mut frame[read..], offset + read as u64)?;
        frame.truncate(read + more);
    }
    Ok(())
}

/// Reads at an offset until the buffer or the file ends, without moving the file's cursor.
#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    use std::os::unix::fs::FileExt as _;
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Reads at an offset until the buffer or the file ends.
#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    use std::os::windows::fs::FileExt as _;
    let mut read = 0;
    while read < buffer.len() {
        match file.seek_read(&mut buffer[read..], offset + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

/// The sequence number of some valid row above `next` between two offsets: its presence tells damage from a torn tail.
pub(super) fn find_later(file: &File, begin: u64, end: u64, next: u64) -> io::Result<Option<u64>> {
    const WINDOW: usize = 1 << 20;
    let needles = [(Kind::Block, BLOCK_MAGIC), (Kind::Tip, TIP_MAGIC)];
    let needles = needles.map(|(kind, magic)| [&[kind as u8], magic.as_slice()].concat());
    let mut start = begin;
    while start < end {
        let mut window = Vec::new();
        (&mut &*file).seek(SeekFrom::Start(start))?;
        file.take((end - start).min(WINDOW as u64)).read_to_end(&mut window)?;
        for (at, _) in window.windows(5).enumerate().filter(|(_, bytes)| needles.iter().any(|needle| needle == bytes)) {
            let Some(frame) = (start + at as u64).checked_sub(FRAME_HEADER as u64 - 1) else { continue };
            if frame < begin {
                continue;
            }
            let seq = match Frames::new(file, frame, end)?.next()? {
                Some((Kind::Block, body)) => BlockRow::decode(body).map(|row| row.seq),
                Some((Kind::Tip, body)) => TipRow::decode(body).map(|row| row.seq),
                _ => None,
            };
            if let Some(seq) = seq.filter(|seq| *seq > next) {
                return Ok(Some(seq));
            }
        }
        if window.len() < WINDOW {
            break;
        }
        start += (WINDOW - 4) as u64;
    }
    Ok(None)
}
