//! SHA-256 of short messages without the buffering of a streaming hasher: the message is laid out, padded, on the stack.
//!
//! The CPU's SHA instructions wait for each other within one message, so two messages side by side take little longer
//! than one ([`digest_two`]).

use sha2::{Digest as _, Sha256, block_api::compress256};

use crate::Hash;

/// The initial state, FIPS 180-4 §5.3.3.
const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// Longest message that is hashed on the stack, in blocks: the twig bitmap with its domain byte takes five.
const STACK_BLOCKS: usize = 5;

/// Padding takes at least a one bit, rounded up to a byte, and the length.
const PADDING: usize = 9;

/// The SHA-256 of `parts`, one after the other.
#[inline]
pub(crate) fn digest(parts: &[&[u8]]) -> Hash {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    if len + PADDING <= 128 {
        // Two blocks cover nodes, twigs and the leaves of accounts and slots.
        return padded::<2>(parts, len);
    }
    if len + PADDING <= STACK_BLOCKS * 64 {
        return padded::<STACK_BLOCKS>(parts, len);
    }
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

/// The SHA-256 of two messages, each given in parts.
#[inline]
pub(crate) fn digest_two(messages: [&[&[u8]]; 2]) -> [Hash; 2] {
    #[cfg(target_arch = "x86_64")]
    {
        let lens = messages.map(|parts| parts.iter().map(|part| part.len()).sum::<usize>());
        let [used, other] = lens.map(|len| (len + PADDING).div_ceil(64));
        if used == other && used <= 2 && lanes::available() {
            let mut blocks = [[[0u8; 64]; 2]; 2];
            for ((blocks, parts), len) in blocks.iter_mut().zip(messages).zip(lens) {
                fill(blocks.as_flattened_mut(), parts, len, used);
            }
            return lanes::compress_two([&blocks[0][..used], &blocks[1][..used]]).map(to_bytes);
        }
    }
    messages.map(digest)
}

#[inline]
fn padded<const BLOCKS: usize>(parts: &[&[u8]], len: usize) -> Hash {
    let mut blocks = [[0u8; 64]; BLOCKS];
    let used = (len + PADDING).div_ceil(64);
    fill(blocks.as_flattened_mut(), parts, len, used);
    let mut state = INITIAL;
    compress256(&mut state, &blocks[..used]);
    to_bytes(state)
}

/// Lays out the message and its padding in the first `used` blocks of a zeroed buffer.
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

/// Two compressions at a time with x86's SHA instructions. No closure is handed to a function that does not ask for them
/// itself: unless it happens to become part of its caller, it could not take the closure in, and would call it for each word
/// (a root of four times the price in a build with all link-time optimisation off).
#[cfg(target_arch = "x86_64")]
mod lanes {
    use core::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_extract_epi32, _mm_set_epi32, _mm_set_epi64x,
        _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi8, _mm_shuffle_epi32,
    };

    use super::INITIAL;

    cpufeatures::new!(cpu, "sha", "sse2", "ssse3", "sse4.1");

    #[inline]
    pub(super) fn available() -> bool {
        cpu::get()
    }

    /// The states after both messages, given as equally many padded blocks.
    ///
    /// # Panics
    /// If the CPU lacks the instructions; ask [`available`] first.
    #[inline]
    #[expect(unsafe_code, reason = "instructions that not every CPU has")]
    pub(super) fn compress_two(messages: [&[[u8; 64]]; 2]) -> [[u32; 8]; 2] {
        assert!(available());
        // SAFETY: the CPU has the instructions, as just asserted.
        unsafe { compress(messages) }
    }

    /// FIPS 180-4 §4.2.2.
    const K: [u32; 64] = [
        0x428a_2f98,
        0x7137_4491,
        0xb5c0_fbcf,
        0xe9b5_dba5,
        0x3956_c25b,
        0x59f1_11f1,
        0x923f_82a4,
        0xab1c_5ed5,
        0xd807_aa98,
        0x1283_5b01,
        0x2431_85be,
        0x550c_7dc3,
        0x72be_5d74,
        0x80de_b1fe,
        0x9bdc_06a7,
        0xc19b_f174,
        0xe49b_69c1,
        0xefbe_4786,
        0x0fc1_9dc6,
        0x240c_a1cc,
        0x2de9_2c6f,
        0x4a74_84aa,
        0x5cb0_a9dc,
        0x76f9_88da,
        0x983e_5152,
        0xa831_c66d,
        0xb003_27c8,
        0xbf59_7fc7,
        0xc6e0_0bf3,
        0xd5a7_9147,
        0x06ca_6351,
        0x1429_2967,
        0x27b7_0a85,
        0x2e1b_2138,
        0x4d2c_6dfc,
        0x5338_0d13,
        0x650a_7354,
        0x766a_0abb,
        0x81c2_c92e,
        0x9272_2c85,
        0xa2bf_e8a1,
        0xa81a_664b,
        0xc24b_8b70,
        0xc76c_51a3,
        0xd192_e819,
        0xd699_0624,
        0xf40e_3585,
        0x106a_a070,
        0x19a4_c116,
        0x1e37_6c08,
        0x2748_774c,
        0x34b0_bcb5,
        0x391c_0cb3,
        0x4ed8_aa4a,
        0x5b9c_ca4f,
        0x682e_6ff3,
        0x748f_82ee,
        0x78a5_636f,
        0x84c8_7814,
        0x8cc7_0208,
        0x90be_fffa,
        0xa450_6ceb,
        0xbef9_a3f7,
        0xc671_78f2,
    ];

    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    fn compress(messages: [&[[u8; 64]]; 2]) -> [[u32; 8]; 2] {
        let [a, b, c, d, e, f, g, h] = INITIAL.map(u32::cast_signed);
        // The instructions want the state as (a, b, e, f) and (c, d, g, h), most significant first.
        let mut abef = [_mm_set_epi32(a, b, e, f); 2];
        let mut cdgh = [_mm_set_epi32(c, d, g, h); 2];
        for (first, second) in messages[0].iter().zip(messages[1]) {
            let (before_abef, before_cdgh) = (abef, cdgh);
            let mut w = [load(first), load(second)];
            // Written out so that every schedule word has a register.
            macro_rules! rounds {
                ($($quad:literal)*) => {$(
                    for lane in 0..2 {
                        if $quad >= 4 {
                            schedule::<{ $quad % 4 }>(&mut w[lane]);
                        }
                        rounds4::<$quad>(&mut abef[lane], &mut cdgh[lane], w[lane][$quad % 4]);
                    }
                )*};
            }
            rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            for lane in 0..2 {
                abef[lane] = _mm_add_epi32(abef[lane], before_abef[lane]);
                cdgh[lane] = _mm_add_epi32(cdgh[lane], before_cdgh[lane]);
            }
        }
        [state(abef[0], cdgh[0]), state(abef[1], cdgh[1])]
    }

    /// Four rounds.
    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    fn rounds4<const QUAD: usize>(abef: &mut __m128i, cdgh: &mut __m128i, w: __m128i) {
        let [k0, k1, k2, k3] = const {
            let at = 4 * QUAD;
            [K[at].cast_signed(), K[at + 1].cast_signed(), K[at + 2].cast_signed(), K[at + 3].cast_signed()]
        };
        let wk = _mm_add_epi32(w, _mm_set_epi32(k3, k2, k1, k0));
        *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, wk);
        *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32::<0x0e>(wk));
    }

    /// Replaces the oldest four words of the message schedule, at `AT`, by the next four.
    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    fn schedule<const AT: usize>(w: &mut [__m128i; 4]) {
        let (w0, w1, w2, w3) = (w[AT], w[(AT + 1) % 4], w[(AT + 2) % 4], w[(AT + 3) % 4]);
        let sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8::<4>(w3, w2));
        w[AT] = _mm_sha256msg2_epu32(sum, w3);
    }

    /// The sixteen big-endian words of a block.
    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    fn load(block: &[u8; 64]) -> [__m128i; 4] {
        let swap = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        let (quads, _) = block.as_chunks::<16>();
        let mut words = [swap; 4];
        for (word, quad) in words.iter_mut().zip(quads) {
            let quad = u128::from_le_bytes(*quad);
            *word = _mm_shuffle_epi8(_mm_set_epi64x((quad >> 64) as i64, quad as i64), swap);
        }
        words
    }

    #[inline]
    #[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
    fn state(abef: __m128i, cdgh: __m128i) -> [u32; 8] {
        let feba = _mm_shuffle_epi32::<0x1b>(abef);
        let hgdc = _mm_shuffle_epi32::<0x1b>(cdgh);
        // Each register now reads (a, b, e, f) and (c, d, g, h) from its lowest word up.
        let abcd = _mm_blend_epi16::<0xf0>(feba, _mm_shuffle_epi32::<0x4e>(hgdc));
        let efgh = _mm_blend_epi16::<0xf0>(_mm_shuffle_epi32::<0x4e>(feba), hgdc);
        let words = |x: __m128i| {
            [_mm_extract_epi32::<0>(x), _mm_extract_epi32::<1>(x), _mm_extract_epi32::<2>(x), _mm_extract_epi32::<3>(x)]
        };
        let ([a, b, c, d], [e, f, g, h]) = (words(abcd), words(efgh));
        [a, b, c, d, e, f, g, h].map(i32::cast_unsigned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn equals_the_streaming_hash_at_every_length_and_split() {
        let message: Vec<u8> = (0..700u32).map(|i| (i * 7) as u8).collect();
        for len in 0..message.len() {
            let expected: Hash = Sha256::digest(&message[..len]).into();
            assert_eq!(digest(&[&message[..len]]), expected, "length {len}");
            let cut = len * 2 / 3;
            assert_eq!(digest(&[&message[..cut], &[], &message[cut..len]]), expected, "length {len} cut {cut}");
        }
    }

    #[test]
    fn two_at_a_time_equal_one_at_a_time() {
        let message: Vec<u8> = (0..300u32).map(|i| (i * 11 + 3) as u8).collect();
        for first in 0..150 {
            for second in [first, first + 1, 0, 55, 56, 66, 119, 120, 200] {
                let (a, b) = (&message[..first], &message[second / 2..second / 2 + second]);
                assert_eq!(digest_two([&[a], &[b]]), [digest(&[a]), digest(&[b])], "lengths {first} and {second}");
            }
        }
    }
}
