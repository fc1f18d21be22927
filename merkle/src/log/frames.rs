//! Reads frames of a file at offsets, beside other readers and an appender.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    ops::Range,
};

use super::record::{BlockRecord, FRAME_HEADER, Kind, MAX_BODY_LEN, Marks, TipRecord, frame_body, frame_header};

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
        let mut header = [0; FRAME_HEADER];
        // A file that has become shorter may end before the offset.
        let Some(left) = self.end.checked_sub(self.offset).filter(|left| *left >= FRAME_HEADER as u64) else {
            return Ok(None);
        };
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

/// Frame at an offset as it is if only its length is damaged and it reaches up to `end`. Empty if no frame is that long.
pub(super) fn frame_up_to(file: &File, offset: u64, end: u64) -> io::Result<Vec<u8>> {
    let len = end.checked_sub(offset + FRAME_HEADER as u64).and_then(|len| u32::try_from(len).ok());
    let Some(len) = len.filter(|len| *len as usize <= MAX_BODY_LEN) else { return Ok(Vec::new()) };
    let mut frame = vec![0; FRAME_HEADER + len as usize];
    let read = read_at(file, &mut frame, offset)?;
    frame.truncate(read);
    if let Some(header) = frame.first_chunk_mut::<FRAME_HEADER>() {
        header[4..8].copy_from_slice(&len.to_be_bytes());
    }
    Ok(frame)
}

/// Sequence number of a frame with a record of a block or tip.
pub(super) fn seq_of(frame: Option<(Kind, &[u8])>, marks: &Marks) -> Option<u64> {
    match frame? {
        (Kind::Block, body) => BlockRecord::decode(body, marks).map(|record| record.seq),
        (Kind::Tip, body) => TipRecord::decode(body, marks).map(|record| record.seq),
        _ => None,
    }
}

/// Sequence number of a valid record from `least` on, between two offsets: if there is one, the tail is damaged, not torn.
pub(super) fn find_later(file: &File, marks: Marks, begin: u64, end: u64, least: u64) -> io::Result<Option<u64>> {
    let needles = [(Kind::Block, marks.block), (Kind::Tip, marks.tip)];
    let needles = needles.map(|(kind, magic)| [&[kind as u8], magic.as_slice()].concat());
    search(file, begin..end, |offset, bytes| {
        if !needles.iter().any(|needle| bytes[FRAME_HEADER - 1..].starts_with(needle)) {
            return Ok(None);
        }
        let seq = seq_of(Frames::new(file, marks, offset, end).next()?, &marks);
        Ok(seq.filter(|seq| *seq >= least))
    })
}

/// Offset of a whole frame of code between two offsets: if there is one, what precedes it is damaged, not torn.
///
/// The checksum is masked with 32 bits of the store's secret, which is what stored code would have to guess.
pub(super) fn find_code(file: &File, marks: &Marks, begin: u64, end: u64) -> io::Result<Option<u64>> {
    let mut frame = Vec::new();
    search(file, begin..end, |offset, bytes| {
        let len = bytes.first_chunk().and_then(frame_header).filter(|(kind, _)| *kind == Kind::Code);
        let len = len.map(|(_, len)| (FRAME_HEADER + len) as u64).filter(|len| *len <= end - offset);
        let Some(len) = len else { return Ok(None) };
        read_frame(file, offset, len, &mut frame)?;
        Ok(frame_body(&frame, marks).map(|_| offset))
    })
}

/// Hands each offset of a part of a file to `find`, with the bytes from there on, until it finds something. There are enough bytes
/// for the header of a frame and a mark behind it, except near the end.
fn search<T>(
    file: &File,
    part: Range<u64>,
    mut find: impl FnMut(u64, &[u8]) -> io::Result<Option<T>>,
) -> io::Result<Option<T>> {
    const WINDOW: usize = 1 << 20;
    const OVERLAP: usize = FRAME_HEADER + 3;
    let Range { start: mut begin, end } = part;
    while begin < end {
        let mut window = vec![0; (end - begin).min(WINDOW as u64) as usize];
        let read = read_at(file, &mut window, begin)?;
        window.truncate(read);
        let is_last = window.len() < WINDOW;
        // A record of a block or tip is longer than what is left out here.
        let count = window.len().saturating_sub(if is_last { FRAME_HEADER - 1 } else { OVERLAP });
        for at in 0..count {
            if let Some(found) = find(begin + at as u64, &window[at..])? {
                return Ok(Some(found));
            }
        }
        if is_last {
            break;
        }
        begin += count as u64;
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
