//! Messages as trees of their encodings, so that a test can change any part of one, and sign anew what its sender signs.

use crate::cluster::DOMAIN;
use alloy_rlp::{Encodable as _, Header};
use phalanx_bft::{Index, Message};
use phalanx_keys::{Scheme as _, Simulated};

/// Length of a signature in these worlds. Nothing else in a message has it.
pub(crate) const SIGNATURE: usize = 64;

/// Part of an encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Leaf(Vec<u8>),
    List(Vec<Self>),
}

/// Way from the root to a part: the number of a child at each step.
pub(crate) type Path = Vec<usize>;

impl Part {
    /// Reads one item.
    fn read(bytes: &mut &[u8]) -> Self {
        let header = Header::decode(bytes).expect("an encoding is well formed");
        let (mut payload, rest) = bytes.split_at(header.payload_length);
        *bytes = rest;
        if !header.list {
            return Self::Leaf(payload.to_vec());
        }
        let mut parts = Vec::new();
        while !payload.is_empty() {
            parts.push(Self::read(&mut payload));
        }
        Self::List(parts)
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Leaf(bytes) => bytes.as_slice().encode(out),
            Self::List(parts) => {
                let mut payload = Vec::new();
                parts.iter().for_each(|part| part.write(&mut payload));
                Header { list: true, payload_length: payload.len() }.encode(out);
                out.extend(payload);
            }
        }
    }

    pub(crate) fn children(&self) -> &[Self] {
        if let Self::List(parts) = self { parts } else { &[] }
    }

    pub(crate) const fn is_signature(&self) -> bool {
        matches!(self, Self::Leaf(bytes) if bytes.len() == SIGNATURE)
    }

    /// Returns true if there is a signature anywhere in the part.
    pub(crate) fn has_signature(&self) -> bool {
        self.is_signature() || self.children().iter().any(Self::has_signature)
    }

    /// Returns true for a signature with what it signs, or with its signer.
    pub(crate) fn is_signed(&self) -> bool {
        self.children().iter().any(Self::is_signature)
    }

    /// Replica that signed a part, where the part names one.
    pub(crate) fn signer(&self) -> Option<Index> {
        match self.children() {
            [Self::Leaf(index), signature, ..] if signature.is_signature() && index.len() <= 2 => {
                Some(Index(index.iter().fold(0, |number, byte| number << 8 | u16::from(*byte))))
            }
            _ => None,
        }
    }

    /// Returns true for a statement with the ballots for it in a list beside it.
    pub(crate) fn is_certificate(&self) -> bool {
        let ballot = |part: &Self| part.children().len() == 2 && part.signer().is_some();
        self.children().iter().any(|part| !part.children().is_empty() && part.children().iter().all(ballot))
    }

    pub(crate) fn at(&mut self, path: &[usize]) -> &mut Self {
        match (path.split_first(), self) {
            (None, part) => part,
            (Some((child, rest)), Self::List(parts)) => parts[*child].at(rest),
            (Some(_), Self::Leaf(_)) => panic!("a leaf has no parts"),
        }
    }

    /// Changes a bit of a signature, or makes another number or string of a field.
    pub(crate) fn change(&mut self) {
        let is_signature = self.is_signature();
        let Self::Leaf(bytes) = self else { return };
        match bytes.last_mut() {
            None => bytes.push(1),
            Some(last) if is_signature => *last ^= 4,
            // Both are encodings.
            Some(last) if *last < 0x7f => *last += 1,
            Some(last) => *last -= 1,
        }
    }

    /// Puts the first part of a list in the place of the last.
    pub(crate) fn repeat_first(&mut self) {
        let Self::List(parts) = self else { return };
        if let [first, .., last] = &mut parts[..] {
            *last = first.clone();
        }
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        let Self::List(parts) = self else { return };
        parts.truncate(length);
    }

    /// Calls `see` with every part, its path, and the parts around it, outermost first.
    pub(crate) fn walk<'a>(
        &'a self,
        around: &mut Vec<&'a Self>,
        path: &mut Path,
        see: &mut impl FnMut(&[&Self], &[usize]),
    ) {
        around.push(self);
        see(around, path);
        for (at, part) in self.children().iter().enumerate() {
            path.push(at);
            part.walk(around, path, see);
            path.pop();
        }
        around.pop();
    }
}

/// A message as its kind and its parts.
pub(crate) fn take_apart(message: &impl Message) -> (u8, Part) {
    let bytes = alloy_rlp::encode(message);
    let (kind, mut rest) = bytes.split_first().expect("a message has a kind");
    let mut parts = Vec::new();
    while !rest.is_empty() {
        parts.push(Part::read(&mut rest));
    }
    (*kind, Part::List(parts))
}

/// The message of these parts, with every statement of a replica signed anew. `None` if they are none.
pub(crate) fn put_together<M: Message>((kind, parts): &(u8, Part), signs: Option<Index>) -> Option<M> {
    let mut bytes = vec![*kind];
    parts.children().iter().for_each(|part| part.write(&mut bytes));
    let scheme = Simulated::new(signs.unwrap_or_default(), SIGNATURE);
    loop {
        let mut rest = bytes.as_slice();
        let message = M::decode(&mut rest).ok().filter(|_| rest.is_empty())?;
        let mut claims = Vec::new();
        message.claims(DOMAIN, &mut claims);
        let stale = claims.iter().filter(|claim| Some(claim.signer) == signs).find_map(|claim| {
            let right = scheme.sign(&claim.bytes);
            let at = bytes.windows(SIGNATURE).position(|bytes| bytes == claim.signature.as_ref())?;
            (claim.signature != right).then_some((at, right))
        });
        // An inner statement changes what the outer one signs: one after the other.
        let Some((at, right)) = stale else { return Some(message) };
        bytes[at..at + SIGNATURE].copy_from_slice(&right);
    }
}
