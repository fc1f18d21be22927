//! The result of a block as one digest, and the proof of one transaction's part of it.
//!
//! ```text
//! digest ── H(10, execution, state root, receipts root, transactions root, gas)
//!                                                        │
//!                                       H(9, count, top) ┘
//!                                                    │      a binary tree, padded with EMPTY on the right
//!                                            H(8, left, right)
//!                                                    │
//!                                  H(7, transaction hash, status, place)
//! ```
//!
//! A skipped transaction has a leaf like any other, so that its fate is provable as well. Everything is hashed with
//! SHA-256, whatever hashes the state. A proof has one encoding, with integers in big endian:
//!
//! ```text
//! proof = version || execution || state root || receipts root || gas (8) || count (4) || place (4) || status || sibling*
//! ```

use alloc::vec::Vec;

use crate::{
    hash::{EMPTY, Hash, HashFn},
    proof::ProofError,
    rules::domain,
};

/// First byte of an encoded proof.
const VERSION: u8 = 0x41;

/// Length of a proof without siblings, in bytes.
const HEAD: usize = 1 + 3 * 32 + 8 + 4 + 4 + 1;

/// The hash function of outcomes.
const HASH: HashFn = HashFn::Sha256;

/// Result of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockResult {
    /// Identity of the execution.
    pub execution: Hash,
    /// Root of the state after the block.
    pub state_root: Hash,
    /// Root of the receipts.
    pub receipts_root: Hash,
    /// Root over the transactions: [`transactions_root`].
    pub transactions_root: Hash,
    /// Gas of all executed transactions.
    pub gas_used: u64,
}

impl BlockResult {
    /// Digest that votes sign.
    pub fn digest(&self) -> Hash {
        let Self { execution, state_root, receipts_root, transactions_root, gas_used } = self;
        let gas = gas_used.to_be_bytes();
        HASH.digest(&[&[domain::OUTCOME], execution, state_root, receipts_root, transactions_root, &gas])
    }
}

/// A transaction of a block: its hash, and the code of its status.
pub type Fate = (Hash, u8);

/// Transaction that a proof shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProvenFate {
    /// Code of its status.
    pub status: u8,
    /// Position in the block.
    pub place: u32,
    /// Number of transactions of the block.
    pub count: u32,
    /// Result of the block.
    pub block: BlockResult,
}

/// Root over all transactions of a block, in order. O(transactions).
pub fn transactions_root(fates: &[Fate]) -> Hash {
    let mut level = leaves(fates);
    while level.len() > 1 {
        level = above(&level);
    }
    root(fates.len() as u32, level.first().unwrap_or(&EMPTY))
}

/// Proves the transaction at `place` of a block with this result; `None` if there is none. O(transactions).
///
/// The transactions root of `block` must be that of `fates`.
pub fn prove_fate(block: &BlockResult, fates: &[Fate], place: u32) -> Option<Vec<u8>> {
    let (_, status) = fates.get(place as usize)?;
    let mut proof = Vec::with_capacity(HEAD + 32 * 32);
    proof.push(VERSION);
    for hash in [&block.execution, &block.state_root, &block.receipts_root] {
        proof.extend_from_slice(hash);
    }
    proof.extend_from_slice(&block.gas_used.to_be_bytes());
    proof.extend_from_slice(&(fates.len() as u32).to_be_bytes());
    proof.extend_from_slice(&place.to_be_bytes());
    proof.push(*status);
    let (mut level, mut at) = (leaves(fates), place as usize);
    while level.len() > 1 {
        proof.extend_from_slice(level.get(at ^ 1).unwrap_or(&EMPTY));
        (level, at) = (above(&level), at / 2);
    }
    Some(proof)
}

/// Verifies that the transaction with hash `tx` is where `proof` says in the block whose result has this digest, and
/// ended as it says. O(log transactions), without a heap.
///
/// # Errors
/// The proof is not in the one encoding, or shows something else. No other proof of the same fact passes.
pub fn verify_fate(digest: &Hash, tx: &Hash, proof: &[u8]) -> Result<ProvenFate, ProofError> {
    let mut rest = proof;
    let [version] = take(&mut rest)?;
    if version != VERSION {
        return Err(ProofError::Version(version));
    }
    let (execution, state_root, receipts_root) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
    let gas_used = u64::from_be_bytes(take(&mut rest)?);
    let (count, place) = (u32::from_be_bytes(take(&mut rest)?), u32::from_be_bytes(take(&mut rest)?));
    let [status] = take(&mut rest)?;
    if place >= count {
        return Err(ProofError::Position);
    }
    let (mut hash, mut at, mut width) = (leaf(tx, status, place), place, count);
    while width > 1 {
        let sibling: Hash = take(&mut rest)?;
        hash = if at % 2 == 0 { node(&hash, &sibling) } else { node(&sibling, &hash) };
        (at, width) = (at / 2, width.div_ceil(2));
    }
    if !rest.is_empty() {
        return Err(ProofError::Malformed);
    }
    let transactions_root = root(count, &hash);
    let block = BlockResult { execution, state_root, receipts_root, transactions_root, gas_used };
    if block.digest() != *digest {
        return Err(ProofError::Root);
    }
    Ok(ProvenFate { status, place, count, block })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], ProofError> {
    let (head, tail) = rest.split_first_chunk().ok_or(ProofError::Malformed)?;
    *rest = tail;
    Ok(*head)
}

fn leaf(tx: &Hash, status: u8, place: u32) -> Hash {
    HASH.digest(&[&[domain::FATE], tx, &[status], &place.to_be_bytes()])
}

