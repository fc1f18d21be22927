//! Records of blocks and tips, and the parameters that a log begins with.

use phalanx_merkle_proof::{Hash, Params, Shape};

use super::frame::{Fields, Kind, Marks, Records, frame_body};

const PARAMS_MAGIC: [u8; 4] = *b"PHXM";

/// Record of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockRecord {
    /// Sequence number, which counts block and tip records in the order of their writes.
    pub(crate) seq: u64,
    /// True if the block becomes the tip; else it is staged.
    pub(crate) committed: bool,
    /// Id of the block, unique among all blocks, siblings included, and greater than the parent's.
    pub(crate) id: u64,
    /// Zero before the first block.
    pub(crate) parent_id: u64,
    pub(crate) height: u64,
    pub(crate) parent: Hash,
    pub(crate) root: Hash,
    /// Number of the first of its `extents` extents. Numbers are never reused.
    pub(crate) first_extent: u64,
    pub(crate) extents: u64,
    /// First position of the block.
    pub(crate) first_sn: u64,
    pub(crate) shape: Shape,
    /// Application data of the block.
    pub(crate) payload: Vec<u8>,
}

impl BlockRecord {
    pub(crate) fn encode(&self, marks: &Marks) -> Records {
        let mut records = Records::default();
        self.encode_into(&mut records, marks);
        records
    }

    /// Adds the record to others.
    pub(crate) fn encode_into(&self, records: &mut Records, marks: &Marks) {
        records.push_marked(Kind::Block, marks, |out| {
            out.extend_from_slice(&marks.block);
            out.extend_from_slice(&self.seq.to_be_bytes());
            out.push(u8::from(self.committed));
            for word in [self.id, self.parent_id, self.height] {
                out.extend_from_slice(&word.to_be_bytes());
            }
            out.extend_from_slice(&self.parent);
            out.extend_from_slice(&self.root);
            let Shape { next_sn, floor, active } = self.shape;
            for word in [self.first_extent, self.extents, self.first_sn, next_sn, floor, active] {
                out.extend_from_slice(&word.to_be_bytes());
            }
            out.extend_from_slice(&self.payload);
        });
    }

    pub(crate) fn decode(body: &[u8], marks: &Marks) -> Option<Self> {
        let mut reader = Fields(body);
        if *reader.array()? != marks.block {
            return None;
        }
        let seq = reader.u64()?;
        let [committed @ (0 | 1)] = *reader.array()? else { return None };
        let record = Self {
            seq,
            committed: committed == 1,
            id: reader.u64()?,
            parent_id: reader.u64()?,
            height: reader.u64()?,
            parent: *reader.array()?,
            root: *reader.array()?,
            first_extent: reader.u64()?,
            extents: reader.u64()?,
            first_sn: reader.u64()?,
            shape: Shape { next_sn: reader.u64()?, floor: reader.u64()?, active: reader.u64()? },
            payload: reader.0.to_vec(),
        };
        let Shape { next_sn, floor, active } = record.shape;
        let counts = [
            record.seq,
            record.id,
            record.parent_id,
            record.height,
            record.first_extent,
            record.extents,
            record.first_sn,
        ];
        counts.into_iter().chain([next_sn, floor, active]).all(|count| count <= MAX_COUNT).then_some(record)
    }
}

impl BlockRecord {
    /// Parent of a block that is a restored snapshot: its extents are the whole state after it.
    pub(crate) const NO_PARENT: u64 = MAX_COUNT;

    /// True if the block is a restored snapshot.
    pub(crate) const fn is_base(&self) -> bool {
        self.parent_id == Self::NO_PARENT
    }
}

/// Record that makes a written block the tip: a staged block that is committed, or the target of a rewind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TipRecord {
    pub(crate) seq: u64,
    pub(crate) id: u64,
    /// Application data of this tip.
    pub(crate) note: Vec<u8>,
}

