//! Changes of one field of a message.

use alloy_primitives::B256;
use alloy_rlp::Header;
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;

/// RLP, taken apart.
#[derive(Clone, Debug)]
enum Item {
    Bytes(Vec<u8>),
    List(Vec<Self>),
}

/// Items of RLP; `None` if the bytes are none.
fn parse(mut bytes: &[u8]) -> Option<Vec<Item>> {
    let mut items = Vec::new();
    while !bytes.is_empty() {
        let header = Header::decode(&mut bytes).ok()?;
        let (payload, rest) = bytes.split_at_checked(header.payload_length)?;
        bytes = rest;
        items.push(if header.list { Item::List(parse(payload)?) } else { Item::Bytes(payload.to_vec()) });
    }
    Some(items)
}

fn encode(items: &[Item]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Item::Bytes(bytes) => alloy_rlp::Encodable::encode(&bytes.as_slice(), &mut out),
            Item::List(inner) => {
                let payload = encode(inner);
                Header { list: true, payload_length: payload.len() }.encode(&mut out);
                out.extend(payload);
            }
        }
    }
    out
}

fn count(items: &[Item]) -> usize {
    items.iter().map(|item| 1 + if let Item::List(inner) = item { count(inner) } else { 0 }).sum()
}

/// The item with this number, in the order of the encoding.
fn nth<'a>(items: &'a mut [Item], number: &mut usize) -> Option<&'a mut Item> {
    for item in items {
        if *number == 0 {
            return Some(item);
        }
        *number -= 1;
        if let Item::List(inner) = item {
            let length = count(inner);
            if *number < length {
                return nth(inner, number);
            }
            *number -= length;
        }
    }
    None
}

/// Hashes in an encoding, as far as they are new.
pub(super) fn hashes(encoded: &[u8], seen: &mut Vec<B256>) {
    fn walk(items: &[Item], seen: &mut Vec<B256>) {
        for item in items {
            match item {
                Item::List(inner) => walk(inner, seen),
                Item::Bytes(bytes) if bytes.len() == 32 && seen.len() < 64 => {
                    let hash = B256::from_slice(bytes);
                    if !seen.contains(&hash) {
                        seen.push(hash);
                    }
                }
                Item::Bytes(_) => {}
            }
        }
    }
    walk(&parse(&encoded[1..]).unwrap_or_default(), seen);
}

/// The encoding, a byte of kind and RLP, with one field changed: a number, a hash, other bytes, or the elements of a list.
pub(super) fn changed(encoded: &[u8], seen: &[B256], window: u64, rng: &mut ChaCha8Rng) -> Option<Vec<u8>> {
    let mut items = parse(&encoded[1..])?;
    let mut number = rng.random_range(0..count(&items).max(1));
    match nth(&mut items, &mut number)? {
        Item::List(inner) => {
            let at = rng.random_range(0..inner.len().max(1));
            let next = (at + 1) % inner.len().max(1);
            match rng.random_range(0..4) {
                0 if !inner.is_empty() => drop(inner.remove(at)),
                1 if !inner.is_empty() => {
                    let twin = inner[at].clone();
                    inner.insert(at, twin);
                }
                2 if inner.len() > 1 => inner.swap(at, next),
                // One in the place of another, so that their number is right.
                3 if inner.len() > 1 => {
                    let other = inner[next].clone();
                    inner[at] = other;
                }
                _ => return None,
            }
        }
        Item::Bytes(bytes) if bytes.len() <= 8 => {
            let before = bytes.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
            let after = match rng.random_range(0..7) {
                0 => before.wrapping_sub(1),
                1 => 0,
                2 => before.saturating_add(window / 2),
                3 => before.saturating_add(2 * window),
                4 => u64::MAX / 2 - 1,
                _ => before.saturating_add(1),
            };
            *bytes = after.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
        }
        Item::Bytes(bytes) if bytes.len() == 32 => {
            let other = if seen.is_empty() { B256::ZERO } else { seen[rng.random_range(0..seen.len())] };
            *bytes = if rng.random_ratio(1, 4) { B256::ZERO } else { other }.to_vec();
        }
        Item::Bytes(bytes) => match rng.random_range(0..3) {
            0 => bytes.clear(),
            1 => bytes.resize(300, 7),
            _ => bytes[0] ^= 1,
        },
    }
    Some([&encoded[..1], &encode(&items)].concat())
}
