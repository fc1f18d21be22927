//! Batches: sorts out what has no key, forms groups, and hashes the keys.

use crate::{
    generator::Generator,
    group::{Group, Keys},
    instructions::{Instructions, Kernel},
    kernel::GROUPS,
    lanes::is_set,
    scalar::{Digits, N, invert_all},
    single::{Error, Signature, recover},
};
use alloy_primitives::{Address, B256, U256, uint};
use phalanx_hash_lanes::keccak256_many;

/// Order of the field.
const P: U256 = uint!(0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f_U256);

/// Recovers the address that signed each digest, side by side where the processor can. Equal to [`recover`] of each, in order:
/// no signature has an influence on another's result.
///
/// Fastest for multiples of 16; O(signatures).
pub fn recover_batch(signatures: &[(B256, Signature)]) -> Vec<Result<Address, Error>> {
    recover_batch_by(Instructions::detected(), signatures)
}

/// Does [`recover_batch`] with other instructions than the best, for comparison. Instructions that the processor lacks are
/// replaced by none.
pub fn recover_batch_by(instructions: Instructions, signatures: &[(B256, Signature)]) -> Vec<Result<Address, Error>> {
    match instructions.kernel() {
        Some(kernel) if signatures.len() >= kernel.least => recover_with(&kernel, signatures),
        _ => signatures.iter().map(|(digest, signature)| recover(digest, signature)).collect(),
    }
}

/// Recovers any number of signatures with a kernel.
pub(crate) fn recover_with(kernel: &Kernel, signatures: &[(B256, Signature)]) -> Vec<Result<Address, Error>> {
    let mut results = vec![Err(Error::NoKey); signatures.len()];
    let chunk = GROUPS * kernel.lanes;
    for (signatures, results) in signatures.chunks(chunk).zip(results.chunks_mut(chunk)) {
        recover_chunk(kernel, signatures, results);
    }
    results
}

/// A signature whose numbers are in range.
struct Task {
    /// Index in the chunk.
    at: usize,
    x: U256,
    odd: bool,
    z: U256,
    s: U256,
}

fn recover_chunk(kernel: &Kernel, signatures: &[(B256, Signature)], results: &mut [Result<Address, Error>]) {
    let (mut tasks, mut inverses) = (Vec::with_capacity(signatures.len()), Vec::with_capacity(signatures.len()));
    for (at, (digest, signature)) in signatures.iter().enumerate() {
        match parsed(at, digest, signature) {
            Ok((task, r)) => {
                tasks.push(task);
                inverses.push(r);
            }
            Err(error) => results[at] = Err(error),
        }
    }
    if tasks.len() < kernel.least {
        for task in tasks {
            let (digest, signature) = &signatures[task.at];
            results[task.at] = recover(digest, signature);
        }
        return;
    }
    invert_all(&mut inverses);
    let mut groups = vec![Group::new(); tasks.len().div_ceil(kernel.lanes)];
    for ((group, tasks), inverses) in
        groups.iter_mut().zip(tasks.chunks(kernel.lanes)).zip(inverses.chunks(kernel.lanes))
    {
        // Idle lanes repeat the first.
        for lane in 0..kernel.lanes {
            let from = if lane < tasks.len() { lane } else { 0 };
            let task = &tasks[from];
            group.put(lane, task.x.into_limbs(), task.odd, &Digits::new(task.z, task.s, inverses[from]));
        }
    }
    let mut keys = vec![Keys::new(); groups.len()];
    kernel.recover(&groups, Generator::get(), &mut keys);
    hashed(kernel.lanes, &keys, &tasks, signatures, results);
}

/// Hashes the keys to addresses. Exceptional lanes go to libsecp256k1.
fn hashed(
    lanes: usize,
    keys: &[Keys],
    tasks: &[Task],
    signatures: &[(B256, Signature)],
    results: &mut [Result<Address, Error>],
) {
    let (mut messages, mut places) = (Vec::with_capacity(tasks.len()), Vec::with_capacity(tasks.len()));
    for (keys, tasks) in keys.iter().zip(tasks.chunks(lanes)) {
        for (lane, task) in tasks.iter().enumerate() {
            if is_set(keys.off_curve, lane) {
                // No key, as the result already says.
            } else if is_set(keys.exceptional, lane) {
                let (digest, signature) = &signatures[task.at];
                results[task.at] = recover(digest, signature);
            } else {
                messages.push(encoded(&keys.rows[lane].0));
                places.push(task.at);
            }
        }
    }
    let mut hashes = Vec::with_capacity(messages.len());
    keccak256_many(messages.iter().map(|message| &message[..]), &mut hashes);
    for (at, hash) in places.into_iter().zip(hashes) {
        results[at] = Ok(Address::from_slice(&hash[12..]));
    }
}

/// x and y, big-endian.
fn encoded(row: &[u64; 8]) -> [u8; 64] {
    let mut bytes = [0; 64];
    let (words, _) = bytes.as_chunks_mut::<8>();
    for half in 0..2 {
        for word in 0..4 {
            words[4 * half + 3 - word] = row[4 * half + word].to_be_bytes();
        }
    }
    bytes
}

/// The numbers of a signature, and r. Refuses what is out of range, in libsecp256k1's order.
fn parsed(at: usize, digest: &B256, signature: &Signature) -> Result<(Task, U256), Error> {
    let (numbers, id) = (signature[..64].as_chunks::<32>().0, signature[64]);
    let (r, s) = (U256::from_be_bytes(numbers[0]), U256::from_be_bytes(numbers[1]));
    if id > 3 {
        return Err(Error::RecoveryId { id });
    }
    if r >= N || s >= N || r.is_zero() || s.is_zero() {
        return Err(Error::NoKey);
    }
    let x = if id & 2 == 0 {
        r
    } else if r < P - N {
        r + N
    } else {
        return Err(Error::NoKey);
    };
    let z = U256::from_be_bytes(digest.0);
    let z = if z >= N { z - N } else { z };
    Ok((Task { at, x, odd: id & 1 == 1, z, s }, r))
}
