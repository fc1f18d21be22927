//! Programs: both backends, a map per block and the stateless verifier agree.

use crate::common::{State, behaviour, fuzz, kind, params, scratch};
use phalanx_merkle::{Backend, BlockId, Change, Delta, Error, Pending, Store, StoreConfig, verify_transition};

/// Number of blocks that can be rewound.
const HISTORY: usize = 4;

/// Maximum operations of a program.
const MOST: usize = 160;

/// Block that both stores know, with its content.
struct Block {
    ids: [BlockId; 2],
    state: State,
    staged: bool,
}

struct Twins {
    stores: [Store; 2],
    chain: Vec<Block>,
    held: Vec<Block>,
    /// Number of blocks that can surely be rewound: reopening the log may find more.
    room: usize,
}

/// Reader of a program.
struct Program<'p>(&'p [u8]);

impl Program<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn ops(&mut self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let count = self.byte().unwrap_or_default() % 20;
        let mut op = || {
            let (key, value) = (self.byte()?, self.byte()?);
            Some((vec![key % 40; usize::from(key % 40)], (value % 4 > 0).then(|| vec![value; usize::from(value % 7)])))
        };
        (0..count).map_while(|_| op()).collect()
    }
}

impl Twins {
    fn open(config: &StoreConfig) -> Self {
        let memory = StoreConfig { backend: Backend::Mem, ..config.clone() };
        let stores = [memory, config.clone()].map(|config| Store::open(config).expect("a store"));
        let ids = [stores[0].tip(), stores[1].tip()];
        let beginning = Block { ids, state: State::new(), staged: true };
        Self { stores, chain: vec![beginning], held: Vec::new(), room: 0 }
    }

    fn tip(&self) -> &Block {
        self.chain.last().expect("the beginning")
    }

    /// Does the same to both stores; they succeed or fail alike.
    fn both<T>(
        &mut self,
        ids: [BlockId; 2],
        act: impl Fn(&mut Store, BlockId) -> Result<T, Error>,
    ) -> Result<[T; 2], String> {
        let [first, second] = &mut self.stores;
        match (act(first, ids[0]), act(second, ids[1])) {
            (Ok(first), Ok(second)) => Ok([first, second]),
            (Err(first), Err(second)) => {
                assert_eq!(kind(&first), kind(&second));
                Err(kind(&first))
            }
            (first, second) => panic!("{:?} and {:?}", first.err(), second.err()),
        }
    }

    /// Forgets forks that are gone.
    fn settle(&mut self) {
        let left: Vec<BlockId> = self.stores[0].forks().iter().map(|held| held.block).collect();
        self.held.retain(|block| left.contains(&block.ids[0]));
        let counts = self.stores.each_ref().map(|store| store.forks().len());
        assert_eq!(counts, [self.held.len(); 2]);
    }

