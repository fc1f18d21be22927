//! Checkpoints as frames: written part by part, and checked as a whole when loaded.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, Read},
    path::Path,
};

use phalanx_merkle_proof::{BITMAP_BYTES, Hash, Params, Shape};

use super::image::{Checkpoint, CheckpointBlock, Ignored, Image, NAME};
use crate::{
    log::{
        BlockRecord, Disk, FRAME_HEADER, Fields, IndexedBlock, Kind, LogIndex, Marks, Records, at, frame_body,
        frame_header,
    },
    state::{Extents, SortedKeys},
    tree::TreeImage,
    types::{Error, Step},
};

/// Bytes after which a frame is closed.
const FRAME: usize = 1 << 20;

/// Content of a frame: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Part {
    Head = 0,
    IndexedBlock = 1,
    Twigs = 2,
    Young = 3,
    Slots = 4,
    Extents = 5,
    End = 6,
}

const PARTS: [Part; 7] =
    [Part::Head, Part::IndexedBlock, Part::Twigs, Part::Young, Part::Slots, Part::Extents, Part::End];

struct Out<'a> {
    disk: &'a Disk,
    to: &'a File,
    path: &'a Path,
    frame: Vec<u8>,
    part: Part,
    frames: u64,
    bytes: u64,
}

impl Out<'_> {
    /// Begins another part.
    fn part(&mut self, part: Part) -> Result<(), Error> {
        self.close()?;
        self.part = part;
        Ok(())
    }

    /// Adds an item, which is never split between frames.
    fn item(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        parts.iter().for_each(|part| self.frame.extend_from_slice(part));
        if self.frame.len() >= FRAME { self.close() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<(), Error> {
        if self.frame.is_empty() {
            return Ok(());
        }
        let mut records = Records::default();
        records.push(Kind::Checkpoint, |out| {
            out.push(self.part as u8);
            out.append(&mut self.frame);
        });
        self.frames += 1;
        self.bytes += records.bytes.len() as u64;
        self.disk.append(self.to, self.path, &records.bytes)
    }
}

/// Writes a durable checkpoint to a path that no load reads; returns its length.
///
/// # Errors
/// Errors of the disk.
pub(super) fn write(disk: &Disk, path: &Path, checkpoint: &Checkpoint, marks: &Marks) -> Result<u64, Error> {
    let Checkpoint { params, image: Image { of, tree, index }, note } = checkpoint;
    let to = &OpenOptions::new().read(true).append(true).create(true).open(path).map_err(at(path))?;
    // An earlier checkpoint may have left bytes there.
    disk.cut(to, path, 0)?;
    let mut out = Out { disk, to, path, frame: Vec::new(), part: Part::Head, frames: 0, bytes: 0 };
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let Shape { next_sn, floor, active } = of.shape;
    out.item(&[
        &marks.checkpoint,
        &params.encode(),
        &words(&[of.id, of.height]),
        &of.root,
        &words(&[next_sn, floor, active]),
    ])?;
    out.item(&[&words(&[tree.first_twig, note.end, note.tip, note.tip_place, note.next_seq, note.next_extent])])?;
    out.item(&[&[u8::from(index.is_some())]])?;
    out.part(Part::IndexedBlock)?;
    for IndexedBlock { record, place, begin, twigs } in &note.blocks {
        let record = record.encode(marks);
        let record = &record.bytes[FRAME_HEADER..];
        out.item(&[&words(&[record.len() as u64]), record, &words(&[*place, *begin, twigs.len() as u64])])?;
        twigs.iter().try_for_each(|(twig, place)| out.item(&[&words(&[*twig, *place])]))?;
    }
    out.part(Part::Twigs)?;
    tree.bitmaps.iter().zip(&tree.lefts).try_for_each(|(bitmap, left)| out.item(&[bitmap, left]))?;
    out.part(Part::Young)?;
    tree.young.iter().try_for_each(|leaf| out.item(&[leaf]))?;
    if let Some((keys, extents)) = index {
        out.part(Part::Slots)?;
        keys.slots().try_for_each(|slot| out.item(&[&slot]))?;
        out.part(Part::Extents)?;
        extents.iter().try_for_each(|(first_sn, place)| out.item(&[&words(&[first_sn, place])]))?;
    }
    out.part(Part::End)?;
    out.item(&[&words(&[out.frames])])?;
    out.close()?;
    let bytes = out.bytes;
    disk.sync(to, path)?;
    Ok(bytes)
}

/// Loads the checkpoint in a directory; `None` if there is none.
///
/// # Errors
/// The reason why the checkpoint cannot be used.
pub(crate) fn load(dir: &Path, params: &Params, marks: &Marks, disk: &Disk) -> Result<Option<Checkpoint>, Ignored> {
    let damaged = |error: io::Error| Ignored::Damaged(error.to_string());
    let path = dir.join(NAME);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(damaged(error)),
    };
    disk.ask(Step::Read(&path)).map_err(|error| Ignored::Damaged(error.to_string()))?;
    let mut reader = BufReader::with_capacity(FRAME, file);
    let mut parts: [Vec<u8>; 7] = Default::default();
    // The longest part by far becomes the table at once.
    let mut keys = SortedKeys::default();
    let (mut frames, mut frame) = (0u64, Vec::new());
    loop {
        frame.clear();
        (&mut reader).take(FRAME_HEADER as u64).read_to_end(&mut frame).map_err(damaged)?;
        let len = frame.first_chunk().and_then(frame_header).map(|(_, len)| len);
        let len = len.ok_or_else(|| Ignored::Damaged(format!("frame {frames} is torn")))?;
        (&mut reader).take(len as u64).read_to_end(&mut frame).map_err(damaged)?;
        let body = frame_body(&frame, marks).filter(|(kind, _)| *kind == Kind::Checkpoint).map(|(_, body)| body);
        let (part, body) = body
            .and_then(<[u8]>::split_first)
            .ok_or_else(|| Ignored::Damaged(format!("frame {frames} has another checksum")))?;
        let Some(part) = PARTS.get(usize::from(*part)) else {
            return Err(Ignored::Damaged(format!("frame {frames} is unknown")));
        };
        if *part == Part::End {
            let fits = body == frames.to_be_bytes();
            return match decode(&parts, keys, params, marks) {
                Some(checkpoint) if fits => checkpoint.map(Some),
                _ => Err(Ignored::Damaged("its parts do not fit".into())),
            };
        }
        if *part == Part::Slots {
            let (slots, torn) = body.as_chunks::<10>();
            if !torn.is_empty() || !slots.iter().all(|slot| keys.push(*slot)) {
                return Err(Ignored::Damaged("its parts do not fit".into()));
            }
        } else {
            parts[*part as usize].extend_from_slice(body);
        }
        frames += 1;
    }
}

