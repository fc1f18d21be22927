//! A change of members: what a quorum of an epoch's members has signed, as a value in the order, which ends the epoch.
//!
//! The change names the network that comes next by a digest. The block that holds the first valid change is the last of its epoch: all
//! hosts read the same prefix, so that they end at the same block, and what a protocol has ordered above it is void everywhere.

use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable as _, Encodable as _, RlpDecodable, RlpEncodable};
use phalanx_bft::{Batch, Domain, Quorums, ReplicaSet, Signed, Statement};
use phalanx_keys::Scheme;

/// First bytes of a change in the order. No transaction begins with them: EIP-2718 has no type 0x70.
const TAG: &[u8] = b"phalanx-change-1";

/// Statement of a member: this network comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Change {
    /// Epoch that begins.
    pub epoch: u64,
    /// Digest of the network of that epoch.
    pub network: B256,
}

impl Statement for Change {
    const KIND: u8 = 5;
}

/// A change with the signatures of members of the epoch that it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedChange(Vec<Signed<Change>>);

/// Reason why a change ends no epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The bytes are no change of members.
    #[error("these are no signatures of a change of members")]
    Malformed,
    /// Two members signed different changes.
    #[error("the members signed different changes: all have to sign one network")]
    Differs,
    /// The change is for another epoch.
    #[error("the change begins epoch {begins}, and epoch {next} is the next one")]
    Epoch {
        /// Epoch that the change begins.
        begins: u64,
        /// Epoch after the present one.
        next: u64,
    },
    /// Too few members signed.
    #[error("{signed} members signed the change, and {needed} have to")]
    Few {
        /// Members that signed.
        signed: usize,
        /// Members that make a quorum.
        needed: usize,
    },
    /// A signature is wrong.
    #[error("a signature of the change is wrong, or of another network or epoch")]
    Signature,
}

impl SignedChange {
    /// A change with these signatures.
    #[must_use]
    pub const fn new(signed: Vec<Signed<Change>>) -> Self {
        Self(signed)
    }

    /// The change as a value of the order, which clients submit like a transaction.
    #[must_use]
    pub fn to_value(&self) -> Bytes {
        let mut bytes = TAG.to_vec();
        self.0.encode(&mut bytes);
        bytes.into()
    }

    /// Returns true if a value of the order claims to be a change. Engines skip it, as it is no transaction.
    #[must_use]
    pub fn is_claimed(value: &[u8]) -> bool {
        value.starts_with(TAG)
    }

    /// Reads and checks a value of the order: a quorum of the members of the epoch of `domain` has signed one change to the next epoch.
    ///
    /// # Errors
    /// The reason why it ends no epoch.
    pub fn check(value: &[u8], quorums: Quorums, domain: Domain, scheme: &dyn Scheme) -> Result<Change, ChangeError> {
        let mut rest = value.strip_prefix(TAG).ok_or(ChangeError::Malformed)?;
        let signed = Vec::<Signed<Change>>::decode(&mut rest).map_err(|_| ChangeError::Malformed)?;
        let change = signed.first().filter(|_| rest.is_empty()).ok_or(ChangeError::Malformed)?.body;
        if signed.iter().any(|other| other.body != change) {
            return Err(ChangeError::Differs);
        }
        if Some(change.epoch) != domain.epoch.checked_add(1) {
            return Err(ChangeError::Epoch { begins: change.epoch, next: domain.epoch.saturating_add(1) });
        }
        let known = signed.iter().map(|one| one.signer).filter(|signer| usize::from(signer.0) < quorums.n());
        let (count, needed) = (known.collect::<ReplicaSet>().len(), quorums.quorum());
        // No member signs twice, so that a value has no more signatures than members.
        if count != signed.len() || count < needed {
            return Err(ChangeError::Few { signed: count, needed });
        }
        let claims: Vec<_> = signed.iter().map(|one| one.claim(domain)).collect();
        if scheme.accepts(&claims) { Ok(change) } else { Err(ChangeError::Signature) }
    }

    /// The first valid change of a block.
    pub(crate) fn first_in(batch: &Batch, quorums: Quorums, domain: Domain, scheme: &dyn Scheme) -> Option<Change> {
        let values = batch.transactions().iter().filter(|value| Self::is_claimed(value));
        values.filter_map(|value| Self::check(value, quorums, domain, scheme).ok()).next()
    }
}
