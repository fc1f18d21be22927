//! SHA-256 of short messages without the buffering of a streaming hasher: a message is padded on the stack.
//!
//! [`sha256_many`] hashes messages of two, three and five blocks side by side. Two blocks are nodes and the leaves of accounts
//! and most slots, three the leaves of slots with long values, five the bits of twigs.

#[cfg(target_arch = "x86_64")]
mod sixteen;
#[cfg_attr(target_arch = "aarch64", path = "neon.rs")]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod two;

use alloc::boxed::Box;
use sha2::{Digest as _, Sha256, block_api::compress256};

use crate::Hash;

/// Initial state (FIPS 180-4 §5.3.3).
const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// Constants of the rounds (FIPS 180-4 §4.2.2).
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[rustfmt::skip]
const K: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

/// Longest message that is hashed on the stack, in blocks: a twig's bits with their domain byte take five.
const STACK_BLOCKS: usize = 5;

/// Minimum length of the padding, in bytes: the one bit, rounded up to a byte, and the length.
const PADDING: usize = 9;

/// A padded message.
type Padded<const BLOCKS: usize> = [[u8; 64]; BLOCKS];

/// Number of messages that are hashed side by side.
const LANES: usize = 16;

/// Number of groups of [`LANES`] messages that are padded before they are hashed.
const GROUPS: usize = 2;

/// SHA-256 of the concatenation of `parts`.
#[inline]
pub fn sha256(parts: &[&[u8]]) -> Hash {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    match blocks(len) {
        // Two blocks cover nodes, twigs and the leaves of accounts and slots.
        used @ ..=2 => padded::<2>(parts, len, used),
        used @ ..=STACK_BLOCKS => padded::<STACK_BLOCKS>(parts, len, used),
        _ => {
            let mut hasher = Sha256::new();
            parts.iter().for_each(|part| hasher.update(part));
            hasher.finalize().into()
        }
    }
}

