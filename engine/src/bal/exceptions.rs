//! Exceptions: the accesses of the transactions that no rule of ParaLyze derives. A receiver derives the others' and
//! needs no simulation. They are a hint.
//!
//! ```text
//! 2 ‖ addresses: number, each: 20 bytes ‖ slots of each address: number, each: length, big-endian without leading zeros ‖
//!     transactions: number, each: gap to the one before ‖ keys: number, each: key number << 2 | access
//! ```
//! Keys are numbered in the order of the table: account and code of an address, then its slots. Numbers are in base 128,
//! least digit first, the high bit set in all digits but the last. Each key is written once, so exceptions take little
//! more than the part of an access list that names the same keys.

use alloy_primitives::map::HashMap;
use phalanx_access::{Access, AccessSets};
use phalanx_paralyze::StateKey;
use revm::primitives::{Address, U256};
use std::collections::{BTreeMap, BTreeSet, HashSet};

const VERSION: u8 = 2;

const ACCESSES: [Access; 3] = [Access::Read, Access::Credit, Access::Write];

/// Maximum of exceptions per transaction of the block, in bytes. Sets beyond are left out, the largest first: sending
/// them takes longer than the simulation that they save.
const MAX_BYTES_PER_TX: usize = 1024;

/// Encodes the sets of the transactions that `is_exception` names, the smallest first, as far as they fit: at most
/// 1 KiB for each transaction of the block.
pub(crate) fn encode(sets: &AccessSets<StateKey>, is_exception: impl Fn(usize) -> bool) -> Vec<u8> {
    let named = (0..sets.len()).filter(|tx| is_exception(*tx));
    let chosen = within(sets, named.collect(), MAX_BYTES_PER_TX * sets.len());
    let mut table: BTreeMap<Address, BTreeSet<U256>> = BTreeMap::new();
    for (key, _) in chosen.iter().flat_map(|tx| sets.get(*tx)) {
        let slots = table.entry(*key.address()).or_default();
        if let StateKey::Slot(_, slot) = key {
            slots.insert(*slot);
        }
    }
    let (mut out, mut next) = (vec![VERSION], 0usize);
    let mut numbers: HashMap<StateKey, usize> = HashMap::default();
    put_number(&mut out, table.len());
    table.keys().for_each(|address| out.extend_from_slice(address.as_slice()));
    for (address, slots) in &table {
        put_number(&mut out, slots.len());
        for slot in slots {
            let bytes = slot.to_be_bytes_trimmed_vec();
            put_number(&mut out, bytes.len());
            out.extend_from_slice(&bytes);
        }
        let slots = slots.iter().map(|slot| StateKey::Slot(*address, *slot));
        for key in [StateKey::Basic(*address), StateKey::Code(*address)].into_iter().chain(slots) {
            numbers.insert(key, next);
            next += 1;
        }
    }
    put_number(&mut out, chosen.len());
    let mut next = 0;
    for tx in chosen {
        put_number(&mut out, tx - next);
        next = tx + 1;
        put_number(&mut out, sets.get(tx).len());
        for (key, access) in sets.get(tx) {
            let access = ACCESSES.iter().position(|known| known == access).unwrap_or_default();
            put_number(&mut out, numbers.get(key).copied().unwrap_or_default() << 2 | access);
        }
    }
    out
}

/// Transactions of `named` whose sets fit into `budget` bytes, in order. Small sets come first.
fn within(sets: &AccessSets<StateKey>, mut named: Vec<usize>, budget: usize) -> Vec<usize> {
    let least = |tx: usize| 8 + sets.get(tx).len() * 5;
    let all: usize = named.iter().map(|tx| least(*tx) + sets.get(*tx).len() * 58).sum();
    if all <= budget {
        return named;
    }
    named.sort_by_key(|tx| sets.get(*tx).len());
    let (mut slots, mut addresses) = (HashSet::new(), HashSet::new());
    let (mut used, mut chosen) = (0, Vec::new());
    for tx in named {
        // Keys of one set are distinct.
        let keys = || sets.get(tx).iter().map(|(key, _)| key);
        let fresh_slots = keys().filter_map(|key| match key {
            StateKey::Slot(_, slot) if !slots.contains(key) => Some(1 + slot.byte_len()),
            _ => None,
        });
        let fresh: HashSet<Address> = keys().map(|key| *key.address()).filter(|key| !addresses.contains(key)).collect();
        let size = least(tx) + fresh_slots.sum::<usize>() + 25 * fresh.len();
        if used + size > budget {
            break;
        }
        used += size;
        addresses.extend(fresh);
        slots.extend(keys().copied());
        chosen.push(tx);
    }
    chosen.sort_unstable();
    chosen
}

/// Accesses of one transaction.
pub(crate) type Set = Vec<(StateKey, Access)>;

