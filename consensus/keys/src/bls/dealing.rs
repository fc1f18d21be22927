//! Shares of groups without a dealer who knows them: each member deals, and the sum of all dealings is the key.
//!
//! Every member draws a polynomial per group, publishes its coefficients times the generator, and gives each other member its value,
//! encrypted for it alone (Pedersen, *A threshold cryptosystem without a trusted party*, 1991; Feldman's check of a share). A share of
//! the network is the sum of the values from all members, so that one honest member suffices to keep the groups' keys secret. A proof
//! of possession of the constant term keeps the last dealer from choosing a key against those of the others.
//!
//! A wrong dealing is refused by the member that it would harm, and names its dealer: all dealings are needed, as a ceremony of few
//! operators can begin anew without the one that is at fault. The last dealer may choose among several keys, which it does not know
//! the secrets of; for BLS that gains nothing (Gennaro, Jarecki, Krawczyk and Rabin, 2007).

use super::{
    field::{add, evaluate, powers},
    file::{BlsFile, GroupKeys, SHARED, coefficients, fits, secret, threshold},
    scheme::little_endian,
};
use crate::{
    file::KeyError,
    member::{OwnKeys, Roster},
};
use alloy_primitives::{B256, Bytes, U256};
use blst::{
    BLST_ERROR, MultiPoint as _, blst_p2_affine,
    min_sig::{AggregatePublicKey, PublicKey, SecretKey, Signature},
};
use phalanx_bft::Index;
use serde::{Deserialize, Serialize};

/// Version of the format.
const VERSION: u32 = 1;

/// Separates proofs of possession from other signatures.
const POSSESSION: &[u8] = b"PHALANX-KEYS-1_BLS12381G1_XMD:SHA-256_SSWU_RO_POP_";

/// Context of the pads that values are encrypted with.
const PADS: &str = "phalanx-keys 1 own pads";

/// Bits of a power of a member's place.
const ORDER_BITS: usize = 255;

/// Part of a member in the groups' keys: public, and useless to everyone but the members that it encrypts values for.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dealing {
    version: u32,
    dealer: u16,
    faulty: u16,
    /// Digest of the roster that it is for.
    roster: B256,
    /// Parts in the groups of [`SHARED`], in that order.
    groups: Vec<Part>,
    /// Signature of all of it by the dealer.
    signature: Bytes,
}

/// Part of a dealer in the key of one group.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    /// Coefficients of the polynomial times the generator, lowest first.
    commitments: Vec<Bytes>,
    /// Proof that the dealer knows the lowest coefficient.
    possession: Bytes,
    /// The polynomial's value for each member, encrypted.
    values: Vec<B256>,
}

impl core::fmt::Debug for Dealing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Dealing").field("dealer", &self.dealer).field("roster", &self.roster).finish_non_exhaustive()
    }
}

impl Dealing {
    /// The dealing of the member with these keys, for a network with `faulty` faulty members. Equal calls give equal dealings.
    ///
    /// # Errors
    /// No member has the keys, n is not 3f+2c+1, or the channel key of another member is no key.
    pub fn new(own: &OwnKeys, roster: &Roster, faulty: u16) -> Result<Self, KeyError> {
        let (me, n, f) = (roster.index_of(own)?, roster.members().len(), usize::from(faulty));
        if !fits(n, f) {
            return Err(KeyError::Groups { index: me.0, what: "are for another number of replicas" });
        }
        let mut groups = Vec::new();
        for (at, group) in SHARED.into_iter().enumerate() {
            let mut seed = own.secret("phalanx-keys 1 own shares");
            seed.update(roster.digest().as_slice()).update(&faulty.to_be_bytes());
            let polynomial = coefficients(&seed, group, (n, f));
            let secrets = polynomial.iter().map(|value| secret(*value)).collect::<Result<Vec<_>, _>>()?;
            let commitments: Vec<Bytes> = secrets.iter().map(|of| of.sk_to_pk().to_bytes().into()).collect();
            let possession =
                secrets[0].sign(&possessed(roster, me, &commitments[0]), POSSESSION, &[]).to_bytes().into();
            let value = |to: usize| {
                let pad = pad(own, (roster, faulty), (me, Index(to as u16)), me, at)?;
                Ok(B256::from(evaluate(&polynomial, to as u64 + 1).to_be_bytes::<32>()) ^ pad)
            };
            let values = (0..n).map(value).collect::<Result<_, KeyError>>()?;
            groups.push(Part { commitments, possession, values });
        }
        let mut dealing =
            Self { version: VERSION, dealer: me.0, faulty, roster: roster.digest(), groups, signature: Bytes::new() };
        dealing.signature = own.sign(dealing.hash().as_slice());
        Ok(dealing)
    }

