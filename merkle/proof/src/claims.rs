//! Claims that follow from proven positions: a key has a value, a key does not exist, these are all keys in a range.

use alloc::vec::Vec;

use crate::{
    hash::Hash,
    proof::verify_positions,
    proof::{ProofError, Proven},
    rules::{Entry, MAX_KEY_LEN, Params, RING_END},
};

/// Verifies that `proof` leads from an active entry of a key to `root`, and returns that entry. The caller compares the
/// key.
///
/// # Errors
/// A [`ProofError`] for the check that failed.
pub fn verify_inclusion<'a>(params: &Params, root: &Hash, proof: &'a [u8]) -> Result<Entry<'a>, ProofError> {
    let entry = active_entry(params, root, proof)?;
    if entry.sentinel { Err(ProofError::Other) } else { Ok(entry) }
}

/// Verifies that `key` does not exist under `root`: `proof` proves the entry before the key in key order, whose next
/// key comes after it.
///
/// # Errors
/// A [`ProofError`] for the check that failed; [`ProofError::Other`] if the entry does not cover the key,
/// [`ProofError::TooLong`] if no store can have the key.
pub fn verify_exclusion(params: &Params, root: &Hash, key: &[u8], proof: &[u8]) -> Result<(), ProofError> {
    if key.len() > MAX_KEY_LEN {
        return Err(ProofError::TooLong);
    }
    let entry = active_entry(params, root, proof)?;
    let hash = params.hash.key(key);
    if entry.key_hash(params.hash) < hash && hash < entry.next { Ok(()) } else { Err(ProofError::Other) }
}

/// Verifies that `proof` proves one active entry for each of `keys`, and hands `(index of the key, value)` to `see`, in
/// order of position; `None` means that the key does not exist.
///
/// Values are proven only once this returns `Ok`. The entries of a proof must be exactly those that the keys need.
/// O(keys × log keys).
///
/// # Errors
/// A [`ProofError`] for the check that failed; [`ProofError::Other`] if a key is neither proven nor excluded, or an
/// entry belongs to none of the keys.
pub fn verify_keys<'a, K: AsRef<[u8]>>(
    params: &Params,
    root: &Hash,
    keys: &[K],
    proof: &'a [u8],
    mut see: impl FnMut(usize, Option<&'a [u8]>),
) -> Result<(), ProofError> {
    let entries = ring_order(params, root, proof)?;
    let mut needed = alloc::vec![false; entries.len()];
    for (index, key) in keys.iter().enumerate() {
        if key.as_ref().len() > MAX_KEY_LEN {
            return Err(ProofError::TooLong);
        }
        let hash = params.hash.key(key.as_ref());
        let at = entries.partition_point(|(place, _)| *place <= hash).checked_sub(1).ok_or(ProofError::Other)?;
        let (place, entry) = &entries[at];
        needed[at] = true;
        match (*place == hash, entry.sentinel) {
            (true, false) => see(index, Some(entry.value)),
            (false, _) if hash < entry.next => see(index, None),
            _ => return Err(ProofError::Other),
        }
    }
    if needed.iter().all(|needed| *needed) { Ok(()) } else { Err(ProofError::Other) }
}

/// Verifies that `proof` proves all keys whose hashes lie from `from` to `to`, both included, and returns their entries
/// in key order.
///
/// # Errors
/// A [`ProofError`] for the check that failed; [`ProofError::Other`] if an entry is missing or superfluous.
pub fn verify_range<'a>(
    params: &Params,
    root: &Hash,
    from: &Hash,
    to: &Hash,
    proof: &'a [u8],
) -> Result<Vec<Entry<'a>>, ProofError> {
    let entries = ring_order(params, root, proof)?;
    // The first entry covers the beginning or is there, each entry names the next, and the last one names a key past
    // the end.
    let linked = entries.windows(2).all(|pair| pair[0].1.next == pair[1].0 && pair[1].0 <= *to);
    let begins = entries.first().is_some_and(|(place, entry)| place <= from && *from < entry.next);
    let ends = entries.last().is_some_and(|(_, entry)| entry.next > *to || entry.next == RING_END);
    if from > to || !linked || !begins || !ends {
        return Err(ProofError::Other);
    }
    let inside = |(place, entry): (Hash, Entry<'a>)| (place >= *from && !entry.sentinel).then_some(entry);
    Ok(entries.into_iter().filter_map(inside).collect())
}

/// Verifies that `proof` proves the entry that a position holds or held, current or not.
///
/// Following [`Entry::previous`] from a current entry gives earlier values of a key, up to the last compaction of its
/// entry.
///
/// # Errors
/// A [`ProofError`] for the check that failed.
pub fn verify_version<'a>(params: &Params, root: &Hash, proof: &'a [u8]) -> Result<Proven<'a>, ProofError> {
    let mut found = None;
    let mut count = 0;
    verify_positions(params, root, proof, |proven| (found, count) = (Some(proven), count + 1))?;
    found.filter(|_| count == 1).ok_or(ProofError::Other)
}

fn active_entry<'a>(params: &Params, root: &Hash, proof: &'a [u8]) -> Result<Entry<'a>, ProofError> {
    let proven = verify_version(params, root, proof)?;
    if proven.active { Ok(proven.entry) } else { Err(ProofError::Inactive) }
}

/// Proven entries, all of them active, in key order.
fn ring_order<'a>(params: &Params, root: &Hash, proof: &'a [u8]) -> Result<Vec<(Hash, Entry<'a>)>, ProofError> {
    let (mut entries, mut active) = (Vec::new(), true);
    verify_positions(params, root, proof, |proven| {
        active &= proven.active;
        entries.push((proven.entry.key_hash(params.hash), proven.entry));
    })?;
    if !active {
        return Err(ProofError::Inactive);
    }
    entries.sort_unstable_by_key(|(place, _)| *place);
    Ok(entries)
}
