//! The entries of an extent, as the cache keeps them.

use phalanx_merkle_proof::Entry;

use super::cache::Stored;
use crate::log::{Fields, Kind, extent_head};

/// Entries of an extent in order, decoded one at a time: a caller that has what it wants reads no further.
struct Entries<'a> {
    rest: Fields<'a>,
    kind: Kind,
    next_sn: u64,
    left: u16,
    /// Height of the extent's block.
    height: u64,
}

impl<'a> Entries<'a> {
    fn of(kind: Kind, body: &'a [u8]) -> Option<Self> {
        let (head, rest) = extent_head(body).filter(|_| kind.is_extent())?;
        Some(Self { rest: Fields(rest), kind, next_sn: head.first_sn, left: head.entries, height: head.height })
    }
}

impl<'a> Iterator for Entries<'a> {
    /// Position, height and canonical encoding.
    type Item = (u64, u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let height = match self.kind {
            // A moved entry keeps its height, which follows its old position.
            Kind::Moved => (self.rest.u64()?, self.rest.u64()?).1,
            // That of a snapshot follows its active bit.
            Kind::Kept => (self.rest.array::<1>()?, self.rest.u64()?).1,
            _ => self.height,
        };
        let (_, after) = Entry::decode(self.rest.0, height)?;
        let encoded = &self.rest.0[..self.rest.0.len() - after.len()];
        (self.rest.0, self.next_sn) = (after, self.next_sn + 1);
        Some((self.next_sn - 1, height, encoded))
    }
}

fn stored(height: u64, encoded: &[u8], both: &mut Vec<u8>) -> Stored {
    both.clear();
    both.extend_from_slice(&height.to_be_bytes());
    both.extend_from_slice(encoded);
    both.as_slice().into()
}

/// Hands the entries of an extent to `visit`, with their positions.
pub(super) fn each(kind: Kind, body: &[u8], visit: &mut dyn FnMut(u64, Stored)) {
    let mut both = Vec::new();
    for (sn, height, encoded) in Entries::of(kind, body).into_iter().flatten() {
        visit(sn, stored(height, encoded, &mut both));
    }
}

/// Hands the entries of some positions of an extent, ascending, to `visit`.
pub(super) fn pick((kind, body): (Kind, &[u8]), sns: &[u64], visit: &mut dyn FnMut(u64, Stored)) {
    let (mut wanted, mut both) = (sns.iter().peekable(), Vec::new());
    for (sn, height, encoded) in Entries::of(kind, body).into_iter().flatten() {
        if wanted.next_if(|wanted| **wanted == sn).is_some() {
            visit(sn, stored(height, encoded, &mut both));
        }
        if wanted.peek().is_none() {
            return;
        }
    }
}