/// SHA-256 of each message, given in parts. `put` gets every digest with its message's number, in any order.
///
/// Fastest where most messages have the same number of blocks, and that is two, three or five.
#[inline]
pub fn sha256_many<'m, const PARTS: usize>(
    messages: impl Iterator<Item = (usize, [&'m [u8]; PARTS])>,
    mut put: impl FnMut(usize, Hash),
) {
    // Longer messages are rare: on the heap, so that no caller's stack needs room for them.
    let (mut two, mut three, mut five) = (Waiting::<2>::new(), None, None);
    for (number, parts) in messages {
        let len = parts.iter().map(|part| part.len()).sum();
        match blocks(len) {
            2 => two.add(number, &parts, len, &mut put),
            3 => three.get_or_insert_with(Waiting::<3>::boxed).add(number, &parts, len, &mut put),
            5 => five.get_or_insert_with(Waiting::<5>::boxed).add(number, &parts, len, &mut put),
            _ => put(number, sha256(&parts)),
        }
    }
    two.finish(&mut put);
    three.into_iter().for_each(|three| three.finish(&mut put));
    five.into_iter().for_each(|five| five.finish(&mut put));
}

/// Messages of equally many blocks that wait until all lanes are filled.
struct Waiting<const BLOCKS: usize> {
    groups: [[Padded<BLOCKS>; LANES]; GROUPS],
    numbers: [usize; GROUPS * LANES],
    filled: usize,
}

impl<const BLOCKS: usize> Waiting<BLOCKS> {
    #[inline]
    const fn new() -> Self {
        Self { groups: [[[[0; 64]; BLOCKS]; LANES]; GROUPS], numbers: [0; GROUPS * LANES], filled: 0 }
    }

    #[inline(never)]
    fn boxed() -> Box<Self> {
        Box::new(Self::new())
    }

    /// Adds a message of `len` bytes, and hashes all messages if it fills the last lane.
    #[inline]
    fn add(&mut self, number: usize, parts: &[&[u8]], len: usize, put: &mut impl FnMut(usize, Hash)) {
        let lane = &mut self.groups.as_flattened_mut()[self.filled];
        *lane = [[0; 64]; BLOCKS];
        fill(lane.as_flattened_mut(), parts, len, BLOCKS);
        self.numbers[self.filled] = number;
        self.filled += 1;
        if self.filled == self.numbers.len() {
            let digests = digest_groups(&self.groups);
            digests.as_flattened().iter().zip(self.numbers).for_each(|(digest, number)| put(number, *digest));
            self.filled = 0;
        }
    }

    /// Hashes the remaining messages.
    #[inline]
    fn finish(&self, put: &mut impl FnMut(usize, Hash)) {
        for (lanes, numbers) in self.groups.iter().zip(self.numbers[..self.filled].chunks(LANES)) {
            let digests = digest_lanes(lanes, numbers.len());
            digests.iter().zip(numbers).for_each(|(digest, number)| put(*number, *digest));
        }
    }
}

/// Digests of all messages.
fn digest_groups<const BLOCKS: usize>(groups: &[[Padded<BLOCKS>; LANES]; GROUPS]) -> [[Hash; LANES]; GROUPS] {
    #[cfg(target_arch = "x86_64")]
    if sixteen::available() {
        return sixteen::compress(groups);
    }
    groups.each_ref().map(|lanes| digest_lanes(lanes, LANES))
}

/// Digests of the first `filled` lanes. Lanes beyond hold earlier messages, and their digests are arbitrary.
fn digest_lanes<const BLOCKS: usize>(lanes: &[Padded<BLOCKS>; LANES], filled: usize) -> [Hash; LANES] {
    let mut digests = [[0; 32]; LANES];
    #[cfg(target_arch = "x86_64")]
    if filled >= sixteen::MIN_MESSAGES && sixteen::available() {
        let [digests] = sixteen::compress(core::array::from_ref(lanes));
        return digests;
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if filled > 1 && two::available() {
        let (pairs, _) = digests.as_chunks_mut::<2>();
        for (digests, [a, b]) in pairs.iter_mut().zip(lanes.as_chunks::<2>().0).take(filled.div_ceil(2)) {
            *digests = two::compress([a, b]).map(to_bytes);
        }
        return digests;
    }
    for (digest, blocks) in digests.iter_mut().zip(lanes).take(filled) {
        let mut state = INITIAL;
        compress256(&mut state, blocks);
        *digest = to_bytes(state);
    }
    digests
}

/// Number of blocks of a message of `len` bytes with its padding.
#[inline]
const fn blocks(len: usize) -> usize {
    (len + PADDING).div_ceil(64)
}

#[inline]
fn padded<const BLOCKS: usize>(parts: &[&[u8]], len: usize, used: usize) -> Hash {
    let mut blocks = [[0u8; 64]; BLOCKS];
    fill(blocks.as_flattened_mut(), parts, len, used);
    let mut state = INITIAL;
    compress256(&mut state, &blocks[..used]);
    to_bytes(state)
}

/// Writes the message and its padding to the first `used` blocks of a zeroed buffer.
#[inline]
fn fill(buffer: &mut [u8], parts: &[&[u8]], len: usize, used: usize) {
    let mut at = 0;
    for part in parts {
        buffer[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    buffer[len] = 0x80;
    buffer[used * 64 - 8..used * 64].copy_from_slice(&(len as u64 * 8).to_be_bytes());
}

#[inline]
fn to_bytes(state: [u32; 8]) -> Hash {
    let mut out = [0; 32];
    for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    #[test]
    fn digest_equals_the_streaming_hash_at_every_length_and_split() {
        let message: Vec<u8> = (0..700u32).map(|i| (i * 7) as u8).collect();
        for len in 0..message.len() {
            let expected: Hash = Sha256::digest(&message[..len]).into();
            assert_eq!(sha256(&[&message[..len]]), expected, "length {len}");
            let cut = len * 2 / 3;
            assert_eq!(sha256(&[&message[..cut], &[], &message[cut..len]]), expected, "length {len} cut {cut}");
        }
    }

    #[test]
    fn digests_side_by_side_equal_digests_one_at_a_time() {
        let message: Vec<u8> = (0..600u32).map(|i| (i * 11 + 3) as u8).collect();
        // Runs of messages of two, three or five blocks, or any of them, of every length and number, with other messages
        // between.
        for count in 0..80 {
            for seed in 0..40 {
                let range = |i: usize| {
                    let (first, lengths) = [(56, 64), (120, 64), (248, 64), (56, 256)][seed % 4];
                    let len = if (i + seed).is_multiple_of(7) {
                        (i * 5 + seed) % 400
                    } else {
                        first + (i * 13 + seed) % lengths
                    };
                    i..i + len
                };
                let parts = |i| {
                    let (one, two) = message[range(i)].split_at(range(i).len() / 3);
                    [one, two]
                };
                let mut digests = vec![None; count];
                sha256_many((0..count).map(|i| (i, parts(i))), |i, digest| {
                    assert!(digests[i].replace(digest).is_none(), "{i} of {count} twice");
                });
                for (i, found) in digests.into_iter().enumerate() {
                    assert_eq!(found, Some(sha256(&parts(i))), "{i} of {count}, seed {seed}");
                }
            }
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_digests() {
        compare_instruction_sets::<2>();
        compare_instruction_sets::<3>();
        compare_instruction_sets::<5>();
    }

    /// The emulator of Arm in CI has the instructions.
    #[cfg(target_arch = "aarch64")]
    #[test]
    fn the_processor_has_the_instructions_where_lanes_are_expected() {
        assert!(two::available() || std::env::var_os("PHALANX_LANES").is_none());
    }

    fn compare_instruction_sets<const BLOCKS: usize>() {
        let lanes: [Padded<BLOCKS>; LANES] = core::array::from_fn(|i| {
            let mut lane = [[0; 64]; BLOCKS];
            let message: Vec<u8> = (0..64 * BLOCKS - 72 + 4 * i).map(|at| (at * 31 + i * 7) as u8).collect();
            fill(lane.as_flattened_mut(), &[&message], message.len(), BLOCKS);
            lane
        });
        let expected = lanes.map(|lane| {
            let mut state = INITIAL;
            compress256(&mut state, &lane);
            to_bytes(state)
        });
        for filled in 0..=LANES {
            assert_eq!(digest_lanes(&lanes, filled)[..filled], expected[..filled], "{filled} lanes");
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if two::available() {
            assert_eq!(two::compress([&lanes[3], &lanes[9]]).map(to_bytes), [expected[3], expected[9]]);
        }
        #[cfg(target_arch = "x86_64")]
        if sixteen::available() {
            assert_eq!(sixteen::compress(&[lanes]), [expected]);
            let (mut reversed, mut expected_reversed) = (lanes, expected);
            reversed.reverse();
            expected_reversed.reverse();
            assert_eq!(digest_groups(&[lanes, reversed]), [expected, expected_reversed]);
        }
    }
}
