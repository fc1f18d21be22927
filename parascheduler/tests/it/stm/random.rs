//! Random blocks: every seed has its own size, heat and mixture.

use super::{
    UNBOUNDED,
    language::{Block, Name, Op},
};
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

pub(crate) fn random_block(seed: u64, max_txs: usize) -> Block {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let txs = rng.random_range(1..=max_txs);
    let shape = Shape {
        cells: *[1, 2, 5, 30, 300].choose(&mut rng).expect("some"),
        accounts: *[1, 3, 20].choose(&mut rng).expect("some"),
        weights: std::array::from_fn(|_| if rng.random_bool(0.3) { 0 } else { rng.random_range(1..=10) }),
    };
    let most = rng.random_range(1..=8);
    let mut block = Block {
        txs: (0..txs).map(|_| (0..rng.random_range(1..=most)).map(|_| shape.op(&mut rng)).collect()).collect(),
        cap: *[UNBOUNDED, UNBOUNDED, 5, 40].choose(&mut rng).expect("some"),
        strict: rng.random_bool(0.2),
        gas_limit: UNBOUNDED,
        gas_goal: UNBOUNDED,
        ..Block::default()
    };
    let all = (txs * most) as u64;
    match rng.random_range(0..8) {
        0 => block.gas_limit = rng.random_range(0..=all),
        1 => block.gas_goal = rng.random_range(0..=all),
        2 => block.unreadable = [Name::Cell(rng.random_range(0..shape.cells))].into(),
        3 => block.unreadable = [Name::Slot(rng.random_range(0..shape.accounts), 1)].into(),
        _ => {}
    }
    block.tally = rng.random_bool(0.5).then(|| Name::Cell(rng.random_range(0..shape.cells)));
    block.disk = rng.random_bool(0.4).then(|| rng.random());
    block
}

struct Shape {
    cells: u32,
    accounts: u32,
    weights: [u32; 14],
}

impl Shape {
    fn op(&self, rng: &mut ChaCha8Rng) -> Op {
        let kinds: Vec<usize> = (0..14).collect();
        let kind = kinds.choose_weighted(rng, |kind| self.weights[*kind]).copied().unwrap_or(4);
        let cell = rng.random_range(0..self.cells);
        let account = rng.random_range(0..self.accounts);
        let slot = rng.random_range(0..3);
        let (modulo, rest) = (rng.random_range(2..20), rng.random_range(0..2));
        match kind {
            0 => Op::Read(cell),
            1 => Op::ReadAt(self.cells),
            2 => Op::Write(cell, modulo),
            3 => Op::WriteAt(self.cells),
            4 => Op::Add(cell, rest),
            5 => Op::Credit(cell, rest + 1),
            6 => Op::CreditAt(self.cells, 1),
            7 => Op::RevertIf(modulo, rest),
            // Rare: in a strict block it is the end.
            8 => Op::InvalidIf(modulo * 50, rest),
            9 => Op::Reset(account),
            10 => Op::SlotRead(account, slot),
            11 => Op::SlotAdd(account, slot),
            12 => Op::WritePair(account),
            _ => Op::ReadPair(account),
        }
    }
}
