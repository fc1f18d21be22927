//! Single blocks, one promise each.

use super::{
    Rules, State,
    contract::{Op, call, word},
    equal::same_state,
    maker::{Looped, Maker, looped},
    run,
    world::{base, contract, sender},
};
use phalanx_parascheduler::{
    Departure, Disorder, How, Listed, ListedError, Place, Protocol, TxIndex,
    eip7928::{AccountChanges, BalanceChange, BlockAccessIndex, CodeChange, NonceChange, SlotChanges, StorageChange},
};
use revm::{
    DatabaseRef as _, ExecuteEvm as _,
    context::{BlockEnv, TxEnv},
    primitives::{Address, TxKind, U256, hardfork::SpecId},
    state::{Account, EvmState, EvmStorageSlot, TransactionId},
};

const PAYEE: Address = Address::repeat_byte(0xbe);

fn rules(spec: SpecId) -> Rules {
    Rules { spec, block: BlockEnv { beneficiary: PAYEE, basefee: 7, gas_limit: u64::MAX, ..BlockEnv::default() } }
}

fn tx(from: u64, to: Address) -> TxEnv {
    TxEnv {
        tx_type: 2,
        caller: sender(from),
        gas_limit: 1_000_000,
        gas_price: 8,
        gas_priority_fee: Some(1),
        chain_id: Some(1),
        kind: TxKind::Call(to),
        value: U256::ONE,
        ..TxEnv::default()
    }
}

fn operation(from: u64, op: Op, a: u64, b: U256) -> TxEnv {
    TxEnv { data: call(op, U256::from(a), b, &[]), value: U256::ZERO, ..tx(from, contract(0)) }
}

fn account(list: &mut [AccountChanges], address: Address) -> &mut AccountChanges {
    list.iter_mut().find(|account| account.address == address).expect("a listed account")
}

/// An account that the protocol pays, and of which it sets a slot.
fn paid(base: &State, address: Address, slot: u64) -> EvmState {
    let mut account = Account::from(base.basic_ref(address).unwrap().unwrap_or_default());
    account.info.balance += U256::from(1_000);
    account.mark_touch();
    let slot = U256::from(slot);
    let before = base.storage_ref(address, slot).unwrap();
    account.storage.insert(slot, EvmStorageSlot::new_changed(before, U256::from(99), TransactionId::ZERO));
    EvmState::from_iter([(address, account)])
}

#[test]
fn steps_of_the_protocol_are_shown_and_checked() {
    let (rules, base) = (rules(SpecId::PRAGUE), base());
    let protocol = Protocol { before: paid(&base, contract(0), 0), after: paid(&base, contract(1), 1) };
    let txs = [operation(1, Op::Copy, 0, U256::from(5)), operation(2, Op::Balance, 6, word(contract(0)))];
    let (mut state, mut maker, mut outputs) = (base.clone(), Maker::default(), Vec::new());
    maker.step(BlockAccessIndex::PRE_EXECUTION, &mut state, &protocol.before);
    for (tx, index) in txs.iter().zip(0..) {
        let done = rules.evm(&state).transact(tx.clone()).unwrap();
        maker.step(BlockAccessIndex::from_tx_index(index), &mut state, &done.state);
        outputs.push(done.result);
    }
    maker.step(BlockAccessIndex::new(3), &mut state, &protocol.after);
    assert_eq!(state.storage_ref(contract(0), U256::from(5)).unwrap(), U256::from(99));
    assert_eq!(state.storage_ref(contract(0), U256::from(6)).unwrap(), U256::from(1_000));
    let list = maker.finish();
    assert_eq!(run(&rules, &base, &txs, &list, &protocol).unwrap(), Ok(outputs));
    same_state(&base, &list, txs.len(), &state, "with the protocol");

    let index_of = |protocol: &Protocol| match run(&rules, &base, &txs, &list, protocol).unwrap() {
        Err(ListedError::Protocol { index, departure }) => (index.get(), departure.how),
        other => panic!("{other:?}"),
    };
    assert_eq!(index_of(&Protocol::default()), (0, How::DidNotHappen));
    assert_eq!(index_of(&Protocol { after: EvmState::default(), ..protocol.clone() }), (3, How::DidNotHappen));
    let other = Protocol { after: paid(&base, contract(2), 1), ..protocol.clone() };
    assert_eq!(index_of(&other), (3, How::DidNotHappen));
    let mut more = protocol;
    more.after.extend(paid(&base, contract(2), 1));
    assert_eq!(index_of(&more), (3, How::NotListed));
}

#[test]
fn the_fee_is_part_of_a_transaction() {
    let (rules, base) = (rules(SpecId::PRAGUE), base());
    // The beneficiary is paid by three and pays once itself.
    let mut txs = vec![tx(1, sender(2)), tx(2, PAYEE), TxEnv { caller: PAYEE, value: U256::ZERO, ..tx(0, sender(3)) }];
    txs[1].value = U256::from(10_000_000_000u64);
    let Looped { outputs, list, state } = looped(&rules, &base, &mut txs);
    assert_eq!((txs.len(), outputs.len()), (3, 3));
    assert_eq!(run(&rules, &base, &txs, &list, &Protocol::default()).unwrap(), Ok(outputs));
    same_state(&base, &list, txs.len(), &state, "with fees");
    for step in 0..3 {
        let mut list = list.clone();
        let fees = &mut account(&mut list, PAYEE).balance_changes;
        assert_eq!(fees.len(), 3);
        fees.remove(step);
        let refusal = run(&rules, &base, &txs, &list, &Protocol::default()).unwrap().unwrap_err();
        let departure = Departure { address: PAYEE, place: Place::Balance, how: How::NotListed };
        assert_eq!(refusal, ListedError::Departs { tx: TxIndex(step as u32), departure });
    }
}

