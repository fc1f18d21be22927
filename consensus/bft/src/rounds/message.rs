//! Messages between replicas, with their signatures.

use super::block::{Block, Cert, CertKind, Offered, Place};
use crate::core::{
    Base, Batch, Claim, Domain, Index, MAX_REPLICAS, Message, ReplicaSet, Signed, Slot, Statement, View, at_most,
    short, tagged,
};
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{BufMut, Decodable, Encodable, Error, RlpDecodable, RlpEncodable};
use std::sync::Arc;

/// Maximum number of blocks in a [`Chain`].
pub(super) const MOST_BLOCKS: usize = 64;

/// A message between replicas. Votes and blocks are signed, because certificates and relayed blocks travel further than one hop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Msg {
    /// A block, from its author or relayed.
    Proposal(Arc<Block<Offered>>),
    /// A vote of any kind.
    Vote(Signed<Vote>),
    /// A certificate, for replicas that may have missed it.
    Certificate(Certificate),
    /// Asks for a block by name.
    Fetch(B256),
    /// A replica has executed up to a checkpoint.
    Checkpoint(Signed<Checkpoint>),
    /// Tells how far a replica is, so that others repeat what it misses.
    Status(Status),
    /// Answers a [`Msg::Status`].
    Chain(Chain),
}

/// Place and content of a block, as its author signs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Offer {
    /// View.
    pub view: View,
    /// Name of the parent.
    pub parent: B256,
    /// View of the parent.
    pub parent_view: View,
    /// Height of the block: its slot.
    pub height: Slot,
    /// Digest of the batch.
    pub digest: B256,
}

impl Offer {
    /// The offer of a batch in a place.
    #[must_use]
    pub const fn new(place: &Place, batch: &Batch) -> Self {
        let Place { view, parent, parent_view, height, .. } = *place;
        Self { view, parent, parent_view, height, digest: batch.digest() }
    }
}

impl Block<Offered> {
    /// The offer with the author's signature.
    #[must_use]
    pub fn signed(&self) -> Signed<Offer> {
        let Offered { batch, signature } = &self.content;
        Signed { signer: self.place.author, signature: signature.clone(), body: Offer::new(&self.place, batch) }
    }
}

/// A vote, an order vote or a nullify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Vote {
    /// Statement of the vote.
    pub kind: CertKind,
    /// View.
    pub view: View,
    /// Name of the block, zero for a nullify.
    pub id: B256,
}

/// A signature of a replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Signature {
    /// The replica.
    pub signer: Index,
    /// Signature of the signer.
    pub bytes: Bytes,
}

/// Equal votes of a quorum.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Certificate {
    /// The vote.
    pub vote: Vote,
    /// A signature of each voter.
    pub signatures: Vec<Signature>,
}

impl Certificate {
    /// Voters, each counted once.
    pub(super) fn signers(&self) -> ReplicaSet {
        self.signatures.iter().map(|signature| signature.signer).collect()
    }

    /// The certificate without its signatures.
    pub(super) fn cert(&self) -> Cert {
        let Vote { kind, view, id } = self.vote;
        Cert { kind, view, id, signers: self.signers() }
    }

    fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        let bytes = self.vote.signed_bytes(domain);
        claims.extend(self.signatures.iter().map(|Signature { signer, bytes: signature }| Claim {
            signer: *signer,
            bytes: bytes.clone(),
            signature: signature.clone(),
        }));
    }
}

/// CHECKPOINT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, RlpEncodable, RlpDecodable)]
pub struct Checkpoint {
    /// Slot: the block's height.
    pub slot: Slot,
    /// View of the block.
    pub view: View,
    /// Name of the block.
    pub id: B256,
    /// Digest of the outcome.
    pub digest: B256,
}

impl Checkpoint {
    pub(super) const fn base(&self) -> Base {
        Base { slot: self.slot, digest: self.digest }
    }
}

/// STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Status {
    /// View that the replica is in.
    pub view: View,
    /// Stable checkpoint.
    pub stable: Slot,
    /// Every slot up to this one is decided.
    pub decided: Slot,
}

