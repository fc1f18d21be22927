//! Proofs of a block's result, as the bytes of the pipeline's certificates.

use crate::frame::StateVote;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable as _, Encodable as _};
use phalanx_bft::{Domain, Quorums, Signed, Slot, StateVotes};
use phalanx_keys::Scheme;

/// Proof of the result of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateProof {
    /// State votes of a quorum, which may be added up. They carry what they lean on.
    Votes(Vec<Signed<StateVote>>),
    /// Signed checkpoints of a quorum, in the protocol's encoding.
    Checkpoint(Bytes),
}

impl StateProof {
    /// A byte of kind, then the content.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        match self {
            Self::Votes(votes) => {
                bytes.push(1);
                votes.encode(&mut bytes);
            }
            Self::Checkpoint(proof) => {
                bytes.push(2);
                bytes.extend_from_slice(proof);
            }
        }
        bytes.into()
    }

    /// Reads what [`StateProof::encode`] wrote.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (1, mut votes) => {
                let votes = Vec::decode(&mut votes).ok().filter(|_| votes.is_empty())?;
                Some(Self::Votes(votes))
            }
            (2, proof) => Some(Self::Checkpoint(Bytes::copy_from_slice(proof))),
            _ => None,
        }
    }
}

/// Returns true if the votes certify this result: different replicas, a quorum, leaning on one view or on none.
#[must_use]
pub fn certifies(
    votes: &[Signed<StateVote>],
    (slot, block, digest): (Slot, B256, B256),
    quorums: Quorums,
    domain: Domain,
    scheme: &dyn Scheme,
) -> bool {
    let mut tally = StateVotes::new(quorums);
    for vote in votes {
        if (vote.body.slot, vote.body.block) != (slot, block) {
            return false;
        }
        tally.add(vote.signer, vote.body.digest, vote.body.lean());
    }
    votes.len() <= quorums.n()
        && tally.is_certified(digest)
        && scheme.verify(&votes.iter().map(|vote| vote.claim(domain)).collect::<Vec<_>>()).is_ok()
}
