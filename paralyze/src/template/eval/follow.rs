//! Follows a straight line for one transaction.

use super::{
    Evaluator,
    hashes::Blank,
    straight::{Code, Key, Mapping, Straight, cost},
};
use crate::{key::StateKey, snapshot::Snapshot};
use alloy_primitives::{Address, U256};
use phalanx_symbolic::{Inputs, Op, Register, Scope};
use revm::context::TxEnv;

/// Inputs of a line.
struct Facts<'a, S> {
    scope: Scope<'a>,
    snapshot: &'a S,
}

impl<S: Snapshot> Inputs for Facts<'_, S> {
    #[inline]
    fn scope(&self) -> &Scope<'_> {
        &self.scope
    }

    #[inline]
    fn load(&self, of: Address, slot: U256) -> Option<U256> {
        self.snapshot.storage_ref(of, slot).ok()
    }
}

impl<S: Snapshot> Evaluator<'_, S> {
    /// Adds the keys of a transaction that takes this path; `None`, and nothing has happened, if it does not, or if it may not
    /// touch so much. Takes what it costs from `fuel`.
    pub(super) fn follow(&mut self, straight: &mut Straight, tx: &TxEnv, to: Address, fuel: &mut u64) -> Option<()> {
        if self.set.len() - self.begin + straight.touched.len() > self.most_keys {
            return None;
        }
        self.agree(straight, tx, to, fuel)?;
        *fuel = fuel.checked_sub(straight.cost)?;
        let Straight { registers, hashes, touched, .. } = straight;
        for Mapping { region, hashes } in hashes {
            self.bytes.clear();
            registers.write(region, &mut self.bytes);
            let preimage = *self.bytes.first_chunk()?;
            let asked = if hashes.is_empty() { self.hashes.ask(preimage) } else { self.hashes.ask_late(preimage) };
            for (hash, place) in hashes {
                self.hashes.insert(asked, self.asked[usize::from(*hash)], *place);
            }
            self.asked.push(asked);
        }
        let address = |register: Register| registers.address(register);
        for (key, access) in touched {
            let key = match *key {
                Key::Account(of) => StateKey::Basic(address(of)),
                Key::Slot(of, slot) => StateKey::Slot(address(of), registers.get(slot)),
                Key::Mapping(of, hash) => {
                    let hash = self.asked[usize::from(hash)];
                    self.blanks.push(Blank { entry: self.set.len(), hash });
                    StateKey::Slot(address(of), U256::ZERO)
                }
            };
            self.set.push((key, *access));
        }
        self.asked.clear();
        #[cfg(test)]
        super::straight::FOLLOWED.set(super::straight::FOLLOWED.get() + 1);
        Some(())
    }

    /// Computes the registers; `None` if the transaction takes another path.
    fn agree(&mut self, straight: &mut Straight, tx: &TxEnv, to: Address, fuel: &mut u64) -> Option<()> {
        let Straight { instructions, registers, .. } = straight;
        let facts = Facts { scope: Scope { tx, to, block: self.env }, snapshot: self.snapshot };
        let bytes = &mut self.bytes;
        for instruction in instructions {
            *fuel = fuel.checked_sub(cost(instruction))?;
            match instruction {
                Op::Set(register, node) => node.run(*register, registers, &facts, bytes)?,
                Op::Expect(register, value) if registers.holds(*register, value) => {}
                Op::Effect(Code(of, code)) if self.snapshot.code_hash(&registers.address(*of)) == *code => {}
                Op::Expect(..) | Op::Effect(_) => return None,
            }
        }
        Some(())
    }
}
