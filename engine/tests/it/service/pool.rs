//! The pool of a service: it follows what is committed, rewound and executed before a restart.

use super::*;
use phalanx::GenesisAccount;

/// Sends transactions to the pool of a service, all of them admitted.
pub(super) fn send(service: &Service, txs: &[Bytes]) {
    for tx in txs {
        let admission = service.send(tx).expect("a transaction of this chain");
        assert!(matches!(admission, Admission::Admitted { .. }), "{admission:?}");
    }
}

#[test]
fn transactions_that_are_sent_together_end_as_one_by_one() {
    let world = World::new();
    let [single, together] =
        ["single", "together"].map(|name| world.open_as(&world.folder.path().join(name), 1, ServiceConfig::default()));
    let (single, together) = (single.expect("a service"), together.expect("a service"));
    let mut txs = transfers(&world, 1, 12);
    txs.insert(0, Bytes::from_static(b"none"));
    txs.insert(5, txs[1].clone());
    txs.push(txs[3].slice(..50));
    let one_by_one: Vec<_> = txs.iter().map(|tx| format!("{:?}", single.send(tx))).collect();
    let results = together.send_all(&txs).expect("a state");
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 2);
    assert_eq!(results.iter().map(|result| format!("{result:?}")).collect::<Vec<_>>(), one_by_one);
    assert!(together.waiting() > 4 && together.waiting() == single.waiting());
    let refused = together.send_all(&[&b"none"[..], &[]]).expect("a state");
    assert!(refused.iter().all(|result| matches!(result, Err(SendError::Recover(_)))));
    assert!(together.send_all::<Bytes>(&[]).expect("a state").is_empty());
}

/// Waits until `done`; a test that hangs shows what it waits for.
fn wait_until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_waits_for_the_pool_is_judged_by_the_state_committed_meanwhile() {
    let world = World::new();
    let service = world.open();
    let first = candidate(service.status().committed.exec, 1, transfers(&world, 1, 12), TxPolicy::Strict);
    submit(&service, &first);
    let [used, next] = [(0, 0), (1, 1)].map(|(from, nonce)| world.tx(from, nonce, world.sender(9), 1));
    let (service, txs) = (&service, &[used, next]);
    let [used, next] = std::thread::scope(|scope| {
        let sent = service.with_pool(|_| {
            let sent = txs.each_ref().map(|tx| scope.spawn(move || service.send(tx).expect("a transaction")));
            // Long enough for both to reach the pool, which they find locked.
            std::thread::sleep(Duration::from_millis(300));
            service.commit(Ticket(2), first.id(), meta(&first)).expect("accepted");
            wait_until(|| service.status().committed.height == 1);
            sent
        });
        sent.map(|sent| sent.join().expect("sent"))
    });
    let Admission::Refused(Refusal::NonceUsed { nonce: 0, next: 1 }) = used else { panic!("{used:?}") };
    let Admission::Admitted { is_ready: true, .. } = next else { panic!("{next:?}") };
}

/// Ends a thread, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_sender_is_stuck_when_sends_race_commits() {
    const ROUNDS: u64 = 100;
    let world = World::new();
    let service = world.open();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Short and frequent holds of the pool, so that a sender and the driver meet at its lock in any order.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                service.with_pool(|pool| drop(pool.ready().next().cloned()));
            }
        });
        let _ends = Ends(&over);
        let mut parent = service.status().committed.exec;
        for height in 1..=ROUNDS {
            let block = candidate(parent, height, transfers(&world, height, 1), TxPolicy::Strict);
            submit(&service, &block);
            let later: Vec<Bytes> = (0..8).map(|from| world.tx(from, height, world.sender(9), 1)).collect();
            let sending = scope.spawn(|| later.into_iter().for_each(|tx| drop(service.send(&tx).expect("a state"))));
            commit(&service, &block);
            sending.join().expect("sent");
            service.settle();
            let stuck = service.with_pool(|pool| pool.future_load().txs);
            assert_eq!(
                stuck, 0,
                "after block {height} transactions with the next nonces of their senders wait for others"
            );
            parent = block.id();
        }
    });
}

