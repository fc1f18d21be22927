//! Batches of transactions: hashes in lanes, and chunks for all threads.

use alloy_primitives::{B256, Bytes};
use phalanx_hash_lanes::keccak256_many;
use rayon::prelude::*;

/// Multiple of signatures that fills all lanes.
const LANES: usize = 16;

/// Maximum number of transactions of a chunk: half a millisecond of work, so that the last chunk of a batch is short.
const CHUNK: usize = 128;

/// Keccak-256 of each transaction's bytes.
pub(super) fn hashed<B: AsRef<[u8]>>(encoded: &[B]) -> Vec<B256> {
    let mut hashes = Vec::new();
    keccak256_many(encoded.iter().map(AsRef::as_ref), &mut hashes);
    hashes
}

/// Recovers chunks on all threads of the current rayon pool, each of them full lanes where there are enough transactions.
pub(super) fn in_chunks<R: Send>(encoded: &[Bytes], recover: impl Fn(&[Bytes]) -> Vec<R> + Send + Sync) -> Vec<R> {
    let share = encoded.len().div_ceil(rayon::current_num_threads());
    let chunk = share.next_multiple_of(LANES).clamp(LANES, CHUNK);
    encoded.par_chunks(chunk).flat_map_iter(recover).collect()
}
