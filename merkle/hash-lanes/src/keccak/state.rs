//! States, blocks and constants that every instruction set shares.

/// Number of bytes that one permutation absorbs (FIPS 202: the rate).
pub(super) const RATE: usize = 136;
pub(super) const RATE_WORDS: usize = RATE / 8;

/// `N` states, word by word, so that a word of all states is one vector.
#[repr(C, align(64))]
pub(super) struct States<const N: usize>(pub(super) [[u64; N]; 25]);

/// A block of each of `N` messages.
pub(super) type Blocks<'a, const N: usize> = [&'a [u8; RATE]; N];

/// Block that is absorbed after the end of a message. The state permutes on, unread.
pub(super) const NOTHING: [u8; RATE] = [0; RATE];

/// The word of a block at index `at`.
#[inline]
pub(super) fn word(block: &[u8; RATE], at: usize) -> u64 {
    let (words, _) = block.as_chunks::<8>();
    u64::from_le_bytes(words[at])
}

/// Constants that iota adds (FIPS 202 §3.2.5).
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[rustfmt::skip]
pub(super) const ROUNDS: [u64; 24] = [
    0x0000_0000_0000_0001, 0x0000_0000_0000_8082, 0x8000_0000_0000_808a, 0x8000_0000_8000_8000,
    0x0000_0000_0000_808b, 0x0000_0000_8000_0001, 0x8000_0000_8000_8081, 0x8000_0000_0000_8009,
    0x0000_0000_0000_008a, 0x0000_0000_0000_0088, 0x0000_0000_8000_8009, 0x0000_0000_8000_000a,
    0x0000_0000_8000_808b, 0x8000_0000_0000_008b, 0x8000_0000_0000_8089, 0x8000_0000_0000_8003,
    0x8000_0000_0000_8002, 0x8000_0000_0000_0080, 0x0000_0000_0000_800a, 0x8000_0000_8000_000a,
    0x8000_0000_8000_8081, 0x8000_0000_0000_8080, 0x0000_0000_8000_0001, 0x8000_0000_8000_8008,
];
