//! Records of blocks and tips, and the parameters that a log begins with.

use phalanx_merkle_proof::{Hash, Params, Shape};

use super::frame::{Fields, Kind, Records, frame_body};

/// First bytes of a block record's body, by which a reader finds blocks behind damage.
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"PHXB";
pub(crate) const TIP_MAGIC: [u8; 4] = *b"PHXT";
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
    pub(crate) fn encode(&self) -> Records {
        let mut records = Records::default();
        records.push(Kind::Block, |out| {
            out.extend_from_slice(&BLOCK_MAGIC);
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
        records
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = Fields(body);
        if *reader.array()? != BLOCK_MAGIC {
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

/// Record that makes a written block the tip: a staged block that is committed, or the target of a rewind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TipRecord {
    pub(crate) seq: u64,
    pub(crate) id: u64,
    /// Application data of this tip.
    pub(crate) note: Vec<u8>,
}

impl TipRecord {
    pub(crate) fn encode(&self) -> Records {
        let mut records = Records::default();
        records.push(Kind::Tip, |out| {
            out.extend_from_slice(&TIP_MAGIC);
            out.extend_from_slice(&self.seq.to_be_bytes());
            out.extend_from_slice(&self.id.to_be_bytes());
            out.extend_from_slice(&self.note);
        });
        records
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = Fields(body);
        (*reader.array()? == TIP_MAGIC).then_some(())?;
        let record = Self { seq: reader.u64()?, id: reader.u64()?, note: reader.0.to_vec() };
        (record.seq <= MAX_COUNT && record.id <= MAX_COUNT).then_some(record)
    }
}

/// Record of the store's parameters.
pub(crate) fn encode_params(params: &Params) -> Records {
    let mut records = Records::default();
    records.push(Kind::Params, |out| {
        out.extend_from_slice(&PARAMS_MAGIC);
        out.extend_from_slice(&params.encode());
    });
    records
}

/// Compares a store's parameters with the caller's.
///
/// # Errors
/// The store's format and parameters, and the expected ones, as text.
pub(crate) fn check_params(frame: &[u8], params: &Params) -> Result<(), (String, String)> {
    let words = |encoded: &[u8]| match Params::decode(encoded) {
        Some(params) => {
            let Params { hash, compaction, sentinels } = params;
            let sentinels = sentinels.count();
            format!("format {} with {hash}, {compaction:?}, {sentinels} sentinels", phalanx_merkle_proof::FORMAT)
        }
        None => format!("{encoded:02x?}"),
    };
    let found = match frame_body(frame) {
        Some((Kind::Params, body)) if body.starts_with(&PARAMS_MAGIC) => &body[PARAMS_MAGIC.len()..],
        _ => return Err(("unknown (not a store of this kind)".into(), words(&params.encode()))),
    };
    if found == params.encode() { Ok(()) } else { Err((words(found), words(&params.encode()))) }
}

/// Maximum count in a record: no log reaches it, and sums of counts do not overflow.
const MAX_COUNT: u64 = 1 << 62;