    /// Prepares a block on another one, checks it three ways, and adds it as a fork or commits it.
    fn grow(&mut self, on: usize, add_fork: bool, ops: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<(), String> {
        let parent = if on == 0 { self.tip() } else { &self.held[(on - 1) % self.held.len()] };
        let (ids, mut state) = (parent.ids, parent.state.clone());
        let mut delta = Delta::new();
        for (key, value) in ops {
            match value {
                Some(value) => {
                    delta.put(key, value);
                    state.insert(key.clone(), value.clone());
                }
                None => {
                    delta.delete(key);
                    state.remove(key);
                }
            }
        }
        let prepared = self.both(ids, |store, id| {
            let (root, witness) = {
                let snapshot = store.snapshot(id)?;
                let reader = snapshot.read()?;
                (reader.root(), reader.witness(&delta)?)
            };
            let prepared = store.prepare_on(id, delta.clone())?;
            let changes: Vec<Change<'_>> = ops.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
            let followed = verify_transition(&params(), &root, prepared.height(), &changes, &witness);
            assert_eq!(followed, Ok(prepared.root()));
            Ok(prepared)
        })?;
        assert_eq!(prepared[0].root(), prepared[1].root());
        let [first, second] = prepared;
        if add_fork || on > 0 {
            let [a, b] = &mut self.stores;
            let ids = match (a.add_fork(first), b.add_fork(second)) {
                (Ok(first), Ok(second)) => [first, second],
                (Err(first), Err(second)) if kind(&first) == kind(&second) => return Err(kind(&first)),
                (first, second) => panic!("{first:?} and {second:?}"),
            };
            self.held.push(Block { ids, state, staged: false });
        } else {
            let [a, b] = &mut self.stores;
            a.commit(first).expect("a block");
            b.commit(second).expect("a block");
            let ids = self.stores.each_ref().map(Store::tip);
            self.chain.push(Block { ids, state, staged: true });
            self.room = HISTORY.min(self.room + 1);
            self.settle();
        }
        Ok(())
    }

    fn step(&mut self, program: &mut Program<'_>, config: &StoreConfig) -> Option<(u8, Result<(), String>)> {
        let (op, which) = (program.byte()? % 10, usize::from(program.byte()?));
        let result = match op {
            0 | 1 => self.grow(0, op == 1, &program.ops()),
            2 if !self.held.is_empty() => self.grow(which + 1, true, &program.ops()),
            3 | 4 if !self.held.is_empty() => {
                let at = which % self.held.len();
                let staged = self.both(self.held[at].ids, |store, id| {
                    store.stage(id).and_then(|pending| pending.map_or(Ok(()), Pending::write))
                });
                self.held[at].staged |= staged.is_ok();
                staged.map(|_| ())
            }
            5 | 6 if !self.held.is_empty() => {
                let at = which % self.held.len();
                let promoted = self.both(self.held[at].ids, |store, id| store.apply_fork(id)?.write());
                if promoted.is_ok() {
                    let block = self.held.remove(at);
                    self.chain.push(block);
                    self.room = HISTORY.min(self.room + 1);
                    self.settle();
                }
                promoted.map(|_| ())
            }
            7 if !self.held.is_empty() => {
                let at = which % self.held.len();
                let gone = self.both(self.held[at].ids, |store, id| store.discard_fork(id));
                self.settle();
                gone.map(|_| ())
            }
            8 => {
                let steps = which % 6;
                let to = self.chain.len().saturating_sub(steps);
                if (self.room + 1..=HISTORY).contains(&steps) {
                    return Some((op, Ok(())));
                }
                let height = to.checked_sub(2).map(|height| height as u64);
                let back = self.both(self.tip().ids, |store, _| store.rewind(height)?.write());
                if back.is_ok() {
                    self.chain.truncate(to);
                    self.room -= steps;
                    self.settle();
                }
                back.map(|_| ())
            }
            9 => {
                self.reopen(config);
                Ok(())
            }
            _ => return Some((op, Ok(()))),
        };
        self.compare(which);
        Some((op, result))
    }

    /// Reopens both stores; forks that are not staged are gone in both.
    fn reopen(&mut self, config: &StoreConfig) {
        fn clear(store: &mut Store) {
            while let Some(held) = store.forks().first() {
                store.discard_fork(held.block).expect("it is there");
            }
        }
        self.stores.iter_mut().for_each(clear);
        self.held.clear();
        let spare = Store::open(StoreConfig { backend: Backend::Mem, ..config.clone() }).expect("a store");
        drop(std::mem::replace(&mut self.stores[1], spare));
        self.stores[1] = Store::open(config.clone()).expect("a store");
        // Staged forks are restored.
        clear(&mut self.stores[1]);
    }

    fn compare(&self, which: usize) {
        let tip = self.tip();
        for (store, id) in self.stores.iter().zip(tip.ids) {
            assert_eq!(store.tip(), id);
            let reader = store.read();
            assert_eq!(reader.len(), tip.state.len());
            assert!(tip.state.iter().all(|(key, value)| reader.get(key) == Some(&value[..])));
        }
        assert_eq!(self.stores[0].root(), self.stores[1].root());
        let all = self.chain.len() + self.held.len();
        let block = self.chain.iter().chain(&self.held).nth(which % all).expect("a block");
        for (store, id) in self.stores.iter().zip(block.ids) {
            match store.snapshot(id) {
                Ok(snapshot) => {
                    let reader = snapshot.read().expect("a kept block");
                    assert!(block.state.iter().all(|(key, value)| reader.get(key) == Some(&value[..])));
                    assert_eq!(reader.len(), block.state.len());
                }
                Err(Error::Gone { .. }) => assert!(self.chain.iter().any(|other| other.ids == block.ids)),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn programs_have_the_same_effect_on_all_backends() {
    let dir = scratch();
    let place = dir.path().join("place");
    let config = StoreConfig::new(Backend::File(place.clone())).with_params(params()).with_history(HISTORY);
    let corpus = || {
        let commit = |on: u8, first: u8| {
            [&[0, on, 8][..], &[first, 1, first + 1, 2, first + 2, 4, 3, 9, 9, 5, 1, 0, 7, 7, 30, 3]].concat()
        };
        let add_fork = |on: u8, first: u8| [&[on, first, 4][..], &[first, 5, first + 3, 6, 2, 0, 12, 3]].concat();
        vec![
            [commit(0, 1), commit(0, 5), vec![9, 0], commit(0, 9), vec![8, 2, 9, 1], commit(0, 2)].concat(),
            [commit(0, 3), add_fork(1, 2), add_fork(1, 6), add_fork(2, 1), vec![3, 0, 3, 1, 5, 0, 9, 0], commit(0, 4)]
                .concat(),
            [
                add_fork(1, 1),
                add_fork(2, 0),
                add_fork(2, 1),
                vec![3, 0, 4, 1, 4, 2, 6, 0, 6, 0, 7, 0],
                add_fork(1, 8),
                vec![7, 0],
            ]
            .concat(),
            (0..8).flat_map(|i| [commit(0, i), vec![8, 1], add_fork(1, i), vec![5, 0]].concat()).collect(),
        ]
    };
    fuzz("machine", 500, corpus, |input| {
        if place.exists() {
            std::fs::remove_dir_all(&place).expect("the place");
        }
        let mut twins = Twins::open(&config);
        let (mut program, mut trail) = (Program(input), std::collections::BTreeSet::new());
        let mut last = 10;
        for _ in 0..MOST {
            let Some((op, result)) = twins.step(&mut program, &config) else { break };
            trail.insert((last, op, result));
            last = op;
        }
        behaviour(trail)
    });
}
