//! Limits of the format that more than the log has to know.

/// Maximum length of contract code, in bytes.
pub(crate) const MAX_CODE_LEN: usize = 1 << 24;

/// Maximum length of a block's payload and of a tip's note, in bytes.
pub(crate) const MAX_PAYLOAD_LEN: usize = 1 << 24;
