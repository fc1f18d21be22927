use core::fmt;

use crate::{BITMAP_BYTES, EMPTY, Entry, Hash, LEFT_LEVELS, Params, TWIG_LEAVES, TWIG_LEVEL, siblings};

/// First byte of an encoded inclusion proof.
const VERSION: u8 = 1;

/// A proof that a key has a value under a root, as the prover sees it. The verifier reads only its encoding.
#[derive(Clone, Copy, Debug)]
pub struct Proof<'a> {
    /// The proven entry.
    pub entry: Entry<'a>,
    /// Its position.
    pub sn: u64,
    /// Positions under the root.
    pub next_sn: u64,
    /// Active positions under the root.
    pub active_count: u64,
    /// The active bits of the entry's twig.
    pub bitmap: &'a [u8; BITMAP_BYTES],
    /// The siblings that are not empty, bottom up ([`siblings`] lists them).
    pub siblings: &'a [Hash],
}

impl Proof<'_> {
    /// Appends the canonical encoding: version, `next_sn`, `active_count`, `sn`, height, entry, bitmap, siblings.
    /// Every length but the entry's follows from the positions, and integers have a fixed width, so that a proof has
    /// one encoding.
    pub fn encode(&self, out: &mut impl for<'b> Extend<&'b u8>) {
        out.extend(&[VERSION]);
        for word in [self.next_sn, self.active_count, self.sn, self.entry.height] {
            out.extend(&word.to_be_bytes());
        }
        self.entry.encode(out);
        out.extend(self.bitmap);
        out.extend(self.siblings.as_flattened());
    }
}

/// Why bytes do not prove what they claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProofError {
    /// The proof is of a version that this verifier does not know.
    Version(u8),
    /// The bytes end early, go on after the end, or are not the canonical encoding.
    Malformed,
    /// The position is not below the number of positions.
    Position,
    /// The position holds an old value: its active bit is off.
    Inactive,
    /// The digests do not lead to the root.
    Root,
}

impl fmt::Display for ProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "unknown proof version {version}"),
            Self::Malformed => f.write_str("not the canonical encoding of a proof"),
            Self::Position => f.write_str("position beyond the end of the log"),
            Self::Inactive => f.write_str("the entry is not the key's current value"),
            Self::Root => f.write_str("the digests do not lead to the root"),
        }
    }
}

impl core::error::Error for ProofError {}

/// Checks that `proof` leads from an active entry to `root`, and returns that entry. The caller compares the key.
///
/// Decoding is strict: there is exactly one accepted encoding per entry and root. Takes about 20 + log2(twigs) hashes and
/// allocates nothing.
///
/// # Errors
/// A [`ProofError`] that says which check failed.
pub fn verify_inclusion<'a>(params: &Params, root: &Hash, proof: &'a [u8]) -> Result<Entry<'a>, ProofError> {
    let hash = params.hash;
    let (version, rest) = proof.split_first().ok_or(ProofError::Malformed)?;
    if *version != VERSION {
        return Err(ProofError::Version(*version));
    }
    let (next_sn, rest) = word(rest)?;
    let (active_count, rest) = word(rest)?;
    let (sn, rest) = word(rest)?;
    let (height, rest) = word(rest)?;
    if sn >= next_sn {
        return Err(ProofError::Position);
    }
    let (entry, rest) = Entry::decode(rest, height).ok_or(ProofError::Malformed)?;
    let (bitmap, rest) = rest.split_first_chunk::<BITMAP_BYTES>().ok_or(ProofError::Malformed)?;
    let position = (sn % TWIG_LEAVES as u64) as usize;
    if bitmap[position / 8] >> (position % 8) & 1 == 0 {
        return Err(ProofError::Inactive);
    }

    let (given, trailing) = rest.as_chunks::<32>();
    if !trailing.is_empty() || given.len() != siblings(sn, next_sn).filter(|(_, _, other)| other.is_some()).count() {
        return Err(ProofError::Malformed);
    }
    let mut given = given.iter();
    let mut digest = hash.leaf(&entry);
    for (step, (level, from_right, other)) in siblings(sn, next_sn).enumerate() {
        if step == LEFT_LEVELS {
            digest = hash.twig(&digest, &hash.bits(bitmap));
        }
        let other = if other.is_some() { given.next().unwrap_or(&EMPTY) } else { &EMPTY };
        let (left, right) = if from_right { (other, &digest) } else { (&digest, other) };
        digest = hash.node(level + 1, left, right);
    }
    if next_sn <= TWIG_LEAVES as u64 {
        digest = hash.twig(&digest, &hash.bits(bitmap));
    }
    if params.root(next_sn, active_count, &digest) == *root { Ok(entry) } else { Err(ProofError::Root) }
}