    /// Parses a dealing, whose numbers [`BlsFile::join`] checks.
    ///
    /// # Errors
    /// The bytes are no such file.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyError> {
        serde_json::from_slice(bytes).map_err(|error| KeyError::Malformed { what: error.to_string() })
    }

    /// The file's content.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a dealing is plain data")
    }

    /// Index of the dealer.
    #[must_use]
    pub const fn dealer(&self) -> Index {
        Index(self.dealer)
    }

    /// Hash of everything that the dealer signs.
    fn hash(&self) -> B256 {
        let mut hasher = blake3::Hasher::new_derive_key("phalanx-keys 1 dealing");
        hasher.update(&self.dealer.to_be_bytes()).update(&self.faulty.to_be_bytes()).update(self.roster.as_slice());
        for part in &self.groups {
            hasher.update(&(part.commitments.len() as u64).to_be_bytes());
            for bytes in part.commitments.iter().chain([&part.possession]) {
                hasher.update(&(bytes.len() as u64).to_be_bytes()).update(bytes);
            }
            hasher.update(&(part.values.len() as u64).to_be_bytes());
            for value in &part.values {
                hasher.update(value.as_slice());
            }
        }
        B256::new(*hasher.finalize().as_bytes())
    }

    /// Checks everything but the values, and returns the commitments as points, by group.
    fn commitments(&self, roster: &Roster, faulty: u16) -> Result<Vec<Vec<PublicKey>>, KeyError> {
        let (n, f) = (roster.members().len(), usize::from(faulty));
        let wrong = |what| KeyError::Dealing { dealer: self.dealer, what };
        let member = roster.members().get(usize::from(self.dealer)).ok_or(wrong("is of no member"))?;
        if self.version != VERSION {
            return Err(KeyError::Version { version: self.version });
        }
        if self.roster != roster.digest() || self.faulty != faulty {
            return Err(wrong("is for another network"));
        }
        if !member.has_signed(self.hash().as_slice(), &self.signature) {
            return Err(wrong("is not signed by its dealer"));
        }
        let shaped = |(part, group)| {
            let Part { commitments, values, .. }: &Part = part;
            commitments.len() == threshold(group, n, f) && values.len() == n
        };
        if self.groups.len() != SHARED.len() || !self.groups.iter().zip(SHARED).all(shaped) {
            return Err(wrong("is incomplete"));
        }
        let mut all = Vec::new();
        for part in &self.groups {
            let points =
                part.commitments.iter().map(|bytes| PublicKey::key_validate(bytes)).collect::<Result<Vec<_>, _>>();
            let points = points.map_err(|_| wrong("has a coefficient that is no point"))?;
            let claim = possessed(roster, self.dealer(), &part.commitments[0]);
            let proven = Signature::from_bytes(&part.possession).is_ok_and(|proof| {
                proof.verify(true, &claim, POSSESSION, &[], &points[0], false) == BLST_ERROR::BLST_SUCCESS
            });
            if !proven {
                return Err(wrong("does not prove that its dealer knows its part"));
            }
            all.push(points);
        }
        Ok(all)
    }

    /// The value for a member, once it fits the commitments.
    fn value(
        &self,
        own: &OwnKeys,
        roster: &Roster,
        me: Index,
        at: usize,
        known: &[PublicKey],
    ) -> Result<U256, KeyError> {
        let part = &self.groups[at];
        let value =
            part.values[usize::from(me.0)] ^ pad(own, (roster, self.faulty), (me, self.dealer()), self.dealer(), at)?;
        let fits = SecretKey::from_bytes(&value.0).is_ok_and(|secret| secret.sk_to_pk() == at_place(known, me.0));
        match fits {
            true => Ok(U256::from_be_bytes(value.0)),
            false => Err(KeyError::Dealing { dealer: self.dealer, what: "has a wrong value for this member" }),
        }
    }
}