/// Length of the checkpoint in a directory, zero if there is none.
pub(crate) fn length(dir: &Path) -> u64 {
    std::fs::metadata(dir.join(NAME)).map_or(0, |data| data.len())
}

/// Index of the log in a checkpoint, to open the log with.
pub(crate) fn note(checkpoint: &Result<Option<Checkpoint>, Ignored>) -> Option<&LogIndex> {
    checkpoint.as_ref().ok()?.as_ref().map(|checkpoint| &checkpoint.note)
}

fn decode(
    parts: &[Vec<u8>; 7],
    keys: SortedKeys,
    expected: &Params,
    marks: &Marks,
) -> Option<Result<Checkpoint, Ignored>> {
    let mut head = Fields(&parts[Part::Head as usize]);
    if *head.array()? != marks.checkpoint {
        return Some(Err(Ignored::Foreign));
    }
    let encoded = expected.encode();
    if head.take(encoded.len())? != encoded {
        return Some(Err(Ignored::Parameters));
    }
    let (id, height, root) = (head.u64()?, head.u64()?, *head.array::<32>()?);
    let shape = Shape { next_sn: head.u64()?, floor: head.u64()?, active: head.u64()? };
    let (first_twig, end, tip) = (head.u64()?, head.u64()?, head.u64()?);
    let (tip_place, next_seq, next_extent) = (head.u64()?, head.u64()?, head.u64()?);
    let [indexed @ (0 | 1)] = *head.array()? else { return None };
    let mut blocks = Vec::new();
    let mut noted = Fields(&parts[Part::IndexedBlock as usize]);
    while !noted.0.is_empty() {
        let len = usize::try_from(noted.u64()?).ok()?;
        let record = BlockRecord::decode(noted.take(len)?, marks)?;
        let (place, begin, count) = (noted.u64()?, noted.u64()?, noted.u64()?);
        let twigs = (0..count).map(|_| Some((noted.u64()?, noted.u64()?))).collect::<Option<_>>()?;
        blocks.push(IndexedBlock { record, place, begin, twigs });
    }
    let (twigs, rest) = parts[Part::Twigs as usize].as_chunks::<{ BITMAP_BYTES + 32 }>();
    let (leaves, torn) = parts[Part::Young as usize].as_chunks::<32>();
    if !rest.is_empty() || !torn.is_empty() {
        return None;
    }
    let mut tree = TreeImage { first_twig, bitmaps: Vec::new(), lefts: Vec::new(), young: leaves.to_vec() };
    for twig in twigs {
        let (bitmap, left) = twig.split_first_chunk::<BITMAP_BYTES>()?;
        tree.bitmaps.push(*bitmap);
        tree.lefts.push(Hash::try_from(left).ok()?);
    }
    let index = if indexed == 1 {
        let keys = keys.finish(shape.next_sn);
        let (places, torn) = parts[Part::Extents as usize].as_chunks::<16>();
        let word = |bytes: &[u8; 16], at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
        let places = places.iter().map(|place| (word(place, 0), word(place, 8)));
        let extents = Extents::decode(places, shape.next_sn)?;
        (torn.is_empty() && keys.len() == shape.active).then_some(())?;
        Some((keys, extents))
    } else {
        None
    };
    let of = CheckpointBlock { id, height, root, shape };
    let note = LogIndex { blocks, end, tip, tip_place, next_seq, next_extent };
    Some(Ok(Checkpoint { params: *expected, image: Image { of, tree, index }, note }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn checkpoint(places: &[(u64, u64)]) -> Checkpoint {
        let params = Params::default();
        let mut extents = Extents::default();
        places.iter().for_each(|(first_sn, place)| extents.push(*first_sn, *place));
        let shape = Shape { next_sn: 100, floor: 0, active: 0 };
        let of = CheckpointBlock { id: 1, height: 0, root: [7; 32], shape };
        let index = Some((SortedKeys::default().finish(shape.next_sn), extents));
        let tree = Tree::new(params, &[]).image();
        let note = LogIndex { blocks: Vec::new(), end: 0, tip: 1, tip_place: 0, next_seq: 1, next_extent: 1 };
        Checkpoint { params, image: Image { of, tree, index }, note }
    }

    /// A reader of such extents would search for the end of one for ever.
    #[test]
    fn a_checkpoint_with_unordered_extents_is_damaged() {
        let dir = tempfile::tempdir().expect("a directory");
        let load = |places: &[(u64, u64)]| {
            write(&Disk::default(), &dir.path().join(NAME), &checkpoint(places), &Marks::PLAIN).expect("a file");
            load(dir.path(), &Params::default(), &Marks::PLAIN, &Disk::default())
        };
        let sound = load(&[(10, 500), (42, 900), (60, 1000)]).expect("it is sound").expect("it is there");
        let (_, extents) = sound.image.index.expect("it has extents");
        assert_eq!(extents.iter().count(), 3);
        for places in [&[(42, 500), (10, 900)][..], &[(10, 500), (10, 900)], &[(10, 900), (42, 500)], &[(100, 500)]] {
            assert!(matches!(load(places), Err(Ignored::Damaged(_))), "{places:?}");
        }
    }
}
