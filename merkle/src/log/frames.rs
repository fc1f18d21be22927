//! Reads frames of a file at offsets, beside other readers and an appender.

use std::{
    fs::File,
    io::{self, BufReader, Read},
};

use super::record::{BlockRecord, FRAME_HEADER, Kind, Marks, TipRecord, frame_body, frame_header};

/// Reader of a file from an offset on.
struct OffsetReader<'f> {
    file: &'f File,
    offset: u64,
}

impl Read for OffsetReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = read_at(self.file, buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// Frames of a file from an offset on.
pub(super) struct Frames<'f> {
    marks: Marks,
    reader: BufReader<OffsetReader<'f>>,
    /// Offset of the next frame.
    pub(super) offset: u64,
    end: u64,
    frame: Vec<u8>,
}

impl<'f> Frames<'f> {
    pub(super) fn new(file: &'f File, marks: Marks, offset: u64, end: u64) -> Self {
        let reader = BufReader::with_capacity(1 << 18, OffsetReader { file, offset });
        Self { marks, reader, offset, end, frame: Vec::new() }
    }

    /// Next frame; `None` if there is no valid one.
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
        let frame = frame_body(&self.frame, &self.marks);
        if frame.is_some() {
            self.offset += self.frame.len() as u64;
        }
        Ok(frame)
    }
}

/// Reads what may be the frame at an offset into `frame`; `most` bytes are known to be enough. One read, unless the
/// frame is longer than an extent usually is.
pub(super) fn read_frame(file: &File, offset: u64, most: u64, frame: &mut Vec<u8>) -> io::Result<()> {
    /// The known length may exceed the frame by far: a payload may follow it.
    const FIRST: u64 = 8 << 10;
    let first = most.min(FIRST) as usize;
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
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
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
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
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

/// Sequence number of a valid record above `next` between two offsets: if there is one, the tail is damaged, not torn.
pub(super) fn find_later(file: &File, marks: Marks, begin: u64, end: u64, next: u64) -> io::Result<Option<u64>> {
    const WINDOW: usize = 1 << 20;
    let needles = [(Kind::Block, marks.block), (Kind::Tip, marks.tip)];
    let needles = needles.map(|(kind, magic)| [&[kind as u8], magic.as_slice()].concat());
    let mut start = begin;
    while start < end {
        let mut window = vec![0; (end - start).min(WINDOW as u64) as usize];
        let read = read_at(file, &mut window, start)?;
        window.truncate(read);
        for (at, _) in window.windows(5).enumerate().filter(|(_, bytes)| needles.iter().any(|needle| needle == bytes)) {
            let Some(frame) = (start + at as u64).checked_sub(FRAME_HEADER as u64 - 1) else { continue };
            if frame < begin {
                continue;
            }
            let seq = match Frames::new(file, marks, frame, end).next()? {
                Some((Kind::Block, body)) => BlockRecord::decode(body, &marks).map(|record| record.seq),
                Some((Kind::Tip, body)) => TipRecord::decode(body, &marks).map(|record| record.seq),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::Records;
    use std::io::Write as _;

    /// Offsets and file of frames with these lengths.
    fn frames(lens: &[usize]) -> (Vec<u64>, File) {
        let (mut records, mut begins) = (Records::default(), Vec::new());
        for (at, len) in lens.iter().enumerate() {
            begins.push(records.bytes.len() as u64);
            records.push(Kind::Code, |out| out.resize(out.len() + len, at as u8));
        }
        begins.push(records.bytes.len() as u64);
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&records.bytes).expect("a write");
        (begins, file)
    }

    #[test]
    fn a_frame_is_read_whole_with_little_beyond_it() {
        let lens = [10, 4000, 8183, 8184, 20_000, 1 << 20, 7];
        let (begins, file) = frames(&lens);
        let end = begins[lens.len()];
        for (at, len) in lens.iter().enumerate() {
            let own = begins[at + 1] - begins[at];
            for most in [own, own + 50_000, end - begins[at], u64::MAX] {
                let mut frame = Vec::new();
                read_frame(&file, begins[at], most, &mut frame).expect("a read");
                let body = frame_body(&frame, &Marks::PLAIN).map(|(_, body)| body);
                assert_eq!(body, Some(&vec![at as u8; *len][..]), "length {len} of at most {most}");
                assert!(frame.capacity() <= (2 * own as usize).max(8 << 10), "length {len} of at most {most}");
            }
        }
    }

    /// Concurrent readers do not share a cursor.
    #[test]
    fn concurrent_readers_share_no_cursor() {
        let lens: Vec<usize> = (0..40).map(|at| at * 5000).collect();
        let (begins, file) = frames(&lens);
        let end = begins[lens.len()];
        let mut readers: Vec<Frames<'_>> =
            begins[..40].iter().map(|begin| Frames::new(&file, Marks::PLAIN, *begin, end)).collect();
        for step in 0..40 {
            for (at, reader) in readers.iter_mut().enumerate().filter(|(at, _)| at + step < 40) {
                let (_, body) = reader.next().expect("a read").expect("a frame");
                assert_eq!(
                    (body.len(), body.first().copied()),
                    (lens[at + step], (at + step > 0).then_some((at + step) as u8))
                );
            }
        }
    }
}
