//! Formulas of operands, of regions of memory and calldata, and the conditions that a recording goes by.

use super::{Frame, Now};
use crate::{
    expr::{Node, Piece, Ref, Region, Shadow, append, parts, region_len, slice, zeros},
    memory::{Stop, word_of},
    mode::Mode,
    recording::Event,
};
use alloy_primitives::{Address, U256};
use revm::bytecode::opcode::*;

/// Bytes of constants that one frame by itself may keep, and of patterns in an exact recording: to put a word together from
/// single bytes takes longer than to load it.
const MAX_RAW: usize = 1 << 16;
const MAX_PATTERNS: usize = 1 << 14;

/// Bytes that a part of a word counts as in a pattern.
const PART: usize = 6;

impl Frame {
    /// Returns the bytes of calldata from operand `offset` on.
    pub(super) fn input(&mut self, now: &Now<'_>, offset: usize, len: usize) -> Result<Region, Stop> {
        let Mode::Exact { input_len, .. } = self.mode else {
            let at = self.operand(now, offset)?;
            return Ok([Piece::Input { at, skip: 0, len: len as u32 }].into());
        };
        self.pin(now, offset)?;
        let Ok(offset) = now.usize(offset) else { return Ok([zeros(len)].into()) };
        if let Some(input) = &self.input {
            return Ok(slice(input, offset, len));
        }
        let (mut region, mut filled) = (Vec::new(), 0);
        while filled < len && offset + filled < input_len {
            let at = self.recording.nodes.constant(U256::from(offset + filled));
            let node = self.intern(Node::Input(at))?;
            let here = (len - filled).min(32).min(input_len - offset - filled);
            append(&mut region, Piece::Word { node, from: 0, len: here as u8 });
            filled += here;
        }
        if filled < len {
            append(&mut region, zeros(len - filled));
        }
        Ok(region.into())
    }

    /// Returns the memory that operands `offset` and `len` point to.
    pub(super) fn region(&mut self, now: &Now<'_>, offset: usize, len: usize) -> Result<Region, Stop> {
        self.pin(now, offset)?;
        self.pin(now, len)?;
        self.region_at(now, offset, now.usize(len)?)
    }

    pub(super) fn region_at(&mut self, now: &Now<'_>, offset: usize, len: usize) -> Result<Region, Stop> {
        self.pin(now, offset)?;
        if len == 0 {
            return Ok(Region::default());
        }
        self.within(len)?;
        let unknown = || Region::from([Piece::Unknown { len: len as u32 }]);
        if len > self.mode.max_region() {
            return Ok(unknown());
        }
        let (offset, memory) = (now.usize(offset)?, &now.interp.memory);
        let end = offset.saturating_add(len).min(memory.len());
        let region = if offset < end {
            self.memory.read(offset, len, &memory.slice_range(offset..end))
        } else {
            self.memory.read(offset, len, &[])
        };
        debug_assert_eq!(region_len(&region), len);
        if self.is_exact() {
            return Ok(region);
        }
        let raw = |piece: &Piece| if let Piece::Raw(bytes) = piece { bytes.len() } else { 0 };
        self.recording.bytes += region.iter().map(raw).sum::<usize>();
        Ok(if self.recording.bytes > MAX_RAW && len > 64 { unknown() } else { region })
    }

    /// Ends an exact recording of which a piece of memory is too long.
    pub(super) const fn within(&self, len: usize) -> Result<(), Stop> {
        if self.is_exact() && len > self.mode.max_region() { Err(Stop) } else { Ok(()) }
    }

    /// Counts the bytes of a pattern that a trace will have.
    pub(crate) fn charge(&mut self, region: &[Piece]) -> Result<(), Stop> {
        self.recording.bytes += region_len(region) + PART * parts(region);
        if self.recording.bytes > MAX_PATTERNS { Err(Stop) } else { Ok(()) }
    }

    /// Formula of an operand.
    pub(super) fn operand(&mut self, now: &Now<'_>, operand: usize) -> Result<Ref, Stop> {
        match self.top(operand) {
            Some(at) => Ok(at),
            None => self.intern(Node::Const(now.word(operand))),
        }
    }

