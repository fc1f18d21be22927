//! Turns untrusted hints into access sets that executors can rely on.

use phalanx_access::{Access, AccessSets, Interner, KeyId};
use phalanx_paralyze::{StateKey, VmConfig};
use revm::{
    context::TxEnv,
    primitives::{hardfork::SpecId, map::HashMap},
    state::EvmState,
};

/// Maximum length of a set that is searched by scanning when a key comes twice; longer ones use a map.
const MAX_SCANNED: usize = 24;

/// Upper bound on the number of keys that a transaction can touch. A few are free: accesses that no gas pays for are
/// warm, and there are few of them. Before Berlin a read of a balance cost 20 gas; since then no key costs less than
/// 1900.
fn most_keys(tx: &TxEnv, spec: SpecId) -> usize {
    const WARM: u64 = 64;
    let least = if spec.is_enabled_in(SpecId::BERLIN) { 900 } else { 10 };
    usize::try_from(tx.gas_limit / least + WARM).unwrap_or(usize::MAX)
}

/// Interns `hints`, one set per transaction. Each key comes once, with the join of its accesses, and a credit only
/// where the execution cannot see the credited balance. A set longer than its transaction's gas permits is cut, so that
/// work and memory are bounded by the block and not by its hints.
pub(crate) fn intern(
    cfg: &VmConfig,
    hints: &AccessSets<StateKey>,
    txs: &[TxEnv],
    interner: &mut Interner<StateKey>,
) -> AccessSets<KeyId> {
    let mut sets = AccessSets::new();
    let mut known: HashMap<KeyId, usize> = HashMap::default();
    for (hint, tx) in hints.iter().zip(txs) {
        known.clear();
        for (key, access) in hint.iter().take(most_keys(tx, cfg.spec)) {
            let access = if *access == Access::Credit && !is_blind(cfg, tx, key) { Access::Write } else { *access };
            let id = interner.intern(key);
            let place = if hint.len() > MAX_SCANNED {
                known.get(&id).copied()
            } else {
                sets.open_set().iter().position(|(held, _)| *held == id)
            };
            match place {
                Some(place) => {
                    let (_, held) = &mut sets.open_set()[place];
                    *held = held.join(access);
                }
                None => {
                    if hint.len() > MAX_SCANNED {
                        known.insert(id, sets.open_set().len());
                    }
                    sets.add(id, access);
                }
            }
        }
        sets.close();
    }
    sets
}

/// True if `tx` can credit `key` without a read. If the receiver turns out to have code, the view refuses the credit.
fn is_blind(cfg: &VmConfig, tx: &TxEnv, key: &StateKey) -> bool {
    matches!(key, StateKey::Basic(address) if cfg.plain_receiver(tx) == Some(*address))
}

/// Access of a trace; a credit where `tx` did nothing else to the account.
pub(crate) fn relaxed(cfg: &VmConfig, tx: &TxEnv, state: &EvmState, key: &StateKey, access: Access) -> Access {
    let plain = is_blind(cfg, tx, key)
        && state.get(key.address()).is_some_and(|account| {
            let is_new = cfg.prices_new_accounts() && account.original_info().is_empty();
            account.info.is_empty_code_hash() && !is_new && !account.is_created() && !account.is_selfdestructed()
        });
    if plain { Access::Credit } else { access }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_access::Salt;
    use revm::context::CfgEnv;
    use revm::primitives::{Address, TxKind, U256};

    #[test]
    fn keys_come_once_and_only_receivers_of_plain_transfers_are_credited() {
        let (alice, bob, eve) = (Address::repeat_byte(1), Address::repeat_byte(2), Address::repeat_byte(3));
        let transfer =
            TxEnv { caller: alice, kind: TxKind::Call(bob), value: U256::ONE, gas_limit: 100_000, ..TxEnv::default() };
        let nothing = TxEnv { value: U256::ZERO, ..transfer.clone() };
        let basic = StateKey::Basic;
        let mut hints = AccessSets::new();
        let credits = [(basic(bob), Access::Credit), (basic(eve), Access::Credit), (basic(alice), Access::Read)];
        hints.push(credits);
        hints.push(credits);
        let many = (0..100u64).map(|i| (StateKey::Slot(eve, U256::from(i % 40)), Access::Read));
        hints.push(many.chain([(StateKey::Slot(eve, U256::ZERO), Access::Write)]));
        let mut interner = Interner::new(Salt::new(1));
        let sets = intern(&VmConfig::default(), &hints, &[transfer.clone(), nothing, transfer], &mut interner);
        let (bob, eve, alice) = (KeyId(0), KeyId(1), KeyId(2));
        assert_eq!(sets.get(0), [(bob, Access::Credit), (eve, Access::Write), (alice, Access::Read)]);
        assert_eq!(sets.get(1), [(bob, Access::Write), (eve, Access::Write), (alice, Access::Read)]);
        assert_eq!(sets.get(2).len(), 40);
        assert_eq!(sets.get(2)[0].1, Access::Write);
        assert!(sets.get(2)[1..].iter().all(|(_, access)| *access == Access::Read));
    }

    #[test]
    fn what_no_gas_could_touch_is_left_out() {
        let absurd = |address| (0..1_000_000u64).map(move |i| (StateKey::Slot(address, U256::from(i)), Access::Write));
        let mut hints = AccessSets::new();
        hints.push(absurd(Address::ZERO));
        hints.push(absurd(Address::repeat_byte(1)));
        let tx = TxEnv { gas_limit: 90_000, ..TxEnv::default() };
        for (spec, most) in [(SpecId::FRONTIER, 9_064), (SpecId::OSAKA, 164)] {
            let mut interner = Interner::new(Salt::new(1));
            let cfg = CfgEnv::new_with_spec(spec).into();
            let sets = intern(&cfg, &hints, &[tx.clone(), tx.clone()], &mut interner);
            assert_eq!((sets.get(0).len(), sets.get(1).len()), (most, most));
            assert_eq!(interner.len(), 2 * most);
        }
    }
}