fn node(left: &Hash, right: &Hash) -> Hash {
    HASH.digest(&[&[domain::FATES], left, right])
}

fn root(count: u32, top: &Hash) -> Hash {
    HASH.digest(&[&[domain::TRANSACTIONS], &count.to_be_bytes(), top])
}

fn leaves(fates: &[Fate]) -> Vec<Hash> {
    let mut tails = Vec::with_capacity(fates.len());
    for ((_, status), place) in fates.iter().zip(0u32..) {
        let [a, b, c, d] = place.to_be_bytes();
        tails.push([*status, a, b, c, d]);
    }
    let messages = fates.iter().zip(&tails).map(|((tx, _), tail)| [&[domain::FATE][..], tx, tail]);
    many(messages.enumerate(), fates.len())
}

/// Nodes above a level of two or more.
fn above(level: &[Hash]) -> Vec<Hash> {
    let pairs = level.chunks(2).map(|pair| [&[domain::FATES][..], &pair[0], pair.get(1).unwrap_or(&EMPTY)]);
    many(pairs.enumerate(), level.len().div_ceil(2))
}

fn many<'m, const PARTS: usize>(messages: impl Iterator<Item = (usize, [&'m [u8]; PARTS])>, count: usize) -> Vec<Hash> {
    let mut hashes = Vec::new();
    hashes.resize(count, EMPTY);
    HASH.digest_many(messages, |number, hash| hashes[number] = hash);
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn fates(count: u32) -> Vec<Fate> {
        (0..count).map(|at| (HASH.digest(&[b"tx", &at.to_be_bytes()]), (at % 3) as u8)).collect()
    }

    fn block(fates: &[Fate]) -> BlockResult {
        BlockResult {
            execution: [1; 32],
            state_root: [2; 32],
            receipts_root: [3; 32],
            transactions_root: transactions_root(fates),
            gas_used: 0x0123_4567_89ab_cdef,
        }
    }

    #[test]
    fn every_transaction_of_blocks_of_every_size_is_proved_in_logarithmic_size() {
        let mut roots = HashSet::new();
        for count in (0..70).chain([127, 128, 129, 1000]) {
            let fates = fates(count);
            let block = block(&fates);
            assert!(roots.insert(block.transactions_root), "{count}");
            for place in 0..count {
                let proof = prove_fate(&block, &fates, place).expect("a transaction");
                let levels = (32 - (count - 1).leading_zeros()) as usize;
                assert_eq!(proof.len(), HEAD + 32 * levels);
                let (tx, status) = &fates[place as usize];
                let proven = verify_fate(&block.digest(), tx, &proof);
                assert_eq!(proven, Ok(ProvenFate { status: *status, place, count, block }), "{place} of {count}");
            }
            assert_eq!(prove_fate(&block, &fates, count), None);
        }
    }

    #[test]
    fn every_other_claim_is_refused() {
        for count in [1, 2, 3, 5, 8, 33] {
            let fates = fates(count);
            let block = block(&fates);
            let digest = block.digest();
            for place in 0..count {
                let (tx, status) = fates[place as usize];
                let proof = prove_fate(&block, &fates, place).expect("a transaction");
                for at in 0..proof.len() {
                    for bit in 0..8 {
                        let mut bad = proof.clone();
                        bad[at] ^= 1 << bit;
                        assert!(verify_fate(&digest, &tx, &bad).is_err(), "byte {at} of {count}");
                    }
                }
                for len in 0..proof.len() {
                    assert!(verify_fate(&digest, &tx, &proof[..len]).is_err());
                }
                assert!(verify_fate(&digest, &tx, &[&proof[..], &[0]].concat()).is_err());
                assert!(verify_fate(&digest, &tx, &[&proof[..], &EMPTY].concat()).is_err());
                // Another place, status or transaction.
                for other in (0..count + 2).filter(|other| *other != place) {
                    let mut moved = proof.clone();
                    moved[HEAD - 5..HEAD - 1].copy_from_slice(&other.to_be_bytes());
                    assert!(verify_fate(&digest, &tx, &moved).is_err(), "{place} moved to {other} of {count}");
                    if let Some((foreign, _)) = fates.get(other as usize) {
                        assert!(verify_fate(&digest, foreign, &proof).is_err());
                    }
                }
                for other in (0..=u8::MAX).filter(|other| *other != status) {
                    let mut changed = proof.clone();
                    changed[HEAD - 1] = other;
                    assert!(verify_fate(&digest, &tx, &changed).is_err());
                }
                let mut flipped = digest;
                flipped[(place % 32) as usize] ^= 1;
                assert!(verify_fate(&flipped, &tx, &proof).is_err());
            }
            // Swapped leaves make another root.
            if count > 1 {
                let mut swapped = fates.clone();
                swapped.swap(0, 1);
                assert_ne!(transactions_root(&swapped), block.transactions_root);
                let proof = prove_fate(&block, &swapped, 0).expect("a transaction");
                assert!(verify_fate(&digest, &swapped[0].0, &proof).is_err());
            }
        }
    }

    #[test]
    fn an_inner_node_passes_for_no_transaction() {
        let fates = fates(4);
        let block = block(&fates);
        let level = above(&leaves(&fates));
        // A proof that is one level short, for a block of two.
        let mut proof = prove_fate(&block, &fates, 0).expect("a transaction");
        proof[HEAD - 9..HEAD - 5].copy_from_slice(&2u32.to_be_bytes());
        proof.truncate(HEAD);
        proof.extend_from_slice(&level[1]);
        assert!(verify_fate(&block.digest(), &level[0], &proof).is_err());
    }
}
