//! Requests of the execution layer to the consensus layer (EIP-7685), deposits among them (EIP-6110).

use super::spec::ChainSpec;
use alloy_eips::{eip6110::DEPOSIT_REQUEST_TYPE, eip7685::Requests};
use alloy_primitives::{B256, Bytes, Log, U256, b256};

/// `keccak256("DepositEvent(bytes,bytes,bytes,bytes,bytes)")`.
const DEPOSIT_EVENT: B256 = b256!("0x649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5");

/// Length of a deposit event's data: five offsets, then five lengths each with padded bytes.
const EVENT_DATA: usize = 576;

/// Offset and length of the event's fields as the deposit contract encodes them: public key, withdrawal credentials,
/// amount, signature, index.
const FIELDS: [(usize, usize); 5] = [(160, 48), (256, 32), (320, 8), (384, 96), (512, 8)];

/// Length of one deposit request: the five fields, one after the other.
const DEPOSIT: usize = 48 + 32 + 8 + 96 + 8;

/// A log of the deposit contract has a wrong layout: the block is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("deposit event {index} does not have the layout of EIP-6110")]
pub struct DepositError {
    /// Position among the given logs.
    pub index: usize,
}

impl ChainSpec {
    /// Deposit requests of a block from Prague on: their type byte and the data of all deposits. `logs` are those of
    /// all receipts in order, without failed transactions (which have none). `None` if there is no deposit.
    /// # Errors
    /// [`DepositError`] at the first deposit event with a wrong layout.
    pub fn deposit_requests<'a>(&self, logs: impl IntoIterator<Item = &'a Log>) -> Result<Option<Bytes>, DepositError> {
        let mut request = vec![DEPOSIT_REQUEST_TYPE];
        for (index, log) in logs.into_iter().enumerate() {
            if log.address == self.deposit_contract && log.topics().first() == Some(&DEPOSIT_EVENT) {
                append_deposit(&log.data.data, &mut request).ok_or(DepositError { index })?;
            }
        }
        Ok((request.len() > 1).then(|| request.into()))
    }
}

/// Appends the fields of a deposit event, or nothing if the layout is wrong.
fn append_deposit(data: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let word = |at: usize| data.get(at..at + 32).map(U256::from_be_slice);
    let mut deposit = Vec::with_capacity(DEPOSIT);
    for (field, (offset, len)) in FIELDS.into_iter().enumerate() {
        if data.len() != EVENT_DATA || word(field * 32)? != U256::from(offset) || word(offset)? != U256::from(len) {
            return None;
        }
        deposit.extend_from_slice(data.get(offset + 32..offset + 32 + len)?);
    }
    out.extend(deposit);
    Some(())
}

/// Hash of requests as a header commits to it; each request begins with its type byte. SHA-256 over the SHA-256 of
/// each request that has data, in ascending order of types (EIP-7685).
pub fn requests_hash(requests: impl IntoIterator<Item = Bytes>) -> B256 {
    Requests::new(requests.into_iter().collect()).requests_hash()
}
