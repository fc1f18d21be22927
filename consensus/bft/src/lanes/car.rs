//! Cars, votes on them, certificates, and cuts of lanes.

use crate::core::{Batch, Claim, Domain, Index, MAX_REPLICAS, ReplicaSet, Signed, Statement};
use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::{Encodable, RlpDecodable, RlpEncodable};

/// A place in a lane: position from 1, and digest of the car. The default is the empty lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, RlpEncodable, RlpDecodable)]
pub struct Tip {
    /// Position, 0 for the empty lane.
    pub position: u64,
    /// Digest of the car's header.
    pub digest: B256,
}

/// A tip per lane, in the order of replicas.
pub type Cut = Vec<Tip>;

/// Digest of a cut: Keccak-256 over the domain tag `phalanx-cut-1` and the RLP encoding. Never zero but for a known preimage.
#[must_use]
pub fn cut_digest(cut: &[Tip]) -> B256 {
    let mut bytes = b"phalanx-cut-1".to_vec();
    alloy_rlp::encode_list(cut, &mut bytes);
    keccak256(&bytes)
}

/// Header of a car, signed by the owner of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Header {
    /// Lane, named by its owner.
    pub lane: Index,
    /// Position in the lane, from 1.
    pub position: u64,
    /// Digest of the car before, zero for the first one.
    pub parent: B256,
    /// Digest of the batch.
    pub batch: B256,
}

impl Header {
    /// Keccak-256 over the domain tag `phalanx-car-1` and the RLP encoding.
    #[must_use]
    pub fn digest(&self) -> B256 {
        let mut bytes = b"phalanx-car-1".to_vec();
        self.encode(&mut bytes);
        keccak256(&bytes)
    }

    /// The car's place.
    #[must_use]
    pub fn tip(&self) -> Tip {
        Tip { position: self.position, digest: self.digest() }
    }

    /// Place of the car before.
    #[must_use]
    pub const fn before(&self) -> Tip {
        Tip { position: self.position.saturating_sub(1), digest: self.parent }
    }
}

impl Statement for Header {
    const KIND: u8 = 32;
}

/// A signature on a statement that is known from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Ballot {
    /// Replica that signed.
    pub signer: Index,
    /// The signature.
    pub signature: Bytes,
}

impl Ballot {
    /// The claim that this ballot makes about a statement.
    pub fn claim(&self, statement: &impl Statement, domain: Domain) -> Claim {
        Claim { signer: self.signer, bytes: statement.signed_bytes(domain), signature: self.signature.clone() }
    }
}

/// Returns true if the ballots are of at least `least` distinct replicas out of `n`, and of no replica twice.
#[must_use]
pub fn endorses(ballots: &[Ballot], least: usize, n: usize) -> bool {
    let mut signers = ReplicaSet::default();
    ballots.len() >= least
        && ballots.len() <= n.min(MAX_REPLICAS)
        && ballots.iter().all(|ballot| usize::from(ballot.signer.0) < n && signers.insert(ballot.signer))
}

/// A batch in a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Car {
    /// The signed header.
    pub header: Signed<Header>,
    /// The batch.
    pub batch: Batch,
    /// Votes of f+1 replicas on the car before; none for the first car.
    pub proof: Vec<Ballot>,
}

impl Car {
    /// The car's place.
    #[must_use]
    pub fn tip(&self) -> Tip {
        self.header.body.tip()
    }

    /// Certificate of the car before.
    #[must_use]
    pub fn certificate(&self) -> Certificate {
        let header = &self.header.body;
        Certificate { lane: header.lane, tip: header.before(), ballots: self.proof.clone() }
    }

    /// Returns true if header and batch belong together, the owner signed, and enough replicas are said to have voted on the car
    /// before.
    #[must_use]
    pub fn is_well_formed(&self, one_correct: usize, n: usize) -> bool {
        let Header { lane, position, parent, batch } = self.header.body;
        let first = position == 1 && parent == B256::ZERO && self.proof.is_empty();
        usize::from(lane.0) < n
            && self.header.signer == lane
            && self.batch.digest() == batch
            && (first || position > 1 && endorses(&self.proof, one_correct, n))
    }

    /// Appends every signature in the car.
    pub fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        claims.push(self.header.claim(domain));
        if self.header.body.position > 1 {
            self.certificate().claims(domain, claims);
        }
    }
}

/// A replica has a car and its history, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct LaneVote {
    /// Lane.
    pub lane: Index,
    /// Place.
    pub tip: Tip,
}

impl Statement for LaneVote {
    const KIND: u8 = 33;
}

/// Proof of availability: votes of f+1 replicas on one car.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Certificate {
    /// Lane.
    pub lane: Index,
    /// Place.
    pub tip: Tip,
    /// Votes.
    pub ballots: Vec<Ballot>,
}

impl Certificate {
    /// Returns true if enough replicas are said to have voted, and the lane exists.
    #[must_use]
    pub fn is_well_formed(&self, one_correct: usize, n: usize) -> bool {
        usize::from(self.lane.0) < n && self.tip.position > 0 && endorses(&self.ballots, one_correct, n)
    }

    /// Appends every signature in the certificate.
    pub fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        let vote = LaneVote { lane: self.lane, tip: self.tip };
        claims.extend(self.ballots.iter().map(|ballot| ballot.claim(&vote, domain)));
    }
}
