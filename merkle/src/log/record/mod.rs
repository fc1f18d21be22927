//! The records of a log, each framed with its kind, length and checksum. All backends store the same bytes.
//!
//! ```text
//! frame  = crc32c || len || kind || body                  (checksum of all that follows it; integers big endian)
//! params = "PHXM" || Params
//! extent = first_sn || height || entries || deletes || entry* || (sn || key_len || key)*
//! moved  = first_sn || height || entries || 0 || (from || height || entry)*
//! block  = "PHXB" || seq || committed || id || parent_id || height || parent || root || first_extent || extents
//!          || first_sn || next_sn || floor || active || payload
//! tip    = "PHXT" || seq || id || note
//! code   = hash || code
//! ```
//!
//! A deletion appends no entry; its extent names the key and the position that it deactivates. Entries that compaction
//! moves keep their height, and come with their old position.

mod block;
mod extent;
mod frame;

pub(crate) use block::{BLOCK_MAGIC, BlockRecord, TIP_MAGIC, TipRecord, check_params, encode_params};
pub(crate) use extent::{ExtentHead, ExtentItem, ExtentWriter, extent_head, read_extent};
pub(crate) use frame::{FRAME_HEADER, Fields, Kind, Records, frame_body, frame_header};

#[cfg(test)]
mod tests;