fn word(bytes: &[u8]) -> Result<(u64, &[u8]), ProofError> {
    let (word, rest) = bytes.split_first_chunk::<8>().ok_or(ProofError::Malformed)?;
    Ok((u64::from_be_bytes(*word), rest))
}

const _: () = assert!(TWIG_LEVEL as usize == LEFT_LEVELS + 1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashFn;
    use rand::{Rng as _, SeedableRng as _};
    use std::vec::Vec;

    /// Proves the last of `count` entries by hashing everything, level by level.
    fn proof_of_last(hash: HashFn, count: u64) -> (Hash, Vec<u8>) {
        let params = Params { hash };
        let entry = Entry { key: b"some key", value: b"some value", height: 9 };
        let sn = count - 1;
        let mut level: Vec<Hash> =
            (0..count).map(|i| if i == sn { hash.leaf(&entry) } else { [i as u8; 32] }).collect();
        let mut bitmap = [0xff; BITMAP_BYTES];
        let mut path = Vec::new();
        let mut index = sn as usize;
        let twigs = level.len().div_ceil(TWIG_LEAVES);
        for at in 1..=LEFT_LEVELS as u8 + crate::upper_levels(twigs as u64) as u8 {
            path.extend(level.get(index ^ 1));
            let mut parents = std::vec![EMPTY; level.len().div_ceil(2)];
            hash.nodes(if at <= LEFT_LEVELS as u8 { at } else { at + 1 }, &level, &mut parents);
            level = parents;
            index /= 2;
            if at == LEFT_LEVELS as u8 {
                let last = (count - 1) as usize % TWIG_LEAVES;
                level = level.iter().map(|left| hash.twig(left, &hash.bits(&[0xff; BITMAP_BYTES]))).collect();
                bitmap[last / 8] |= 1 << (last % 8);
            }
        }
        let proof = Proof { entry, sn, next_sn: count, active_count: count, bitmap: &bitmap, siblings: &path };
        let mut bytes = Vec::new();
        proof.encode(&mut bytes);
        (params.root(count, count, &level[0]), bytes)
    }

    #[test]
    fn proofs_verify_at_every_edge_of_the_shape() {
        for hash in [HashFn::Sha256, HashFn::Keccak256, HashFn::Blake3] {
            for count in [1, 2, 3, 2047, 2048, 2049, 4096, 4097, 8193] {
                let (root, bytes) = proof_of_last(hash, count);
                let entry = verify_inclusion(&Params { hash }, &root, &bytes).expect("a correct proof");
                assert_eq!((entry.key, entry.value, entry.height), (&b"some key"[..], &b"some value"[..], 9));
            }
        }
    }

    #[test]
    fn every_changed_byte_and_every_other_length_is_rejected() {
        let params = Params::default();
        let (root, bytes) = proof_of_last(params.hash, 4099);
        for at in 0..bytes.len() {
            for flip in [1u8, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                assert!(verify_inclusion(&params, &root, &changed).is_err(), "byte {at} ^ {flip:#x}");
            }
            assert!(verify_inclusion(&params, &root, &bytes[..at]).is_err(), "cut at {at}");
        }
        for extra in [1, 31, 32, 64] {
            let longer: Vec<u8> = bytes.iter().copied().chain(std::iter::repeat_n(0, extra)).collect();
            assert_eq!(verify_inclusion(&params, &root, &longer), Err(ProofError::Malformed));
        }
    }

    #[test]
    fn random_bytes_never_panic() {
        let seed = 11;
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        for round in 0..20_000 {
            let mut bytes: Vec<u8> = (0..rng.random_range(0..700)).map(|_| rng.random()).collect();
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            // Small positions and short lengths get past the first checks.
            bytes.iter_mut().skip(1).take(7).for_each(|byte| *byte = 0);
            bytes.iter_mut().skip(17).take(7).for_each(|byte| *byte = 0);
            let result = verify_inclusion(&Params::default(), &[7; 32], &bytes);
            assert!(result.is_err(), "seed {seed} round {round}");
        }
    }
}
