//! Shadow memory: the pieces of a frame's memory that depend on its inputs. All other bytes are constants of the path.

use crate::expr::{Node, Nodes, Piece, Ref, Region, append, is_raw, region_len};
use alloy_primitives::{Bytes, U256};
use revm::bytecode::opcode::ADD;
use std::collections::BTreeMap;

/// A recording is given up: it becomes too large, or meets what it does not follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop;

/// Pieces of a memory, by offset. They do not overlap.
#[derive(Debug)]
pub(crate) struct ShadowMemory {
    pieces: BTreeMap<usize, Piece>,
    /// Maximum number of pieces, and of bytes that are written.
    max_pieces: usize,
    max_len: usize,
}

impl ShadowMemory {
    pub(crate) const fn new(max_pieces: usize, max_len: usize) -> Self {
        Self { pieces: BTreeMap::new(), max_pieces, max_len }
    }

    /// Puts `region` at `offset`.
    pub(crate) fn write(&mut self, offset: usize, region: &[Piece]) -> Result<(), Stop> {
        self.clear(offset, region_len(region))?;
        let mut at = offset;
        for piece in region {
            let len = piece.len();
            if len > 0 && !matches!(piece, Piece::Raw(_)) {
                if self.pieces.len() >= self.max_pieces {
                    return Err(Stop);
                }
                self.pieces.insert(at, piece.clone());
            }
            at += len;
        }
        Ok(())
    }

    /// Overwrites `len` bytes at `offset` with constants.
    pub(crate) fn clear(&mut self, offset: usize, len: usize) -> Result<(), Stop> {
        let end = offset.saturating_add(len);
        if len == 0 {
            return Ok(());
        }
        if end > self.max_len {
            return Err(Stop);
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
        Ok(())
    }

    /// Returns the pieces of `len` bytes at `offset`. `real` is the memory there, which may end early.
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
                append(region, Piece::Raw(Bytes::from(bytes)));
            }
        };
        let first = self.pieces.range(..offset).next_back().filter(|(at, piece)| *at + piece.len() > offset);
        for (start, piece) in first.into_iter().chain(self.pieces.range(offset..end)) {
            let (from, to) = ((*start).max(offset), (start + piece.len()).min(end));
            raw(&mut region, at, from);
            append(&mut region, piece.part(from - start, to - from));
            at = to;
        }
        raw(&mut region, at, end);
        region.into()
    }
}

/// Returns the formula of a word in memory, `None` if it is the same in every execution.
pub(crate) fn word_of(nodes: &mut Nodes, region: Region) -> Option<Ref> {
    match &*region {
        [Piece::Word { node, from: 0, len: 32 }] => Some(*node),
        [Piece::Input { at, skip, len: 32 }] => Some(input(nodes, *at, *skip)),
        all if is_raw(all) => None,
        _ => Some(nodes.intern(Node::Word(region))),
    }
}

/// Returns the word of calldata `skip` bytes after the offset `at`.
fn input(nodes: &mut Nodes, at: Ref, skip: u32) -> Ref {
    let skip = U256::from(skip);
    let offset = match nodes.get(at) {
        Node::Const(offset) => nodes.constant(offset.wrapping_add(skip)),
        _ if skip.is_zero() => at,
        _ => {
            let skip = nodes.constant(skip);
            nodes.intern(Node::Binary(ADD, at, skip))
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
        let mut memory = ShadowMemory::new(2048, usize::MAX);
        memory.write(0, &[word(1), word(2)]).expect("room");
        memory.clear(16, 4).expect("room");
        memory.write(60, &[Piece::Returned { call: 0, from: 4, len: 8 }]).expect("room");
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
        memory.clear(0, 100).expect("room");
        assert_eq!(*memory.read(0, 4, &[]), [raw(&[0; 4])]);
    }

    #[test]
    fn a_write_in_the_middle_leaves_both_ends() {
        let mut memory = ShadowMemory::new(2048, usize::MAX);
        let at = 0;
        memory.write(10, &[Piece::Input { at, skip: 0, len: 100 }]).expect("room");
        memory.write(40, &[word(5)]).expect("room");
        let ends = [Piece::Input { at, skip: 0, len: 30 }, word(5), Piece::Input { at, skip: 62, len: 38 }];
        assert_eq!(*memory.read(10, 100, &[]), ends);
    }

    #[test]
    fn words_of_calldata_are_words() {
        let mut nodes = Nodes::default();
        let four = nodes.constant(U256::from(4));
        let region: Region = [Piece::Input { at: four, skip: 32, len: 32 }].into();
        let at = word_of(&mut nodes, region).expect("depends on calldata");
        let Node::Input(offset) = nodes.get(at) else { panic!("calldata") };
        assert_eq!(*nodes.get(*offset), Node::Const(U256::from(36)));
        assert_eq!(word_of(&mut nodes, [raw(&[0; 32])].into()), None);
        let mixed: Region = [Piece::Word { node: at, from: 4, len: 28 }, raw(&[0; 4])].into();
        let mixed = word_of(&mut nodes, mixed).expect("depends on calldata");
        assert!(matches!(nodes.get(mixed), Node::Word(_)));
    }
}