/// Decodes the set of each of `txs` transactions, if `bytes` hold one. `None` if they are not in the format of
/// [`encode`]. Work and memory are linear in their length.
pub(crate) fn decode(bytes: &[u8], txs: usize) -> Option<Vec<Option<Set>>> {
    let rest = &mut bytes.strip_prefix(&[VERSION])?;
    let addresses = take_number(rest)?;
    let (known, after) = rest.split_at_checked(addresses.checked_mul(20)?)?;
    *rest = after;
    let mut table = Vec::new();
    for address in known.as_chunks::<20>().0 {
        let address = Address::new(*address);
        table.extend([StateKey::Basic(address), StateKey::Code(address)]);
        for _ in 0..take_number(rest)? {
            table.push(StateKey::Slot(address, take_slot(rest)?));
        }
    }
    let mut sets = vec![None; txs];
    let mut next = 0usize;
    for _ in 0..take_number(rest)? {
        let tx = next.checked_add(take_number(rest)?)?;
        let place = sets.get_mut(tx)?;
        let keys = take_number(rest)?;
        // Each takes a byte at least.
        let mut set = Vec::with_capacity(keys.min(rest.len()));
        for _ in 0..keys {
            let number = take_number(rest)?;
            set.push((*table.get(number >> 2)?, *ACCESSES.get(number & 3)?));
        }
        *place = Some(set);
        next = tx + 1;
    }
    rest.is_empty().then_some(sets)
}

fn take_slot(rest: &mut &[u8]) -> Option<U256> {
    let len = take_number(rest).filter(|len| *len <= 32)?;
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(U256::from_be_slice(bytes))
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in (0..usize::BITS).step_by(7) {
        let (digit, after) = rest.split_first()?;
        *rest = after;
        let part = usize::from(digit & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if digit & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets() -> AccessSets<StateKey> {
        let (a, b) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let mut sets = AccessSets::new();
        sets.push([(StateKey::Basic(b), Access::Write), (StateKey::Slot(a, U256::MAX), Access::Read)]);
        sets.push([(StateKey::Basic(a), Access::Credit)]);
        sets.push([]);
        sets.push((0..300u64).map(|slot| (StateKey::Slot(b, U256::from(slot)), Access::Write)));
        sets.push([(StateKey::Code(a), Access::Write)]);
        sets
    }

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is() {
        let sets = sets();
        let bytes = encode(&sets, |tx| tx != 1);
        let decoded = decode(&bytes, sets.len()).expect("as it was written");
        for (tx, set) in decoded.iter().enumerate() {
            assert_eq!(set.as_deref(), (tx != 1).then(|| sets.get(tx)), "{tx}");
        }
        assert!(decode(&bytes, 4).is_none(), "a transaction that is not there");
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end], sets.len()).is_none(), "cut at {end}");
        }
        assert!(decode(&[&bytes[..], &[0]].concat(), sets.len()).is_none());
        assert_eq!(decode(&encode(&sets, |_| false), 5), Some(vec![None; 5]));
    }

    #[test]
    fn a_key_of_many_transactions_is_written_once_and_the_whole_is_bounded() {
        let contract = Address::repeat_byte(3);
        let word = |at: u64| U256::MAX - U256::from(at);
        let mut shared = AccessSets::new();
        (0..48).for_each(|_| shared.push((0..50).map(|at| (StateKey::Slot(contract, word(at)), Access::Write))));
        let bytes = encode(&shared, |_| true);
        assert!(bytes.len() < 50 * 34 + 48 * 50 * 3, "{} bytes", bytes.len());
        assert!(decode(&bytes, 48).expect("as it was written").iter().all(Option::is_some));

        let mut distinct = AccessSets::new();
        for tx in 0..48u64 {
            distinct.push((0..10 * tx).map(|at| (StateKey::Slot(contract, word(1000 * tx + at)), Access::Write)));
        }
        let bytes = encode(&distinct, |_| true);
        assert!(bytes.len() <= 48 * MAX_BYTES_PER_TX, "{} bytes", bytes.len());
        let decoded = decode(&bytes, 48).expect("as it was written");
        let sent = decoded.iter().take_while(|set| set.is_some()).count();
        assert!((10..48).contains(&sent) && decoded[sent..].iter().all(Option::is_none), "the largest are left out");
    }

    #[test]
    fn numbers_that_promise_more_than_there_is_are_refused() {
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert!(decode(&[&[VERSION][..], &huge].concat(), 1).is_none());
        assert!(decode(&[&[VERSION, 0][..], &huge].concat(), 1).is_none());
        assert!(decode(&[&[VERSION, 0, 1, 0][..], &huge].concat(), 1).is_none());
        assert!(decode(&[&[VERSION, 0][..], &[0xff; 11]].concat(), 1).is_none());
        assert!(decode(&[VERSION, 0, 1, 0, 1, 0], 1).is_none(), "an address that is not there");
    }
}
