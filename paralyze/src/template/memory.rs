//! What a frame's memory is made of: the pieces that depend on its inputs. All other bytes are what they are.

use super::expr::{Node, Nodes, Piece, Ref, Region};
use alloy_primitives::Bytes;
use std::collections::BTreeMap;

/// Pieces that are followed at a time. A frame of more is not learned.
const MAX_PIECES: usize = 2048;

/// The pieces of a memory, by offset. They do not overlap.
#[derive(Debug, Default)]
pub(crate) struct ShadowMemory {
    pieces: BTreeMap<usize, Piece>,
    is_full: bool,
}

impl ShadowMemory {
    /// Whether something was written that is not followed.
    pub(crate) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Puts `region` at `offset`.
    pub(crate) fn write(&mut self, offset: usize, region: &[Piece]) {
        self.clear(offset, super::expr::region_len(region));
        let mut at = offset;
        for piece in region {
            let len = piece.len();
            if len > 0 && !matches!(piece, Piece::Raw(_)) {
                self.is_full |= self.pieces.len() >= MAX_PIECES;
                if self.is_full {
                    return;
                }
                self.pieces.insert(at, piece.clone());
            }
            at += len;
        }
    }

    /// Bytes that do not depend on anything are written to `len` bytes at `offset`.
    pub(crate) fn clear(&mut self, offset: usize, len: usize) {
        let end = offset.saturating_add(len);
        if len == 0 {
            return;
        }
        let before = self.pieces.range(..offset).next_back().map(|(at, piece)| (*at, piece.len()));
        if let Some((at, length)) = before.filter(|(at, length)| at + length > offset) {
            let piece = self.pieces.remove(&at).expect("found just now");
            self.pieces.insert(at, piece.part(0, offset - at));
            if at + length > end {
                self.pieces.insert(end, piece.part(end - at, at + length - end));
            }
        }
        while let Some((at, length)) = self.pieces.range(offset..end).next().map(|(at, piece)| (*at, piece.len())) {
            let piece = self.pieces.remove(&at).expect("found just now");
            if at + length > end {
                self.pieces.insert(end, piece.part(end - at, at + length - end));
            }
        }
    }

    /// What `len` bytes at `offset` are made of, `real` being what they are; it may end early.
    pub(crate) fn read(&self, offset: usize, len: usize, real: &[u8]) -> Region {
        let mut region = Vec::new();
        let end = offset.saturating_add(len);
        let mut at = offset;
        let raw = |region: &mut Vec<Piece>, from: usize, to: usize| {
            if from < to {
                let mut bytes = vec![0; to - from];
                let held = real.get(from - offset..).unwrap_or_default();
                let held = &held[..held.len().min(to - from)];
                bytes[..held.len()].copy_from_slice(held);
                region.push(Piece::Raw(Bytes::from(bytes)));
            }
        };
        let first = self.pieces.range(..offset).next_back().filter(|(at, piece)| *at + piece.len() > offset);
        for (start, piece) in first.into_iter().chain(self.pieces.range(offset..end)) {
            let (from, to) = ((*start).max(offset), (start + piece.len()).min(end));
            raw(&mut region, at, from);
            region.push(piece.part(from - start, to - from));
            at = to;
        }
        raw(&mut region, at, end);
        region.into()
    }
}

/// The formula of a word that `region` is, `None` if it depends on nothing.
pub(crate) fn word_of(nodes: &mut Nodes, region: Region) -> Option<Ref> {
    match &*region {
        [Piece::Word { node, from: 0, len: 32 }] => Some(*node),
        [Piece::Input { at, skip, len: 32 }] => Some(input(nodes, *at, *skip)),
        all if all.iter().all(|piece| matches!(piece, Piece::Raw(_))) => None,
        _ => Some(nodes.intern(Node::Word(region))),
    }
}

/// The word of calldata `skip` bytes after the offset `at`.
fn input(nodes: &mut Nodes, at: Ref, skip: u32) -> Ref {
    let skip = alloy_primitives::U256::from(skip);
    let offset = match nodes.get(at) {
        Node::Const(offset) => nodes.constant(offset.wrapping_add(skip)),
        _ if skip.is_zero() => at,
        _ => {
            let skip = nodes.constant(skip);
            nodes.intern(Node::Binary(revm::bytecode::opcode::ADD, at, skip))
        }
    };
    nodes.intern(Node::Input(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(node: Ref) -> Piece {
        Piece::Word { node, from: 0, len: 32 }
    }

    fn raw(bytes: &[u8]) -> Piece {
        Piece::Raw(Bytes::copy_from_slice(bytes))
    }

    #[test]
    fn later_writes_cut_earlier_ones() {
        let mut memory = ShadowMemory::default();
        memory.write(0, &[word(1), word(2)]);
        memory.clear(16, 4);
        memory.write(60, &[Piece::Returned { call: 0, from: 4, len: 8 }]);
        let real = [7; 80];
        assert_eq!(
            *memory.read(0, 72, &real),
            [
                Piece::Word { node: 1, from: 0, len: 16 },
                raw(&[7; 4]),
                Piece::Word { node: 1, from: 20, len: 12 },
                Piece::Word { node: 2, from: 0, len: 28 },
                Piece::Returned { call: 0, from: 4, len: 8 },
                raw(&[7; 4]),
            ]
        );
        assert_eq!(*memory.read(62, 2, &real), [Piece::Returned { call: 0, from: 6, len: 2 }]);
        memory.clear(0, 100);
        assert_eq!(*memory.read(0, 4, &[]), [raw(&[0; 4])]);
    }

    #[test]
    fn a_write_in_the_middle_leaves_both_ends() {
        let mut memory = ShadowMemory::default();
        let at = 0;
        memory.write(10, &[Piece::Input { at, skip: 0, len: 100 }]);
        memory.write(40, &[word(5)]);
        let ends = [Piece::Input { at, skip: 0, len: 30 }, word(5), Piece::Input { at, skip: 62, len: 38 }];
        assert_eq!(*memory.read(10, 100, &[]), ends);
    }

    #[test]
    fn words_of_calldata_are_words() {
        let mut nodes = Nodes::default();
        let four = nodes.constant(alloy_primitives::U256::from(4));
        let region: Region = [Piece::Input { at: four, skip: 32, len: 32 }].into();
        let at = word_of(&mut nodes, region).expect("depends on calldata");
        let Node::Input(offset) = nodes.get(at) else { panic!("calldata") };
        assert_eq!(*nodes.get(*offset), Node::Const(alloy_primitives::U256::from(36)));
        assert_eq!(word_of(&mut nodes, [raw(&[0; 32])].into()), None);
        let mixed: Region = [Piece::Word { node: at, from: 4, len: 28 }, raw(&[0; 4])].into();
        let mixed = word_of(&mut nodes, mixed).expect("depends on calldata");
        assert!(matches!(nodes.get(mixed), Node::Word(_)));
    }
}