/// Nonces of a sender's transactions in the pool, those that are ready.
fn ready_of(service: &Service, sender: Address) -> Vec<u64> {
    service
        .with_pool(|pool| pool.ready().map(|tx| tx.tx()).filter(|tx| tx.caller == sender).map(|tx| tx.nonce).collect())
}

#[test]
fn a_rewind_takes_the_pool_back() {
    let world = World::new();
    let service = world.open();
    let genesis = service.status().committed.exec;
    let block = candidate(genesis, 1, transfers(&world, 1, 12), TxPolicy::Strict);
    submit(&service, &block);
    commit(&service, &block);
    let pay = |nonce| world.tx(0, nonce, world.sender(9), 1);
    send(&service, &[pay(1)]);
    assert_eq!(ready_of(&service, world.sender(0)), [1]);
    service.rewind(Ticket(3), genesis).expect("in the history");
    assert!(ready_of(&service, world.sender(0)).is_empty(), "the transaction before it is no longer in the chain");
    send(&service, &[pay(0)]);
    assert_eq!(ready_of(&service, world.sender(0)), [0, 1]);
}

#[test]
fn the_pool_follows_a_block_that_was_executed_before_a_restart() {
    let world = World::new();
    let service = world.open();
    let block = candidate(service.status().committed.exec, 1, transfers(&world, 1, 12), TxPolicy::Strict);
    submit(&service, &block);
    service.stage(Ticket(3), block.id()).expect("rooted");
    service.settle();
    drop(service);
    let service = world.open();
    submit(&service, &block);
    send(&service, &[world.tx(0, 1, world.sender(9), 1)]);
    assert!(ready_of(&service, world.sender(0)).is_empty());
    commit(&service, &block);
    assert_eq!(ready_of(&service, world.sender(0)), [1]);
}

/// Creates a contract without code: the nonce of the account that runs it goes up.
const CREATES: [u8; 9] = [0x60, 0, 0x60, 0, 0x60, 0, 0xf0, 0x50, 0];

/// A service on a chain where sender 3 delegates to code that creates.
fn open_with_delegated(world: &World, name: &str, lists: bool) -> Service {
    let store = StoreConfig::new(Backend::File(world.folder.path().join(name)));
    let mut engine = builder().with_threads(1).with_store(store).with_access_lists(lists).build().expect("an engine");
    let creates = contract(0xed, &CREATES);
    let accounts = (0..16).map(|from| {
        let rich = GenesisAccount {
            address: world.sender(from),
            balance: U256::from(10).pow(U256::from(20)),
            ..GenesisAccount::default()
        };
        match from {
            3 => GenesisAccount { code: Some([&[0xef, 1, 0][..], &creates.address[..]].concat().into()), ..rich },
            _ => rich,
        }
    });
    engine.genesis(accounts.chain([creates.clone()])).expect("a genesis");
    Service::open(engine, ServiceConfig::default()).expect("a service")
}

#[test]
fn a_nonce_that_others_move_moves_in_the_pool() {
    for lists in [true, false] {
        let world = World::new();
        let service = open_with_delegated(&world, "nonces", lists);
        let own = |nonce| world.tx(3, nonce, world.sender(9), 1);
        send(&service, &[own(0)]);
        let pokes = (0..3).map(|nonce| world.tx(0, nonce, world.sender(3), 0)).collect();
        let block = candidate(service.status().committed.exec, 1, pokes, TxPolicy::Strict);
        submit(&service, &block);
        commit(&service, &block);
        assert_eq!(service.next_nonce(&world.sender(3)), Ok(3), "with lists: {lists}");
        assert_eq!(service.waiting(), 0, "what can never run has left, with lists: {lists}");
        send(&service, &[own(3)]);
        assert_eq!(ready_of(&service, world.sender(3)), [3]);
    }
}
