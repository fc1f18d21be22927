//! Where the values of a call frame come from: beside each word of the stack a register, beside each byte of memory a byte of
//! one.

use crate::exec::trace::{
    limit::Limit,
    program::{Assembler, Formula, Part, Pattern},
};
use phalanx_paralyze::Register;

/// The register of a value; `None` if it is the same in every run that comes this way.
pub(super) type Shadow = Option<Register>;

/// The byte of a register that a byte is.
pub(super) type Origin = Option<(Register, u8)>;

/// Bytes of one piece of memory, and of one memory, that are followed.
const MAX_REGION: usize = 1 << 11;
const MAX_MEMORY: usize = 1 << 14;

/// Bytes, and where they come from.
#[derive(Clone, Debug, Default)]
pub(super) struct Region {
    pub(super) bytes: Vec<u8>,
    pub(super) origins: Vec<Origin>,
}

impl Region {
    /// Part of it, with zeros after its end.
    pub(super) fn slice(&self, from: usize, len: usize) -> Result<Self, Limit> {
        if len > MAX_REGION {
            return Err(Limit);
        }
        let at = |place: usize| from.checked_add(place);
        Ok(Self {
            bytes: (0..len).map(|i| at(i).and_then(|at| self.bytes.get(at).copied()).unwrap_or(0)).collect(),
            origins: (0..len).map(|i| at(i).and_then(|at| self.origins.get(at).copied()).flatten()).collect(),
        })
    }

    pub(super) fn pattern(&self) -> Pattern {
        let mut parts: Vec<Part> = Vec::new();
        for (at, origin) in self.origins.iter().enumerate() {
            let Some((register, from)) = *origin else { continue };
            match parts.last_mut() {
                Some(last)
                    if last.register == register
                        && usize::from(last.at) + usize::from(last.len) == at
                        && last.from + last.len == from =>
                {
                    last.len += 1;
                }
                // A region is shorter than 2^16.
                _ => parts.push(Part { at: at as u16, register, from, len: 1 }),
            }
        }
        let mut fixed = self.bytes.clone();
        for (byte, origin) in fixed.iter_mut().zip(&self.origins) {
            if origin.is_some() {
                *byte = 0;
            }
        }
        Pattern { fixed: fixed.into(), parts: parts.into() }
    }

    /// The word that 32 bytes are.
    pub(super) fn word(&self, code: &mut Assembler) -> Result<Shadow, Limit> {
        let pattern = self.pattern();
        match pattern.parts[..] {
            [] => Ok(None),
            [Part { at: 0, register, from: 0, len: 32 }] => Ok(Some(register)),
            _ => code.formula(Formula::Word(pattern)).map(Some),
        }
    }
}

/// The memory of a frame. Bytes beyond its end are the same in every run.
#[derive(Debug, Default)]
pub(super) struct Memory(Vec<Origin>);

impl Memory {
    /// Writes the first `len` bytes of a region, as many as it has.
    pub(super) fn write(&mut self, offset: usize, origins: &[Origin]) -> Result<(), Limit> {
        if origins.is_empty() {
            return Ok(());
        }
        let end = offset.checked_add(origins.len()).filter(|end| *end <= MAX_MEMORY).ok_or(Limit)?;
        if self.0.len() < end {
            self.0.resize(end, None);
        }
        self.0[offset..end].copy_from_slice(origins);
        Ok(())
    }

    /// Writes a word.
    pub(super) fn write_word(&mut self, offset: usize, word: Shadow) -> Result<(), Limit> {
        self.write(offset, &core::array::from_fn::<Origin, 32, _>(|i| word.map(|register| (register, i as u8))))
    }

    /// What lies here, `real` being the bytes that the memory has there; it may end early.
    pub(super) fn read(&self, offset: usize, len: usize, real: &[u8]) -> Result<Region, Limit> {
        if len > MAX_REGION {
            return Err(Limit);
        }
        let mut bytes = real[..len.min(real.len())].to_vec();
        bytes.resize(len, 0);
        let origins = (offset..offset + len).map(|at| self.0.get(at).copied().flatten()).collect();
        Ok(Region { bytes, origins })
    }
}
