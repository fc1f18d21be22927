//! Exceptions: the accesses of the transactions that no rule of ParaLyze derives. A receiver derives the others' and
//! needs no simulation. They are a hint.
//!
//! ```text
//! 1 ‖ addresses: number, 20 bytes each ‖ transactions: number, each: gap to the one before ‖ keys: number, each:
//!     address number << 4 | kind << 2 | access ‖ slot, if it is one: length, big-endian without leading zeros
//! ```
//! Numbers are in base 128, least digit first, the high bit set in all digits but the last.

use phalanx_access::{Access, AccessSets};
use phalanx_paralyze::StateKey;
use revm::primitives::{Address, U256};

const VERSION: u8 = 1;

const ACCESSES: [Access; 3] = [Access::Read, Access::Credit, Access::Write];

/// Encodes the sets of the transactions that `is_exception` names.
pub(crate) fn encode(sets: &AccessSets<StateKey>, is_exception: impl Fn(usize) -> bool) -> Vec<u8> {
    let exceptions = || sets.iter().enumerate().filter(|(tx, _)| is_exception(*tx));
    let keys = exceptions().flat_map(|(_, set)| set.iter().map(|(key, _)| *key.address()));
    let mut addresses: Vec<Address> = keys.collect();
    addresses.sort_unstable();
    addresses.dedup();
    let mut out = vec![VERSION];
    put_number(&mut out, addresses.len());
    addresses.iter().for_each(|address| out.extend_from_slice(address.as_slice()));
    put_number(&mut out, exceptions().count());
    let mut next = 0;
    for (tx, set) in exceptions() {
        put_number(&mut out, tx - next);
        next = tx + 1;
        put_number(&mut out, set.len());
        for (key, access) in set {
            let kind = match key {
                StateKey::Basic(_) => 0,
                StateKey::Code(_) => 1,
                StateKey::Slot(..) => 2,
            };
            let access = ACCESSES.iter().position(|known| known == access).unwrap_or_default();
            let number = addresses.binary_search(key.address()).unwrap_or_default();
            put_number(&mut out, number << 4 | kind << 2 | access);
            if let StateKey::Slot(_, slot) = key {
                let bytes = slot.to_be_bytes_trimmed_vec();
                put_number(&mut out, bytes.len());
                out.extend_from_slice(&bytes);
            }
        }
    }
    out
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
    let mut sets = vec![None; txs];
    let mut next = 0usize;
    for _ in 0..take_number(rest)? {
        let tx = next.checked_add(take_number(rest)?)?;
        let place = sets.get_mut(tx)?;
        let keys = take_number(rest)?;
        // Each takes a byte at least.
        let mut set = Vec::with_capacity(keys.min(rest.len()));
        for _ in 0..keys {
            set.push(take_key(rest, known)?);
        }
        *place = Some(set);
        next = tx + 1;
    }
    rest.is_empty().then_some(sets)
}

fn take_key(rest: &mut &[u8], known: &[u8]) -> Option<(StateKey, Access)> {
    let head = take_number(rest)?;
    let start = (head >> 4).checked_mul(20)?;
    let address = Address::from_slice(known.get(start..start.checked_add(20)?)?);
    let access = *ACCESSES.get(head & 3)?;
    let key = match head >> 2 & 3 {
        0 => StateKey::Basic(address),
        1 => StateKey::Code(address),
        2 => {
            let len = take_number(rest).filter(|len| *len <= 32)?;
            let (bytes, after) = rest.split_at_checked(len)?;
            *rest = after;
            StateKey::Slot(address, U256::from_be_slice(bytes))
        }
        _ => return None,
    };
    Some((key, access))
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
    fn numbers_that_promise_more_than_there_is_are_refused() {
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert!(decode(&[&[VERSION][..], &huge].concat(), 1).is_none());
        assert!(decode(&[&[VERSION, 0][..], &huge].concat(), 1).is_none());
        assert!(decode(&[&[VERSION, 0, 1, 0][..], &huge].concat(), 1).is_none());
        assert!(decode(&[&[VERSION, 0][..], &[0xff; 11]].concat(), 1).is_none());
        assert!(decode(&[VERSION, 0, 1, 0, 1, 0], 1).is_none(), "an address that is not there");
    }
}
