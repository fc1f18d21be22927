//! From templates to predictions: formulas are evaluated as far as the keys need them, and nothing is executed.
//!
//! Hashes are what it costs. Those of mapping slots are asked for by all transactions of a piece first, and computed side
//! by side. A key that is such a hash is filled in then; a transaction that needs a hash to go on is evaluated again.
//!
//! Most transactions of a block come in few shapes (`ways.rs`), whose usual way is laid out once (`straight.rs`).

mod follow;
mod read;
mod ways;
mod lay;
mod straight;
mod hashes;
mod frame;

#[cfg(test)]
pub(in crate::template) use straight::{FOLLOWED, ONLY_WALKS};

use self::{
    frame::{Called, DEAR_FORMULA, Input, Running, Stop, Value, Wei},
    hashes::{Asked, Blank, Hashes},
    ways::Ways,
};
use super::{
    Function, Predicted, Span, Table,
    tree::{Call, End, Leaf, Step, Template},
};
use crate::{key::StateKey, snapshot::Snapshot};
use alloy_primitives::{Address, B256, U256};
use core::ops::Range;
use phalanx_access::Access;
use phalanx_hash_lanes::keccak256_many;
use phalanx_symbolic::{
    CallKind, Node, Ref,
    operator::{binary, unary},
    region_len,
};
use revm::{
    bytecode::opcode::EXP,
    context::{BlockEnv, TxEnv},
};

/// Keys that a prediction may name, per gas and at most. No key ever cost less than 20 gas, and since Tangerine Whistle
/// nearly all cost 200 and more. What touches more is simulated, which costs what it pays for.
const GAS_PER_KEY: u64 = 128;
const MAX_KEYS: u64 = 768;

/// Calls of one transaction, and formulas inside formulas, calls and reads through them.
const MAX_FRAMES: usize = 192;
const MAX_DEPTH: u32 = 192;

/// Formulas evaluated for a transaction, per gas and at most. Simulation would run an instruction of three gas or more in
/// about the time of two.
const GAS_PER_FORMULA: u64 = 16;
const MAX_FORMULAS: u64 = 1 << 14;

/// So many transactions at least wait for each other's hashes. They do it once; what a hash of a hash is they compute.
const MIN_WAITING: usize = 8;

/// Slots of a transaction among which one is looked for that was touched before. It saves the work of telling it later.
const MAX_LOOKED_BACK: usize = 8;

/// A transaction that is to be predicted: it calls `to`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'t> {
    pub(crate) tx: &'t TxEnv,
    pub(crate) to: Address,
    /// Account that the code delegates to (EIP-7702).
    pub(crate) delegate: Option<Address>,
    /// Template of the function that runs.
    pub(crate) template: &'t Template,
}

/// State of a formula in the running evaluation.
#[derive(Clone, Copy, Debug, Default)]
struct Memo {
    /// Number of the evaluation that needed the formula last.
    turn: u32,
    /// True if the formula waits for a hash; `place` is then the hash's, if the formula is one, else a value's.
    asked: bool,
    place: u32,
}

/// The place of a formula that waits for what it is made of.
const NO_HASH: u32 = u32::MAX;

/// Predicts from templates.
pub(crate) struct Evaluator<'a, S> {
    table: &'a Table,
    snapshot: &'a S,
    env: &'a BlockEnv,
    tx: Option<&'a TxEnv>,
    frames: Vec<Running<'a>>,
    /// By formula of each frame in turn. Templates are large, and few of their formulas are asked: what an earlier
    /// transaction has left is told apart by its `turn` rather than cleared.
    memo: Vec<Memo>,
    /// Number of entries of `memo` that the running transaction's frames have.
    memos: usize,
    turn: u32,
    values: Vec<U256>,
    fuel: u64,
    most_keys: usize,
    depth: u32,
    hashes: Hashes,
    ways: Ways<'a>,
    /// Sets of transactions that are done, and the one of the running transaction from `begin` on.
    set: Vec<(StateKey, Access)>,
    begin: usize,
    blanks: Vec<Blank>,
    /// First blank of the running transaction.
    first_blank: usize,
    /// By number, the hashes of the line that is followed.
    asked: Vec<Asked>,
    /// Scratch memory of lines.
    bytes: Vec<u8>,
}

