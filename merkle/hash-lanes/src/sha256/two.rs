//! SHA-256 of two messages at a time with x86's SHA instructions. Within one message they wait for each other, so two messages
//! take little longer than one.
//!
//! No function without the target features takes a closure here. Unless it is inlined itself, it cannot inline the closure, and
//! calls it for each word. With link-time optimisation off, a root then costs four times as much.

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_extract_epi32, _mm_set_epi32, _mm_set_epi64x,
    _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi8, _mm_shuffle_epi32,
};

use super::{INITIAL, K, Padded};

cpufeatures::new!(cpu, "sha", "sse2", "ssse3", "sse4.1");

#[inline]
pub(super) fn available() -> bool {
    cpu::get()
}

/// States after both messages.
///
/// # Panics
/// If the CPU lacks the instructions; ask [`available`] first.
#[inline]
#[expect(unsafe_code, reason = "instructions that not every CPU has")]
pub(super) fn compress<const BLOCKS: usize>(messages: [&Padded<BLOCKS>; 2]) -> [[u32; 8]; 2] {
    assert!(available());
    // SAFETY: the CPU has the instructions, as just asserted.
    unsafe { both(messages) }
}

#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn both<const BLOCKS: usize>(messages: [&Padded<BLOCKS>; 2]) -> [[u32; 8]; 2] {
    let [a, b, c, d, e, f, g, h] = INITIAL.map(u32::cast_signed);
    // The instructions expect the state as (a, b, e, f) and (c, d, g, h), most significant first.
    let mut abef = [_mm_set_epi32(a, b, e, f); 2];
    let mut cdgh = [_mm_set_epi32(c, d, g, h); 2];
    for (first, second) in messages[0].iter().zip(messages[1]) {
        let (before_abef, before_cdgh) = (abef, cdgh);
        let mut w = [load(first), load(second)];
        // Unrolled so that every word of the schedule has a register.
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

/// Replaces the oldest four words of the message schedule, at index `AT`, by the next four.
#[inline]
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn schedule<const AT: usize>(w: &mut [__m128i; 4]) {
    let (w0, w1, w2, w3) = (w[AT], w[(AT + 1) % 4], w[(AT + 2) % 4], w[(AT + 3) % 4]);
    let sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8::<4>(w3, w2));
    w[AT] = _mm_sha256msg2_epu32(sum, w3);
}

/// The sixteen words of a block.
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
