//! A small language of transactions, their interpreter, and the loop over them that all runs are compared with.

use phalanx_access::{Key, Salt};
use phalanx_parascheduler::{Commit, Execution, Interrupt, Program, TxIndex, View, Write};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Name {
    /// A number that can be read, written and credited.
    Cell(u32),
    /// Number of times the account was destroyed.
    Code(u32),
    /// Belongs to one life of an account.
    Slot(u32, u32),
}

impl Key for Name {
    fn digest(&self, salt: &Salt) -> u64 {
        match *self {
            Self::Cell(at) => salt.digest3([u64::from(at), 0, 0]),
            Self::Code(at) => salt.digest3([u64::from(at), 0, 1]),
            Self::Slot(at, slot) => salt.digest3([u64::from(at), u64::from(slot), 2]),
        }
    }
}

/// A number, and for slots the life of the account that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Value {
    pub(crate) number: u64,
    pub(crate) life: u64,
}

const fn number(number: u64) -> Value {
    Value { number, life: 0 }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Read(u32),
    /// Reads the cell that the accumulator points at, of the first so many.
    ReadAt(u32),
    /// Writes the accumulator modulo a small number, so that equal values are common.
    Write(u32, u64),
    WriteAt(u32),
    /// Reads and writes.
    Add(u32, u64),
    Credit(u32, u64),
    /// A credit of a cell that the accumulator points at.
    CreditAt(u32, u64),
    /// Reverts if the accumulator has this remainder: its writes do not count, its reads do.
    RevertIf(u64, u64),
    /// Is invalid if the accumulator has this remainder.
    InvalidIf(u64, u64),
    /// Destroys an account: all its slots are zero from then on.
    Reset(u32),
    SlotRead(u32, u32),
    SlotAdd(u32, u32),
    /// Writes two cells that always agree.
    WritePair(u32),
    /// Reads both and never ends if they differ, unless it is interrupted.
    ReadPair(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) status: Status,
    /// Digest of everything seen.
    pub(crate) seen: u64,
    pub(crate) gas: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    Reverted,
    Invalid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(pub(crate) Name);

/// A block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) txs: Vec<Vec<Op>>,
    /// Cells hold at most this much.
    pub(crate) cap: u64,
    /// Keys that cannot be loaded.
    pub(crate) unreadable: HashSet<Name>,
    /// An invalid transaction ends the block before it.
    pub(crate) strict: bool,
    /// The block ends before a transaction that would exceed this.
    pub(crate) gas_limit: u64,
    /// The block ends after the transaction that reaches this.
    pub(crate) gas_goal: u64,
    /// Credits to it stay with their transactions until these are final.
    pub(crate) tally: Option<Name>,
    /// If the state is on disk: draws the keys that are at hand, and the batches that cannot be read.
    pub(crate) disk: Option<u64>,
}

/// Changes of a transaction: the last write of each key.
type Changes = Vec<(Name, Write<Value, u64>)>;

/// Gives the state before a transaction.
type Reads<'a, E> = dyn FnMut(&Name) -> Result<Value, E> + 'a;