impl BlsFile {
    /// The key file of the member with these keys, from the dealings of all members.
    ///
    /// # Errors
    /// A dealing is missing, or names its dealer by not fitting.
    pub fn join(own: &OwnKeys, roster: &Roster, faulty: u16, dealings: &[Dealing]) -> Result<Self, KeyError> {
        let (keys, n) = (roster.key_file(own)?, roster.members().len());
        let me = keys.index();
        let mut sums: Vec<(U256, Vec<AggregatePublicKey>)> = Vec::new();
        for dealer in 0..n as u16 {
            let mut of = dealings.iter().filter(|dealing| dealing.dealer == dealer);
            let dealing = of.next().ok_or(KeyError::Undealt { dealer })?;
            // Members that take different ones would have different keys.
            if of.any(|other| other != dealing) {
                return Err(KeyError::Dealing { dealer, what: "is there twice, with different contents" });
            }
            let known = dealing.commitments(roster, faulty)?;
            for (at, known) in known.iter().enumerate() {
                let value = dealing.value(own, roster, me, at, known)?;
                match sums.get_mut(at) {
                    None => sums.push((value, known.iter().map(AggregatePublicKey::from_public_key).collect())),
                    Some((sum, commitments)) => {
                        *sum = add(*sum, value);
                        for (all, one) in commitments.iter_mut().zip(known) {
                            // Each was checked as a point of the group.
                            let _ = all.add_public_key(one, false);
                        }
                    }
                }
            }
        }
        let group = |(sum, commitments): (U256, Vec<AggregatePublicKey>)| {
            let commitments: Vec<PublicKey> = commitments.iter().map(AggregatePublicKey::to_public_key).collect();
            let share = |member: u16| at_place(&commitments, member).to_bytes().into();
            Ok(GroupKeys {
                secret: B256::from(secret(sum)?.to_bytes()),
                public: commitments[0].to_bytes().into(),
                shares: (0..n as u16).map(share).collect(),
            })
        };
        Self::of(keys, faulty, sums.into_iter().map(group).collect::<Result<_, KeyError>>()?)
    }
}

/// Bytes that prove possession of a lowest coefficient.
fn possessed(roster: &Roster, dealer: Index, commitment: &[u8]) -> Vec<u8> {
    [roster.digest().as_slice(), &dealer.0.to_be_bytes(), commitment].concat()
}

/// The polynomial's value at the place of a member, times the generator.
fn at_place(commitments: &[PublicKey], member: u16) -> PublicKey {
    let points: Vec<blst_p2_affine> = commitments.iter().map(|key| (*key).into()).collect();
    let scalars = little_endian(&powers(u64::from(member) + 1, points.len()));
    AggregatePublicKey::from(points.as_slice().mult(&scalars, ORDER_BITS)).to_public_key()
}

/// Pad between a dealer and a member, at either end: it encrypts one value of 32 bytes, which depends on nothing else.
fn pad(
    own: &OwnKeys,
    (roster, faulty): (&Roster, u16),
    (me, peer): (Index, Index),
    dealer: Index,
    group: usize,
) -> Result<B256, KeyError> {
    let key = match me == peer {
        true => B256::new(*own.secret(PADS).update(roster.digest().as_slice()).finalize().as_bytes()),
        false => roster.agreed(own, me, peer, PADS)?,
    };
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(&faulty.to_be_bytes()).update(&dealer.0.to_be_bytes()).update(&[group as u8]);
    Ok(B256::new(*hasher.finalize().as_bytes()))
}

#[cfg(test)]
mod tests;
