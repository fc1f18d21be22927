//! What the logs store: rows, each framed with its kind, length and checksum. Both logs hold the same bytes.
//!
//! ```text
//! frame  = crc32c || len || kind || body                  (checksum of all that follows it; integers big endian)
//! params = "PHXM" || Params
//! extent = first_sn || height || entries || deletes || entry* || (sn || key_len || key)*
//! moved  = first_sn || height || entries || 0 || (from || height || entry)*
//! block  = "PHXB" || seq || committed || id || parent_id || height || parent || root || first_extent || extents
//!          || first_sn || next_sn || floor || active || payload
//! tip    = "PHXT" || seq || id
//! code   = hash || code
//! ```
//!
//! An extent holds neighbouring entries of one block, so that a row costs little and a cold read brings in little. A
//! deletion appends no entry; its extent names the position that it switches off and the key. Entries that were moved up
//! come with the position and the height that they had.

use phalanx_merkle_proof::{Hash, Params, Shape};

use super::frame::{Fields, Kind, Records, frame_body};

/// How the body of a block row begins; a reader that lost its way finds blocks by it.
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"PHXB";
pub(crate) const TIP_MAGIC: [u8; 4] = *b"PHXT";
const PARAMS_MAGIC: [u8; 4] = *b"PHXM";

/// One block of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockRecord {
    /// Counts block and tip rows, in the order in which they are written.
    pub(crate) seq: u64,
    /// Whether the block is the tip from here on; else it is staged.
    pub(crate) committed: bool,
    /// Names the block among all, siblings included. Never used twice, and greater than the parent's.
    pub(crate) id: u64,
    /// Zero before the first block.
    pub(crate) parent_id: u64,
    pub(crate) height: u64,
    pub(crate) parent: Hash,
    pub(crate) root: Hash,
    /// Its extents are the numbers `first_extent..first_extent + extents`. Numbers are never used twice.
    pub(crate) first_extent: u64,
    pub(crate) extents: u64,
    /// Its first position.
    pub(crate) first_sn: u64,
    pub(crate) shape: Shape,
    /// Whatever the application wants back with the block.
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

/// The row that makes a written block the tip: a staged one that is committed, or an older one that is gone back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TipRecord {
    pub(crate) seq: u64,
    pub(crate) id: u64,
    /// Whatever the application wants back with this tip.
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

/// The row that says what the store is.
pub(crate) fn encode_params(params: &Params) -> Records {
    let mut records = Records::default();
    records.push(Kind::Params, |out| {
        out.extend_from_slice(&PARAMS_MAGIC);
        out.extend_from_slice(&params.encode());
    });
    records
}

/// Compares a store's own parameters with the caller's.
///
/// # Errors
/// What the store is and what was asked for, in words.
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

/// No log counts so far. What claims to is no row, and sums of what rows say fit.
const MAX_COUNT: u64 = 1 << 62;
