//! The log of an earlier epoch, which becomes that of the present one.

use super::LogError;
use alloy_primitives::Bytes;
use alloy_rlp::{Decodable, Encodable};
use phalanx_host::{Boundary, HostRecord};

/// Decodes a record as a whole.
pub(super) fn decode<R: Decodable>((at, bytes): (usize, &Bytes)) -> Result<HostRecord<R>, LogError> {
    let mut rest = &bytes[..];
    let decoded = HostRecord::<R>::decode(&mut rest);
    let decoded = decoded.and_then(|record| match rest.is_empty() {
        true => Ok(record),
        false => Err(alloy_rlp::Error::UnexpectedLength),
    });
    decoded.map_err(|error| LogError::Record { number: at + 1, error })
}

/// Records of the present epoch, which begins above `boundary`, from those of an earlier one.
pub(super) fn pass<R: Encodable + Decodable>(boundary: &Boundary, found: &[Bytes]) -> Result<Vec<Bytes>, LogError> {
    let records = found.iter().enumerate().map(decode::<R>).collect::<Result<_, _>>()?;
    Ok(HostRecord::pass(boundary, records).iter().map(|record| alloy_rlp::encode(record).into()).collect())
}
