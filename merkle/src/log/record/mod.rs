//! The records of a log, each framed with its kind, length and checksum. All backends store the same bytes.
//!
//! ```text
//! frame  = crc32c || len || kind || body                  (checksum of all that follows it; integers big endian)
//! params = "PHXM" || Params
//! extent = first_sn || height || entries || deletes || entry* || (sn || key_len || key)*
//! moved  = first_sn || height || entries || 0 || (from || height || entry)*
//! kept   = first_sn || height || entries || 0 || (active || height || entry)*
//! block  = mark || seq || committed || id || parent_id || height || parent || root || first_extent || extents
//!          || first_sn || next_sn || floor || active || payload
//! tip    = mark || seq || id || note
//! code   = hash || code
//! code end = length of the file of code behind the block's code
//! ```
//!
//! Recovery looks for records of blocks and tips behind damage, so what users store must not look like one. Their first
//! bytes and a mask on their checksums, and on those of code, are made from the store's secret. Behind damage of a file of code it
//! looks for code, by the mask alone.
//!
//! A deletion appends no entry; its extent names the key and the position that it deactivates. Entries that compaction
//! moves keep their height, and come with their old position. A restored snapshot begins with a block of kept extents: all
//! positions from the floor's twig on, each with its height and active bit.

mod block;
mod extent;
mod frame;

pub(crate) use block::{
    BlockRecord, Other, TipRecord, check_head, check_params, encode_head, encode_params, in_words, params_in,
};
pub(crate) use extent::{EXTENT_ENTRIES, ExtentHead, ExtentItem, ExtentWriter, extent_head, read_extent};
pub(crate) use frame::{FRAME_HEADER, Fields, Kind, MAX_BODY_LEN, Marks, Records, frame_body, frame_header};

#[cfg(test)]
mod tests;
