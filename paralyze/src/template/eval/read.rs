//! Bytes of memory, calldata and return data, taken out of the formulas of the frames that they come from.

use super::{
    Evaluator,
    frame::{Called, Input},
};
use crate::preimage::Preimage;
use crate::snapshot::Snapshot;
use alloy_primitives::{U256, keccak256};
use phalanx_symbolic::{Piece, region_len};

/// Bytes hashed at once.
const MAX_HASHED: usize = 1024;

impl<'a, S: Snapshot> Evaluator<'a, S> {
    /// Bytes of a region of the length that a mapping's slot is the hash of.
    pub(super) fn preimage(&mut self, frame: usize, region: &'a [Piece]) -> Option<Preimage> {
        let mut preimage = [0; 64];
        self.read(frame, region, 0, &mut preimage)?;
        Some(preimage)
    }

    pub(super) fn keccak(&mut self, frame: usize, region: &'a [Piece]) -> Option<U256> {
        let len = region_len(region);
        if len == 64 {
            return self.preimage(frame, region).map(|preimage| keccak256(preimage).into());
        }
        if len > MAX_HASHED {
            return None;
        }
        let mut bytes = vec![0; len];
        self.read(frame, region, 0, &mut bytes)?;
        self.fuel = self.fuel.saturating_sub(len as u64 / 8);
        Some(keccak256(&bytes).into())
    }

    /// Calldata of a frame from `offset` on; zeros where it has ended.
    pub(super) fn read_input(&mut self, frame: usize, offset: U256, out: &mut [u8]) -> Option<()> {
        let Ok(offset) = usize::try_from(offset) else {
            out.fill(0);
            return Some(());
        };
        match self.frames[frame].input {
            Input::Transaction => {
                let held = self.tx?.data.get(offset..).unwrap_or_default();
                let len = held.len().min(out.len());
                out[..len].copy_from_slice(&held[..len]);
                out[len..].fill(0);
                Some(())
            }
            Input::Of(caller, region) => self.deeper(|it| it.read(caller, region, offset, out)),
        }
    }

    /// The bytes of a region of a frame from `start` on; zeros behind its end.
    pub(super) fn read(&mut self, frame: usize, region: &'a [Piece], start: usize, out: &mut [u8]) -> Option<()> {
        let end = start.saturating_add(out.len());
        let (mut at, mut filled) = (0, 0);
        let mut looked_at = 0;
        for piece in region {
            looked_at += 1;
            let (from, to) = (start.max(at), end.min(at + piece.len()));
            if from < to {
                self.read_piece(frame, piece, from - at, &mut out[from - start..to - start])?;
                filled = to - start;
            }
            at += piece.len();
            if at >= end {
                break;
            }
        }
        out[filled..].fill(0);
        self.fuel = self.fuel.saturating_sub(looked_at / 8);
        Some(())
    }

    fn read_piece(&mut self, frame: usize, piece: &'a Piece, skipped: usize, out: &mut [u8]) -> Option<()> {
        self.burn()?;
        match piece {
            Piece::Raw(bytes) => out.copy_from_slice(&bytes[skipped..skipped + out.len()]),
            Piece::Word { node, from, .. } => {
                let bytes = self.value(frame, *node)?.to_be_bytes::<32>();
                let from = usize::from(*from) + skipped;
                out.copy_from_slice(&bytes[from..from + out.len()]);
            }
            Piece::Input { at, skip, .. } => {
                let at = self.value(frame, *at)?;
                let offset = at.saturating_add(U256::from(*skip as usize + skipped));
                self.deeper(|it| it.read_input(frame, offset, out))?;
            }
            Piece::Returned { call, from, .. } => match self.called(frame, *call)? {
                Called::Frame(inner) => {
                    let leaf = self.leaf(inner)?;
                    self.deeper(|it| it.read(inner, &leaf.output, *from as usize + skipped, out))?;
                }
                Called::Nothing { .. } => out.fill(0),
            },
            Piece::Unknown { .. } => return None,
        }
        Some(())
    }
}