/// Runs one transaction. Loops that do not end call `poll`.
fn interpret<E>(
    ops: &[Op],
    cap: u64,
    exact: bool,
    read: &mut Reads<'_, E>,
    poll: &mut dyn FnMut() -> Result<(), E>,
) -> Result<(Output, Changes), E> {
    let mut seen = 0u64;
    let mut gas = 0;
    let mut own = Changes::new();
    let mut status = Status::Done;
    for op in ops {
        gas += 1 + seen % 3;
        // Reads with the transaction's own changes on top; nothing when they do not fit.
        let mut look = |own: &Changes, name: Name| -> Result<Option<Value>, E> {
            Ok(match own.iter().find(|(key, _)| *key == name) {
                Some((_, Write::Value(value))) => Some(*value),
                Some((_, Write::Credit(credit))) => {
                    Some(read(&name)?.number + credit).filter(|n| *n <= cap).map(number)
                }
                None => Some(read(&name)?),
            })
        };
        let set = |own: &mut Changes, name: Name, write| {
            own.retain(|(key, _)| *key != name);
            own.push((name, write));
        };
        let mut fits = true;
        match *op {
            Op::Read(_) | Op::ReadAt(_) => {
                let at = if let Op::ReadAt(cells) = op { seen as u32 % cells } else { op.at() };
                match look(&own, Name::Cell(at))? {
                    Some(value) => seen = mix(seen, value.number),
                    None => fits = false,
                }
            }
            Op::Write(at, modulo) => set(&mut own, Name::Cell(at), Write::Value(number(seen % modulo % (cap + 1)))),
            Op::WriteAt(cells) => {
                set(&mut own, Name::Cell(seen as u32 % cells), Write::Value(number((seen >> 32) % 3 % (cap + 1))));
            }
            Op::Add(at, by) => match look(&own, Name::Cell(at))?.filter(|value| value.number + by <= cap) {
                Some(value) => {
                    seen = mix(seen, value.number);
                    set(&mut own, Name::Cell(at), Write::Value(number(value.number + by)));
                }
                None => fits = false,
            },
            Op::Credit(_, by) | Op::CreditAt(_, by) => {
                let at = if let Op::CreditAt(cells, _) = op { seen as u32 % cells } else { op.at() };
                let name = Name::Cell(at);
                let held = own.iter().find(|(key, _)| *key == name).map(|(_, write)| write.clone());
                match held {
                    Some(Write::Credit(credit)) if !exact => set(&mut own, name, Write::Credit(credit + by)),
                    None if !exact => set(&mut own, name, Write::Credit(by)),
                    _ => match look(&own, name)?.filter(|value| value.number + by <= cap) {
                        Some(value) => set(&mut own, name, Write::Value(number(value.number + by))),
                        None => fits = false,
                    },
                }
            }
            Op::RevertIf(modulo, rest) => fits = seen % modulo != rest,
            Op::InvalidIf(modulo, rest) => {
                if seen % modulo == rest {
                    status = Status::Invalid;
                    break;
                }
            }
            Op::Reset(at) => {
                let life = look(&own, Name::Code(at))?.map_or(0, |value| value.number);
                set(&mut own, Name::Code(at), Write::Value(number(life + 1)));
            }
            Op::SlotRead(at, slot) | Op::SlotAdd(at, slot) => {
                let life = look(&own, Name::Code(at))?.map_or(0, |value| value.number);
                let held = look(&own, Name::Slot(at, slot))?.filter(|value| value.life == life);
                let held = held.map_or(0, |value| value.number);
                seen = mix(seen, held);
                if matches!(op, Op::SlotAdd(..)) {
                    set(&mut own, Name::Slot(at, slot), Write::Value(Value { number: held + 1, life }));
                }
            }
            Op::WritePair(at) => {
                for name in [Name::Slot(at, PAIR), Name::Slot(at, PAIR + 1)] {
                    set(&mut own, name, Write::Value(number(seen % 5)));
                }
            }
            Op::ReadPair(at) => {
                let one = look(&own, Name::Slot(at, PAIR))?;
                let other = look(&own, Name::Slot(at, PAIR + 1))?;
                if one != other {
                    loop {
                        poll()?;
                    }
                }
                seen = mix(seen, one.map_or(0, |value| value.number));
            }
        }
        if !fits {
            status = Status::Reverted;
            break;
        }
    }
    if status != Status::Done {
        own.clear();
    }
    Ok((Output { status, seen, gas }, own))
}

/// Slots that hold pairs.
const PAIR: u32 = 1_000;

impl Op {
    /// True if it never ends on a state that never existed, unless it is interrupted.
    pub(crate) const fn can_loop(&self) -> bool {
        matches!(self, Self::ReadPair(_))
    }

    const fn at(&self) -> u32 {
        match self {
            Self::Read(at) | Self::Credit(at, _) => *at,
            _ => unreachable!(),
        }
    }
}

const fn mix(seen: u64, value: u64) -> u64 {
    let z = (seen ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 29)
}

impl Block {
    fn base(&self, name: &Name) -> Result<Value, Unreadable> {
        if self.unreadable.contains(name) {
            return Err(Unreadable(*name));
        }
        Ok(match name {
            Name::Cell(at) => number(u64::from(*at) % 7 % (self.cap + 1)),
            Name::Code(_) | Name::Slot(_, PAIR..) => number(0),
            Name::Slot(_, slot) => number(u64::from(*slot) % 2),
        })
    }

    /// True if a key is on disk at first.
    fn is_cold(&self, name: &Name) -> bool {
        self.disk.is_some_and(|seed| !name.digest(&Salt::new(seed)).is_multiple_of(3))
    }

    fn judge(&self, used: &mut u64, output: &Output) -> Commit {
        if self.strict && output.status == Status::Invalid || *used + output.gas > self.gas_limit {
            return Commit::StopBefore;
        }
        *used += output.gas;
        if *used >= self.gas_goal { Commit::StopAfter } else { Commit::Continue }
    }
}

/// Result of a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) outputs: Vec<Output>,
    /// By key.
    pub(crate) writes: Vec<(Name, Value)>,
    pub(crate) stopped: Option<Commit>,
}