/// Ordered blocks for a replica that is behind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Chain {
    /// The blocks, oldest first, each on the one before.
    pub blocks: Vec<Arc<Block<Offered>>>,
    /// Order certificate of the last one.
    pub certificate: Certificate,
}

impl Statement for Offer {
    const KIND: u8 = 0x61;
}

impl Statement for Vote {
    const KIND: u8 = 0x62;
}

impl Statement for Checkpoint {
    const KIND: u8 = 0x63;
}

impl CertKind {
    const fn number(self) -> u8 {
        match self {
            Self::Notarise => 1,
            Self::Nullify => 2,
            Self::Order => 3,
        }
    }
}

impl Encodable for CertKind {
    fn encode(&self, out: &mut dyn BufMut) {
        self.number().encode(out);
    }

    fn length(&self) -> usize {
        self.number().length()
    }
}

impl Decodable for CertKind {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let number = u8::decode(bytes)?;
        let kind = [Self::Notarise, Self::Nullify, Self::Order].into_iter().find(|kind| kind.number() == number);
        kind.ok_or(Error::Custom("unknown kind of vote"))
    }
}

/// A block as bytes: its name follows from the rest.
#[derive(RlpEncodable, RlpDecodable)]
struct Nameless {
    view: View,
    parent: B256,
    parent_view: View,
    author: Index,
    height: Slot,
    batch: Batch,
    signature: Bytes,
}

impl From<&Block<Offered>> for Nameless {
    fn from(block: &Block<Offered>) -> Self {
        let Place { view, parent, parent_view, author, height } = block.place;
        let Offered { batch, signature } = block.content.clone();
        Self { view, parent, parent_view, author, height, batch, signature }
    }
}

impl Encodable for Block<Offered> {
    fn encode(&self, out: &mut dyn BufMut) {
        Nameless::from(self).encode(out);
    }

    fn length(&self) -> usize {
        Nameless::from(self).length()
    }
}

impl Decodable for Block<Offered> {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let Nameless { view, parent, parent_view, author, height, batch, signature } = Decodable::decode(bytes)?;
        Ok(Self::new(Place { view, parent, parent_view, author, height }, Offered { batch, signature }))
    }
}

tagged! {
    Msg, "message",
    1 => Proposal(body),
    2 => Vote(body),
    3 => Certificate(body),
    4 => Fetch(body),
    5 => Checkpoint(body),
    6 => Status(body),
    7 => Chain(body),
}

impl Msg {
    fn bounds(&self) -> alloy_rlp::Result<()> {
        let signed = |certificate: &Certificate| {
            at_most(certificate.signatures.len(), MAX_REPLICAS, "more signatures than replicas")
        };
        match self {
            Self::Certificate(certificate) => signed(certificate),
            Self::Chain(chain) => {
                signed(&chain.certificate)?;
                at_most(chain.blocks.len(), MOST_BLOCKS, "more blocks than one answer has")
            }
            _ => Ok(()),
        }
    }
}

impl Message for Msg {
    fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        match self {
            Self::Proposal(block) => claims.push(block.signed().claim(domain)),
            Self::Vote(signed) => claims.push(signed.claim(domain)),
            Self::Certificate(certificate) => certificate.claims(domain, claims),
            Self::Checkpoint(signed) => claims.push(signed.claim(domain)),
            Self::Chain(chain) => {
                claims.extend(chain.blocks.iter().map(|block| block.signed().claim(domain)));
                chain.certificate.claims(domain, claims);
            }
            Self::Fetch(_) | Self::Status(_) => {}
        }
    }

    fn label(&self) -> u64 {
        let of_vote = |vote: &Vote| vote.view ^ u64::from(vote.kind.number()) << 48 ^ short(&vote.id);
        let fields = match self {
            Self::Proposal(block) => short(&block.id),
            Self::Vote(signed) => of_vote(&signed.body),
            Self::Certificate(certificate) => of_vote(&certificate.vote),
            Self::Fetch(id) => short(id),
            Self::Checkpoint(signed) => signed.body.slot << 16 ^ short(&signed.body.digest),
            Self::Status(status) => status.view ^ status.stable << 16 ^ status.decided << 32,
            Self::Chain(chain) => short(&chain.certificate.vote.id),
        };
        u64::from(self.kind()) << 56 ^ fields
    }
}
