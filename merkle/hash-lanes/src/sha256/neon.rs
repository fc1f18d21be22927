//! SHA-256 of two messages at a time with Arm's SHA-256 instructions. Within one message they wait for each other, so two
//! messages take little longer than one.

use core::arch::aarch64::{
    uint32x4_t, vaddq_u32, vld1q_u8, vld1q_u32, vreinterpretq_u32_u8, vrev32q_u8, vsha256h2q_u32, vsha256hq_u32,
    vsha256su0q_u32, vsha256su1q_u32, vst1q_u32,
};

use super::{INITIAL, K, Padded};

cpufeatures::new!(cpu, "sha2");

#[inline]
pub(super) fn available() -> bool {
    cpu::get()
}

/// States after both messages.
///
/// # Panics
/// If the processor lacks the instructions; [`available`] detects them.
#[inline]
#[expect(unsafe_code, reason = "instructions that not every processor has")]
pub(super) fn compress<const BLOCKS: usize>(messages: [&Padded<BLOCKS>; 2]) -> [[u32; 8]; 2] {
    assert!(available());
    // SAFETY: the processor has the instructions, as just asserted.
    unsafe { both(messages) }
}

/// State of one message: its first and its last four words.
type State = [uint32x4_t; 2];

#[target_feature(enable = "sha2")]
fn both<const BLOCKS: usize>(messages: [&Padded<BLOCKS>; 2]) -> [[u32; 8]; 2] {
    let initial = four(&INITIAL);
    let mut states: [State; 2] = [[initial, four(&INITIAL[4..])]; 2];
    for (first, second) in messages[0].iter().zip(messages[1]) {
        let before = states;
        let mut words = [load(first), load(second)];
        // Unrolled so that every word of the schedule has a register.
        macro_rules! rounds {
            ($($quad:literal)*) => {$(
                for lane in 0..2 {
                    if $quad >= 4 {
                        schedule::<{ $quad % 4 }>(&mut words[lane]);
                    }
                    rounds4::<$quad>(&mut states[lane], words[lane][$quad % 4]);
                }
            )*};
        }
        rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for (state, before) in states.iter_mut().zip(before) {
            *state = [vaddq_u32(state[0], before[0]), vaddq_u32(state[1], before[1])];
        }
    }
    [words(states[0]), words(states[1])]
}

/// Four rounds.
#[inline]
#[target_feature(enable = "sha2")]
fn rounds4<const QUAD: usize>(state: &mut State, w: uint32x4_t) {
    let wk = vaddq_u32(w, four(&K[4 * QUAD..]));
    let [low, high] = *state;
    *state = [vsha256hq_u32(low, high, wk), vsha256h2q_u32(high, low, wk)];
}

/// Replaces the oldest four words of the message schedule, at index `AT`, by the next four.
#[inline]
#[target_feature(enable = "sha2")]
fn schedule<const AT: usize>(w: &mut [uint32x4_t; 4]) {
    w[AT] = vsha256su1q_u32(vsha256su0q_u32(w[AT], w[(AT + 1) % 4]), w[(AT + 2) % 4], w[(AT + 3) % 4]);
}

/// The first four words of a slice that has as many.
#[inline]
#[target_feature(enable = "sha2")]
fn four(words: &[u32]) -> uint32x4_t {
    let words = &words[..4];
    #[expect(unsafe_code, reason = "a vector load")]
    // SAFETY: the slice has four words.
    unsafe {
        vld1q_u32(words.as_ptr())
    }
}

/// The sixteen words of a block.
#[inline]
#[target_feature(enable = "sha2")]
fn load(block: &[u8; 64]) -> [uint32x4_t; 4] {
    let (quads, _) = block.as_chunks::<16>();
    let mut words = [four(&INITIAL); 4];
    for (word, quad) in words.iter_mut().zip(quads) {
        #[expect(unsafe_code, reason = "a vector load")]
        // SAFETY: a chunk is as many bytes as a vector has.
        let bytes = unsafe { vld1q_u8(quad.as_ptr()) };
        *word = vreinterpretq_u32_u8(vrev32q_u8(bytes));
    }
    words
}

#[inline]
#[target_feature(enable = "sha2")]
fn words(state: State) -> [u32; 8] {
    let mut words = [0; 8];
    let (halves, _) = words.as_chunks_mut::<4>();
    for (half, vector) in halves.iter_mut().zip(state) {
        #[expect(unsafe_code, reason = "a vector store")]
        // SAFETY: half a state is as many words as a vector has.
        unsafe {
            vst1q_u32(half.as_mut_ptr(), vector);
        }
    }
    words
}