/// The oracle: a loop over the transactions on a plain map. An error comes with its transaction.
pub(crate) fn sequential(block: &Block) -> Result<Outcome, (TxIndex, Unreadable)> {
    let mut state: HashMap<Name, Value> = HashMap::new();
    let mut outputs = Vec::new();
    let mut used = 0;
    let mut stopped = None;
    'txs: for (tx, ops) in block.txs.iter().enumerate() {
        let at = |error| (TxIndex(tx as u32), error);
        for exact in [false, true] {
            let mut read = |name: &Name| state.get(name).map_or_else(|| block.base(name), |value| Ok(*value));
            let never = &mut || panic!("pairs agree");
            let (output, own) = interpret(ops, block.cap, exact, &mut read, never).map_err(at)?;
            let mut new = Vec::new();
            for (name, write) in own {
                match write {
                    Write::Value(value) => new.push((name, Some(value))),
                    Write::Credit(credit) => {
                        let sum = read(&name).map_err(at)?.number + credit;
                        new.push((name, Some(number(sum)).filter(|value| value.number <= block.cap)));
                    }
                }
            }
            if new.iter().any(|(_, value)| value.is_none()) {
                assert!(!exact);
                continue;
            }
            let commit = block.judge(&mut used, &output);
            stopped = Some(commit).filter(|commit| *commit != Commit::Continue);
            if commit != Commit::StopBefore {
                state.extend(new.into_iter().map(|(name, value)| (name, value.expect("it fits"))));
                outputs.push(output);
            }
            if stopped.is_some() {
                break 'txs;
            }
            break;
        }
    }
    let mut writes: Vec<_> = state.into_iter().collect();
    writes.sort_unstable();
    Ok(Outcome { outputs, writes, stopped })
}

/// The same block for Block-STM.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    pub(crate) block: &'a Block,
    used: Mutex<u64>,
    committed: AtomicU32,
    loads: Mutex<HashMap<Name, u32>>,
    batches: AtomicU64,
    polls: AtomicU64,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(block: &'a Block) -> Self {
        let (used, loads, [batches, polls]) = (Mutex::default(), Mutex::default(), Default::default());
        Self { block, used, committed: AtomicU32::new(0), loads, batches, polls }
    }

    /// Runs a transaction that cannot loop on any state.
    pub(crate) fn interpret<E>(
        &self,
        index: TxIndex,
        exact: bool,
        read: &mut Reads<'_, E>,
    ) -> Result<(Output, Changes), E> {
        let never = &mut || panic!("no pairs are read");
        interpret(&self.block.txs[index.index()], self.block.cap, exact, read, never)
    }

    /// Maximum number of loads of a key that can be loaded.
    pub(crate) fn most_loads(&self) -> u32 {
        let loads = self.loads.lock().expect("no panic");
        let readable = loads.iter().filter(|(name, _)| !self.block.unreadable.contains(*name));
        readable.map(|(_, times)| *times).max().unwrap_or(0)
    }
}

impl Program for Machine<'_> {
    type Key = Name;
    type Value = Value;
    type Credit = u64;
    type Output = Output;
    type Error = Unreadable;
    type Local = u64;

    fn base(&self, name: &Name) -> Result<Value, Unreadable> {
        *self.loads.lock().expect("no panic").entry(*name).or_default() += 1;
        self.block.base(name)
    }

    fn reads_apart(&self) -> bool {
        self.block.disk.is_some()
    }

    fn at_hand(&self, name: &Name) -> Result<Option<Value>, Unreadable> {
        if self.block.is_cold(name) { Ok(None) } else { self.block.base(name).map(Some) }
    }

    fn named(&self, index: TxIndex, name: &mut dyn FnMut(&Name)) {
        // Some that it reads, one that no transaction reads, and one that may be unreadable.
        for op in self.block.txs[index.index()].iter().take(index.index() % 3) {
            if let Op::Add(at, _) | Op::Write(at, _) = op {
                name(&Name::Cell(*at));
                name(&Name::Cell(*at + 1_000_000));
            }
        }
    }

    fn read_apart(&self, names: &[Name], found: &mut dyn FnMut(&Name, Value)) {
        let batch = self.batches.fetch_add(1, Relaxed);
        std::thread::sleep(std::time::Duration::from_micros(batch % 4 * 20));
        // One failed read fails the batch, and in some blocks one batch fails as a whole: then no more transactions park.
        let seed = self.block.disk.expect("a disk");
        let fails = names.iter().any(|name| self.block.unreadable.contains(name)) || batch * 3 == seed % 64;
        if !fails {
            for name in names {
                found(name, self.base(name).expect("a readable key"));
            }
        }
    }

    fn credited(&self, value: &Value, credit: &u64) -> Option<Value> {
        Some(number(value.number + credit)).filter(|value| value.number <= self.block.cap)
    }

    fn tally(&self) -> Option<Name> {
        self.block.tally
    }

    fn execute(
        &self,
        executed: &mut u64,
        index: TxIndex,
        view: &mut View<'_, Self>,
    ) -> Result<Execution<Self>, Interrupt> {
        *executed += 1;
        let exact = view.exact();
        let view = std::cell::RefCell::new(view);
        let mut read = |name: &Name| view.borrow_mut().read(name);
        let mut poll = || {
            self.polls.fetch_add(1, Relaxed);
            std::thread::yield_now();
            view.borrow_mut().check()
        };
        let ops = &self.block.txs[index.index()];
        let (output, writes) = interpret(ops, self.block.cap, exact, &mut read, &mut poll)?;
        Ok(Execution { output, writes })
    }

    fn commit(&self, index: TxIndex, output: &Output) -> Commit {
        assert_eq!(self.committed.fetch_add(1, Relaxed), index.0, "in order, once");
        self.block.judge(&mut self.used.lock().expect("no panic"), output)
    }
}