impl<'a, S: Snapshot> Evaluator<'a, S> {
    /// An evaluator that writes into the memory of `out`.
    pub(crate) fn new(table: &'a Table, snapshot: &'a S, env: &'a BlockEnv, out: &mut Predicted) -> Self {
        #[cfg(test)]
        FOLLOWED.set(0);
        let mut set = core::mem::take(&mut out.sets);
        set.clear();
        Self {
            table,
            snapshot,
            env,
            tx: None,
            frames: Vec::new(),
            memo: Vec::new(),
            memos: 0,
            turn: 0,
            values: Vec::new(),
            fuel: 0,
            most_keys: 0,
            depth: 0,
            hashes: Hashes::default(),
            ways: Ways::default(),
            set,
            begin: 0,
            blanks: Vec::new(),
            first_blank: 0,
            asked: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Predicts all `requests`, into `out`.
    pub(crate) fn predict(mut self, requests: &[Request<'a>], out: &mut Predicted) {
        out.spans.clear();
        out.spans.resize(requests.len(), None);
        let mut waiting: Vec<(usize, Range<usize>)> = (0..requests.len()).map(|at| (at, 0..0)).collect();
        for last in [false, true] {
            self.hashes.at_once = last || requests.len() < MIN_WAITING;
            waiting.retain_mut(|(at, asked)| {
                self.hashes.mine = asked.clone();
                self.hashes.start = self.hashes.preimages.len();
                (self.begin, self.tx) = (self.set.len(), Some(requests[*at].tx));
                self.first_blank = self.blanks.len();
                let result = self.transaction(&requests[*at]);
                if result.is_ok() {
                    let (set, hashed) = (self.begin..self.set.len(), self.first_blank..self.blanks.len());
                    out.spans[*at] = Some(Span { set, hashed });
                } else {
                    self.set.truncate(self.begin);
                    self.blanks.truncate(self.first_blank);
                }
                *asked = self.hashes.start..self.hashes.preimages.len();
                result == Err(Stop::Waits)
            });
            let Hashes { preimages, hashes, .. } = &mut self.hashes;
            let asked = hashes.len();
            keccak256_many(preimages[asked..].iter().map(|preimage| &preimage[..]), hashes);
        }
        self.hashes.finish();
        out.hashed.clear();
        out.inners.clear();
        for Blank { entry, hash } in self.blanks {
            let inner = self.hashes.inner(hash);
            let (preimage, hash) = self.hashes.get(hash);
            if let StateKey::Slot(_, slot) = &mut self.set[entry].0 {
                *slot = hash.into();
            }
            if let Some(inner) = inner {
                out.inners.push((out.hashed.len(), *inner));
            }
            out.hashed.push((entry, preimage));
        }
        out.sets = self.set;
    }

    fn transaction(&mut self, request: &Request<'a>) -> Value<()> {
        let Request { tx, to, delegate, template } = *request;
        self.frames.clear();
        // Two rounds of a piece are far fewer than 2^32.
        (self.memos, self.turn) = (0, self.turn + 1);
        self.values.clear();
        self.fuel = (tx.gas_limit / GAS_PER_FORMULA).min(MAX_FORMULAS);
        self.most_keys = (16 + tx.gas_limit / GAS_PER_KEY).min(MAX_KEYS) as usize;
        self.depth = 0;
        self.set.push((StateKey::Basic(tx.caller), Access::Write));
        self.set.push((StateKey::Basic(to), if tx.value.is_zero() { Access::Read } else { Access::Write }));
        if let Some(delegate) = delegate {
            self.touch(StateKey::Basic(delegate), Access::Read)?;
        }
        let mut lines = self.ways.begin(template, tx.value, tx.data.len());
        // Lines that do not fit take nothing from the walk.
        let mut fuel = self.fuel;
        let followed = lines.iter_mut().position(|line| self.follow(line, tx, to, &mut fuel).is_some());
        self.ways.put_back(lines, followed);
        if followed.is_some() {
            return Ok(());
        }
        let frame = self.open(template, None, [tx.caller, to], Wei::Known(tx.value), Input::Transaction);
        let fuel = self.fuel;
        let result = self.run(frame);
        // One that waits for hashes may have shown its way as well.
        let is_shown = |frame: &Running<'_>| {
            frame.leaf.is_some() && !frame.calls.iter().any(|called| matches!(called, Called::Waits))
        };
        if result != Err(Stop::Unknown) && self.frames.iter().all(is_shown) && self.ways.is_worth_a_line() {
            let line = lay::lay(&self.frames, tx.value, tx.data.len(), fuel);
            self.ways.add(line);
        }
        result
    }

    /// The code that runs where `code` is found, which may delegate.
    fn resolve(&mut self, code: B256) -> Value<Option<B256>> {
        let Some(delegate) = self.table.delegate(&code) else { return Ok(Some(code)) };
        self.touch(StateKey::Basic(delegate), Access::Read)?;
        Ok(self.snapshot.code_hash(&delegate))
    }

    fn touch(&mut self, key: StateKey, access: Access) -> Value<()> {
        if self.set.len() - self.begin >= self.most_keys {
            return Err(Stop::Unknown);
        }
        self.set.push((key, access));
        Ok(())
    }

    /// Touches the slot of a frame that is the hash which was waited for last.
    fn touch_blank(&mut self, frame: usize, access: Access) -> Value<()> {
        let (target, hash) = (self.frames[frame].target, Asked::Early(self.hashes.last));
        let lately = self.blanks[self.first_blank..].iter().rev().take(MAX_LOOKED_BACK);
        let of_hash = lately.filter(|blank| blank.hash == hash);
        for Blank { entry, .. } in of_hash {
            // Most slots are read before they are written.
            if let (StateKey::Slot(address, _), held) = &mut self.set[*entry]
                && *address == target
            {
                *held = held.join(access);
                return Ok(());
            }
        }
        self.blanks.push(Blank { entry: self.set.len(), hash });
        self.touch(StateKey::Slot(target, U256::ZERO), access)
    }

    fn open(
        &mut self,
        template: &'a Template,
        function: Option<Function>,
        [caller, target]: [Address; 2],
        value: Wei,
        input: Input<'a>,
    ) -> usize {
        let memo = self.memos;
        self.memos += template.nodes.len();
        if self.memo.len() < self.memos {
            self.memo.resize(self.memos, Memo::default());
        }
        let (calls, path) = (Vec::new(), Vec::new());
        self.frames.push(Running { template, function, memo, caller, target, value, input, calls, path, leaf: None });
        self.frames.len() - 1
    }

    /// Walks the tree of a frame to its end. One that waits is walked as far as it goes, to ask for all hashes at once.
    fn run(&mut self, frame: usize) -> Value<()> {
        let template = self.frames[frame].template;
        let (mut block, mut waits) = (0, false);
        loop {
            let here = &template.blocks[block];
            for step in &here.steps {
                match self.step(frame, step) {
                    Err(Stop::Waits) => waits = true,
                    result => result?,
                }
            }
            match &here.end {
                End::Open => return Err(Stop::Unknown),
                End::Leaf(leaf) => {
                    self.frames[frame].leaf = Some(leaf);
                    return if waits { Err(Stop::Waits) } else { Ok(()) };
                }
                End::Switch { on, asked, of_shape, arms } => {
                    self.burn()?;
                    // The first frame is the transaction's own.
                    let kept = *of_shape && frame == 0;
                    if kept && let Some(next) = self.ways.next(block) {
                        self.frames[frame].path.push(next as u32);
                        block = next;
                        continue;
                    }
                    let next = match &arms[..] {
                        [(_, only)] if !asked => *only as usize,
                        [(_, only)] => match self.value(frame, *on) {
                            Ok(value) if value != arms[0].0 => return Err(Stop::Unknown),
                            Ok(_) | Err(Stop::Unknown) => *only as usize,
                            Err(Stop::Waits) => return Err(Stop::Waits),
                        },
                        arms => {
                            let value = self.value(frame, *on)?;
                            let arm = arms.iter().find(|(arm, _)| *arm == value);
                            arm.ok_or(Stop::Unknown)?.1 as usize
                        }
                    };
                    if kept {
                        self.ways.keep(block, next);
                    }
                    self.frames[frame].path.push(next as u32);
                    block = next;
                }
            }
        }
    }

    fn step(&mut self, frame: usize, step: &'a Step) -> Value<()> {
        self.burn()?;
        match step {
            Step::Slot { slot, access } => {
                let value = match self.value(frame, *slot) {
                    Err(Stop::Waits) if self.is_asked(frame, *slot) => return self.touch_blank(frame, *access),
                    value => value?,
                };
                self.touch(StateKey::Slot(self.frames[frame].target, value), *access)
            }
            Step::Account { address, access } => {
                let address = self.address(frame, *address)?;
                self.touch(StateKey::Basic(address), *access)
            }
            Step::Lost => Err(Stop::Unknown),
            Step::Call(call) => self.call(frame, call),
        }
    }

    fn call(&mut self, frame: usize, call: &'a Call) -> Value<()> {
        let number = self.frames[frame].calls.len();
        self.frames[frame].calls.push(Called::Waits);
        if self.frames.len() > MAX_FRAMES {
            return Err(Stop::Unknown);
        }
        let to = self.address(frame, call.to)?;
        let pays = match call.value {
            Some(value) => self.value(frame, value).map_or(call.pays, |value| !value.is_zero()),
            None => false,
        };
        let (caller, target) = (self.frames[frame].caller, self.frames[frame].target);
        if pays {
            self.touch(StateKey::Basic(target), Access::Write)?;
        }
        let paid = pays && call.kind == CallKind::Call;
        self.touch(StateKey::Basic(to), if paid { Access::Write } else { call.access })?;
        let found = self.snapshot.code_hash(&to);
        let code = match found {
            Some(code) => self.resolve(code)?,
            None => None,
        };
        let Some(code) = code else {
            self.frames[frame].calls[number] = Called::Nothing { found };
            return Ok(());
        };
        let selector = if region_len(&call.input) < 4 {
            None
        } else {
            let mut selector = [0; 4];
            self.read(frame, &call.input, 0, &mut selector)?;
            Some(selector)
        };
        let function = Function { code, selector };
        let template = self.table.get(&function).ok_or(Stop::Unknown)?;
        let input = Input::Of(frame, &call.input);
        let value = call.value.map_or(Wei::Known(U256::ZERO), |value| Wei::Of(frame, value));
        let (between, value) = match call.kind {
            CallKind::Call => ([target, to], value),
            CallKind::CallCode => ([target, target], value),
            CallKind::DelegateCall => ([caller, target], self.frames[frame].value),
        };
        let function = (found == Some(code)).then_some(function);
        let inner = self.open(template, function, between, value, input);
        self.frames[frame].calls[number] = Called::Frame(inner);
        self.deeper(|it| it.run(inner))
    }

    /// Returns true if a formula that waits is itself the last requested hash, and not made of it.
    fn is_asked(&self, frame: usize, at: Ref) -> bool {
        matches!(self.frames[frame].template.nodes.get(at), Node::Keccak(_)) && self.hashes.last != usize::MAX
    }

    /// Work that is counted.
    fn burn(&mut self) -> Value<()> {
        self.fuel = self.fuel.checked_sub(1).ok_or(Stop::Unknown)?;
        Ok(())
    }

    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Value<T>) -> Value<T> {
        if self.depth >= MAX_DEPTH {
            return Err(Stop::Unknown);
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    fn address(&mut self, frame: usize, at: Ref) -> Value<Address> {
        Ok(Address::from_word(B256::from(self.value(frame, at)?)))
    }

    /// The value of a formula of a frame.
    fn value(&mut self, frame: usize, at: Ref) -> Value {
        let Running { template, memo, caller, target, value, input, .. } = &self.frames[frame];
        let node = template.nodes.get(at);
        // What is there already is not worth remembering.
        match (node, value, input, self.tx) {
            (Node::Const(value), ..) | (Node::Value, Wei::Known(value), ..) => return Ok(*value),
            (Node::Caller, ..) => return Ok(caller.into_word().into()),
            (Node::Target, ..) => return Ok(target.into_word().into()),
            (Node::InputLen, _, Input::Transaction, Some(tx)) => return Ok(U256::from(tx.data.len())),
            (Node::Input(offset), _, Input::Transaction, Some(tx)) => {
                if let Node::Const(offset) = template.nodes.get(*offset)
                    && let Ok(offset) = usize::try_from(*offset)
                    && let Some(bytes) = tx.data.get(offset..).and_then(|rest| rest.first_chunk::<32>())
                {
                    return Ok(U256::from_be_bytes(*bytes));
                }
            }
            _ => {}
        }
        let memo = memo + at as usize;
        let Memo { turn, asked, place } = self.memo[memo];
        if turn == self.turn {
            if asked {
                self.hashes.last = if place == NO_HASH { usize::MAX } else { place as usize };
                return Err(Stop::Waits);
            }
            return Ok(self.values[place as usize]);
        }
        self.burn()?;
        match self.deeper(|it| it.compute(frame, node)) {
            Ok(value) => {
                self.memo[memo] = Memo { turn: self.turn, asked: false, place: self.values.len() as u32 };
                self.values.push(value);
                Ok(value)
            }
            Err(stop) => {
                if stop == Stop::Waits {
                    // It waits for as long as this turn goes on.
                    let is_hash = matches!(node, Node::Keccak(_)) && self.hashes.last != usize::MAX;
                    let place = if is_hash { self.hashes.last as u32 } else { NO_HASH };
                    self.memo[memo] = Memo { turn: self.turn, asked: true, place };
                }
                Err(stop)
            }
        }
    }

    fn compute(&mut self, frame: usize, node: &'a Node) -> Value {
        let number = |len: usize| U256::from(len);
        Ok(match node {
            Node::Const(value) => *value,
            Node::Caller => self.frames[frame].caller.into_word().into(),
            Node::Target => self.frames[frame].target.into_word().into(),
            Node::Origin => self.transaction_of()?.caller.into_word().into(),
            Node::Value => match self.frames[frame].value {
                Wei::Known(value) => value,
                Wei::Of(frame, at) => self.value(frame, at)?,
            },
            Node::InputLen => match self.frames[frame].input {
                Input::Transaction => number(self.transaction_of()?.data.len()),
                Input::Of(_, region) => number(region_len(region)),
            },
            Node::Input(offset) => {
                let offset = self.value(frame, *offset)?;
                let mut bytes = [0; 32];
                self.read_input(frame, offset, &mut bytes)?;
                U256::from_be_bytes(bytes)
            }
            Node::Env(env) => env.of(self.env, self.transaction_of()?),
            Node::Load(_, slot) => {
                let slot = self.value(frame, *slot)?;
                self.fuel = self.fuel.checked_sub(DEAR_FORMULA - 1).ok_or(Stop::Unknown)?;
                let target = self.frames[frame].target;
                self.snapshot.storage_ref(target, slot).map_err(|_| Stop::Unknown)?
            }
            Node::Unary(op, a) => unary(*op, &self.value(frame, *a)?).ok_or(Stop::Unknown)?,
            Node::Binary(op, a, b) => {
                // Both are asked, so that both can ask for hashes.
                let (a, b) = (self.value(frame, *a), self.value(frame, *b));
                let (a, b) = (a?, b?);
                if *op == EXP {
                    self.fuel = self.fuel.checked_sub(DEAR_FORMULA - 1).ok_or(Stop::Unknown)?;
                }
                binary(*op, &a, &b).ok_or(Stop::Unknown)?
            }
            Node::Keccak(region) => self.keccak(frame, region)?,
            Node::Word(region) => {
                let mut bytes = [0; 32];
                self.read(frame, region, 0, &mut bytes)?;
                U256::from_be_bytes(bytes)
            }
            Node::Success(call) => match self.called(frame, *call)? {
                Called::Frame(inner) => number(self.leaf(inner)?.success.into()),
                Called::Nothing { .. } | Called::Waits => U256::ONE,
            },
            Node::ReturnedLen(call) => match self.called(frame, *call)? {
                Called::Frame(inner) => number(region_len(&self.leaf(inner)?.output)),
                Called::Nothing { .. } | Called::Waits => U256::ZERO,
            },
            // The last three are of exact recordings.
            Node::Unknown | Node::Original(_) | Node::Gas(_) | Node::Ternary(..) => return Err(Stop::Unknown),
        })
    }

    fn transaction_of(&self) -> Value<&'a TxEnv> {
        self.tx.ok_or(Stop::Unknown)
    }

    /// Result of a call.
    fn called(&self, frame: usize, call: u16) -> Value<Called> {
        match self.frames[frame].calls.get(usize::from(call)) {
            Some(Called::Waits) => Err(Stop::Waits),
            Some(called) => Ok(*called),
            None => Err(Stop::Unknown),
        }
    }

    /// End of a frame, which may still wait.
    fn leaf(&self, frame: usize) -> Value<&'a Leaf> {
        self.frames[frame].leaf.ok_or(Stop::Waits)
    }
}