impl TipRecord {
    pub(crate) fn encode(&self, marks: &Marks) -> Records {
        let mut records = Records::default();
        records.push_marked(Kind::Tip, marks, |out| {
            out.extend_from_slice(&marks.tip);
            out.extend_from_slice(&self.seq.to_be_bytes());
            out.extend_from_slice(&self.id.to_be_bytes());
            out.extend_from_slice(&self.note);
        });
        records
    }

    pub(crate) fn decode(body: &[u8], marks: &Marks) -> Option<Self> {
        let mut reader = Fields(body);
        (*reader.array()? == marks.tip).then_some(())?;
        let record = Self { seq: reader.u64()?, id: reader.u64()?, note: reader.0.to_vec() };
        (record.seq <= MAX_COUNT && record.id <= MAX_COUNT).then_some(record)
    }
}

/// Record of the parameters of a store or of an export.
pub(crate) fn encode_params(params: &Params) -> Records {
    let mut records = Records::default();
    records.push(Kind::Params, |out| {
        out.extend_from_slice(&PARAMS_MAGIC);
        out.extend_from_slice(&params.encode());
    });
    records
}

/// First record of one file of a store, which binds it to its store and its number.
pub(crate) fn encode_head(params: &Params, marks: &Marks, number: u32) -> Records {
    if !marks.is_secret() {
        return encode_params(params);
    }
    let mut records = Records::default();
    records.push(Kind::Params, |out| {
        out.extend_from_slice(&PARAMS_MAGIC);
        out.extend_from_slice(&params.encode());
        out.extend_from_slice(&marks.store);
        out.extend_from_slice(&number.to_be_bytes());
    });
    records
}

/// Parameters in the record that begins a file.
pub(crate) fn params_in(frame: &[u8]) -> Option<Params> {
    let (_, body) = frame_body(frame, &Marks::PLAIN).filter(|(kind, _)| *kind == Kind::Params)?;
    Params::decode(body.strip_prefix(&PARAMS_MAGIC)?.get(..Params::LEN)?)
}

/// Difference between the first record of a file and the expected one.
#[derive(Debug)]
pub(crate) enum Other {
    /// The parameters in words, and the expected ones.
    Params(String, String),
    /// Description of the damage.
    Damage(&'static str),
}

/// Compares the first record of a file with the expected one, which [`encode_head`] made.
///
/// # Errors
/// The difference.
pub(crate) fn check_head(frame: &[u8], expected: &[u8], params: &Params) -> Result<(), Other> {
    if frame == expected {
        return Ok(());
    }
    match frame_body(frame, &Marks::PLAIN) {
        Some((Kind::Params, body)) if body.starts_with(&PARAMS_MAGIC) => match params_in(frame) {
            Some(found) if found == *params => Err(Other::Damage("a file of another store, or of another place in it")),
            Some(found) => Err(Other::Params(in_words(&found), in_words(params))),
            None => {
                let found = format!("{:02x?}", &body[PARAMS_MAGIC.len()..]);
                Err(Other::Params(found, in_words(params)))
            }
        },
        _ => Err(Other::Damage("its first row is damaged")),
    }
}

/// Format and parameters in words.
pub(crate) fn in_words(params: &Params) -> String {
    let Params { hash, compaction, sentinels } = params;
    let sentinels = sentinels.count();
    format!("format {} with {hash}, {compaction:?}, {sentinels} sentinels", phalanx_merkle_proof::FORMAT)
}

/// Compares the parameters of an export with the caller's.
///
/// # Errors
/// The format and parameters of the export, and the expected ones, in words.
pub(crate) fn check_params(frame: &[u8], params: &Params) -> Result<(), (String, String)> {
    match check_head(frame, &encode_params(params).bytes, params) {
        Ok(()) => Ok(()),
        Err(Other::Params(found, expected)) => Err((found, expected)),
        Err(Other::Damage(_)) => Err(("another format".into(), in_words(params))),
    }
}

/// Maximum count in a record: no log reaches it, and sums of counts do not overflow.
const MAX_COUNT: u64 = 1 << 62;