    /// Account that an operand names. A word that is more than an address is not followed: what the code makes of it depends on
    /// all its bytes, what the EVM finds there on the last 20.
    pub(super) fn named(&mut self, now: &Now<'_>, operand: usize) -> Result<(Ref, Address), Stop> {
        let word = now.word(operand);
        if word.bit_len() > 160 {
            return Err(Stop);
        }
        Ok((self.operand(now, operand)?, Address::from_word(word.into())))
    }

    pub(super) fn top(&self, operand: usize) -> Shadow {
        self.stack[self.stack.len() - 1 - operand]
    }

    /// Formula of the account whose storage the frame works on.
    pub(super) fn address(&mut self) -> Result<Ref, Stop> {
        self.around.map_or_else(|| self.intern(Node::Target), |[address, _]| Ok(address))
    }

    /// A formula as a shadow: constants have none.
    pub(super) fn varying(&self, at: Ref) -> Shadow {
        self.recording.nodes.constant_of(at).is_none().then_some(at)
    }

    pub(super) fn node(&mut self, node: Node) -> Result<Shadow, Stop> {
        self.intern(node).map(Some)
    }

    /// Index of a formula. An exact recording notes where a formula is computed first, and ends at an unknown one.
    pub(crate) fn intern(&mut self, node: Node) -> Result<Ref, Stop> {
        let known = self.recording.nodes.len();
        let at = self.recording.nodes.intern(node);
        self.computed(known, at).map(|()| at)
    }

    /// Notes a formula, which is new if there were `known` before.
    pub(super) fn computed(&mut self, known: usize, at: Ref) -> Result<(), Stop> {
        if !self.is_exact() || (at as usize) < known {
            return Ok(());
        }
        match self.recording.nodes.get(at) {
            Node::Unknown => return Err(Stop),
            Node::Const(_) | Node::Original(_) | Node::Gas(_) => return Ok(()),
            Node::Keccak(region) | Node::Word(region) => {
                let region = region.clone();
                self.charge(&region)?;
            }
            _ => {}
        }
        self.recording.events.push(Event::Set(at));
        Ok(())
    }

    /// Formula of a word in memory.
    pub(super) fn word(&mut self, region: Region) -> Result<Shadow, Stop> {
        let known = self.recording.nodes.len();
        let Some(at) = word_of(&mut self.recording.nodes, region) else { return Ok(None) };
        self.computed(known, at).map(|()| Some(at))
    }

    /// Expects the value that an operand has.
    pub(super) fn pin(&mut self, now: &Now<'_>, operand: usize) -> Result<(), Stop> {
        match self.top(operand) {
            Some(on) => self.guard(on, now.word(operand)),
            None => Ok(()),
        }
    }

    /// Expects that a condition is true, or is not.
    pub(super) fn branch(&mut self, on: Ref, taken: bool) -> Result<(), Stop> {
        if matches!(self.recording.nodes.get(on), Node::Unary(ISZERO, _) | Node::Binary(LT..=EQ, ..)) {
            return self.guard(on, U256::from(u8::from(taken)));
        }
        // Any other value is true if it is not zero.
        let negated = self.intern(Node::Unary(ISZERO, on))?;
        self.guard(negated, U256::from(u8::from(!taken)))
    }

    /// Expects that two formulas have one value.
    pub(crate) fn alike(&mut self, a: Ref, b: Ref) -> Result<(), Stop> {
        let same = self.intern(Node::Binary(EQ, a.min(b), a.max(b)))?;
        self.guard(same, U256::ONE)
    }

    pub(super) fn guard(&mut self, on: Ref, value: U256) -> Result<(), Stop> {
        if *self.recording.nodes.get(on) == Node::Unknown {
            return Ok(());
        }
        match self.recording.guarded.insert(on, value) {
            None => self.recording.events.push(Event::Guard { on, value }),
            // An exact recording cannot expect two values of one formula.
            Some(before) if before != value && self.is_exact() => return Err(Stop),
            Some(_) => {}
        }
        Ok(())
    }
}