#[test]
fn a_value_that_is_written_back_is_no_change() {
    let (rules, base) = (rules(SpecId::PRAGUE), base());
    let mut txs = vec![operation(1, Op::Back, 1, U256::from(5)), operation(2, Op::Revert, 1, U256::from(5))];
    let Looped { outputs, list, .. } = looped(&rules, &base, &mut txs);
    assert!(list.iter().all(|account| account.storage_changes.is_empty()));
    assert_eq!(run(&rules, &base, &txs, &list, &Protocol::default()).unwrap(), Ok(outputs));
    let mut lie = list;
    let slot = U256::ONE;
    let change = StorageChange::new(BlockAccessIndex::new(1), U256::from(7));
    let changed = account(&mut lie, contract(0));
    changed.storage_reads.retain(|read| *read != slot);
    changed.storage_changes = vec![SlotChanges::new(slot, vec![change])];
    let refusal = run(&rules, &base, &txs, &lie, &Protocol::default()).unwrap().unwrap_err();
    let departure = Departure { address: contract(0), place: Place::Slot(slot), how: How::DidNotHappen };
    // Even though the listed value is the one that is there.
    assert_eq!(refusal, ListedError::Departs { tx: TxIndex(0), departure });
}

#[test]
fn a_transaction_without_an_outcome_is_named_unless_a_lower_one_departs() {
    let (rules, base) = (rules(SpecId::PRAGUE), base());
    let mut txs = vec![tx(1, sender(2)), tx(2, sender(3)), tx(3, sender(4))];
    let Looped { mut list, .. } = looped(&rules, &base, &mut txs);
    txs.push(TxEnv { nonce: 7, ..tx(4, sender(1)) });
    txs.push(TxEnv { nonce: 7, ..tx(5, sender(1)) });
    let fails = run(&rules, &base, &txs, &list, &Protocol::default()).unwrap().unwrap_err();
    assert!(matches!(&fails, ListedError::Fails { tx: TxIndex(3), error } if error.contains("Nonce")), "{fails}");
    account(&mut list, sender(3)).nonce_changes.insert(0, NonceChange::new(BlockAccessIndex::new(2), 5));
    let departs = run(&rules, &base, &txs, &list, &Protocol::default()).unwrap().unwrap_err();
    let departure = Departure { address: sender(3), place: Place::Nonce, how: How::DidNotHappen };
    // Transaction 2 is invalid on the values of the lie, and behind it.
    assert_eq!(departs, ListedError::Departs { tx: TxIndex(1), departure });
}

#[test]
fn destruction_by_rules_before_cancun_is_refused() {
    let (rules, base) = (rules(SpecId::SHANGHAI), base());
    let mut txs = vec![operation(1, Op::Leave, 0, word(sender(3)))];
    let Looped { list, .. } = looped(&rules, &base, &mut txs);
    let departure = Departure { address: contract(0), place: Place::Account, how: How::Destroyed };
    let refusal = run(&rules, &base, &txs, &list, &Protocol::default()).unwrap().unwrap_err();
    assert_eq!(refusal, ListedError::Departs { tx: TxIndex(0), departure });
}

#[test]
fn codes_that_none_can_deploy_are_shown_and_steps_that_no_block_has_are_refused() {
    let index = BlockAccessIndex::new(1);
    let codes: [&[u8]; 5] = [&[], &[0xef], &[0xef, 0x01, 0x00], &[0xef, 0x01, 0x01, 9], &[0x60]];
    for code in codes {
        let mut changes = AccountChanges::new(PAYEE);
        changes.code_changes.push(CodeChange::new(index, code.to_vec().into()));
        let list = [changes];
        let (listed, base) = (Listed::new(&list, 1).unwrap(), base());
        let info = listed.before(listed.last(), &base).basic_ref(PAYEE).unwrap();
        let shown = info.map(|info| info.code.unwrap().original_bytes()).unwrap_or_default();
        assert_eq!(shown.as_ref(), code);
        assert_eq!(listed.before(index, &base).basic_ref(PAYEE).unwrap(), None);
    }
    for step in [3, u64::from(u32::MAX), u64::MAX] {
        let change = BalanceChange::new(BlockAccessIndex::new(step), U256::ONE);
        let list = [AccountChanges::new(PAYEE).with_balance_change(change)];
        assert!(matches!(Listed::new(&list, 1), Err(Disorder::List(_))), "{step}");
    }
    assert!(matches!(Listed::new(&[], usize::MAX), Err(Disorder::Transactions { .. })));
    let listed = Listed::new(&[], 0).unwrap();
    assert_eq!(listed.check(BlockAccessIndex::new(u64::MAX), &EvmState::default()), Ok(()));
}
