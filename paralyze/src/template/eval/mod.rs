//! From templates to predictions: formulas are evaluated as far as the keys need them, and nothing is executed.
//!
//! Hashes are most of the cost. Those that keys are, the slots of mappings, are computed side by side for all transactions
//! of a batch, and filled in then. A hash that a formula needs is computed at once.
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
    frame::{Called, DEAR_FORMULA, Input, Running, Wei},
    hashes::{Asked, Blank, Hashes},
    ways::Ways,
};
use super::{
    Function, Predicted, Span, Table,
    tree::{Call, End, Leaf, Step, Template},
};
use crate::{key::StateKey, preimage::Preimage, snapshot::Snapshot};
use alloy_primitives::{Address, B256, U256};
use phalanx_access::Access;
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
    /// Place of the formula's value then.
    place: u32,
}

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
        for (request, span) in requests.iter().zip(&mut out.spans) {
            self.begin = self.set.len();
            self.first_blank = self.blanks.len();
            self.tx = Some(request.tx);
            let asked = self.hashes.len();
            if self.transaction(request).is_some() {
                let (set, hashed) = (self.begin..self.set.len(), self.first_blank..self.blanks.len());
                *span = Some(Span { set, hashed });
            } else {
                self.set.truncate(self.begin);
                self.blanks.truncate(self.first_blank);
                self.hashes.truncate(asked);
            }
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

    fn transaction(&mut self, request: &Request<'a>) -> Option<()> {
        let Request { tx, to, delegate, template } = *request;
        self.frames.clear();
        // A batch has far fewer transactions than 2^32.
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
            return Some(());
        }
        let frame = self.open(template, None, [tx.caller, to], Wei::Known(tx.value), Input::Transaction);
        let fuel = self.fuel;
        self.run(frame)?;
        if self.ways.is_worth_a_line() {
            let line = lay::lay(&self.frames, tx.value, tx.data.len(), fuel);
            self.ways.add(line);
        }
        Some(())
    }

    /// The code that runs where `code` is found, which may delegate.
    fn resolve(&mut self, code: B256) -> Option<Option<B256>> {
        let Some(delegate) = self.table.delegate(&code) else { return Some(Some(code)) };
        self.touch(StateKey::Basic(delegate), Access::Read)?;
        Some(self.snapshot.code_hash(&delegate))
    }

    fn touch(&mut self, key: StateKey, access: Access) -> Option<()> {
        if self.set.len() - self.begin >= self.most_keys {
            return None;
        }
        self.set.push((key, access));
        Some(())
    }

    /// Touches the slot of a frame that is the hash of `preimage`.
    fn touch_mapping(&mut self, frame: usize, preimage: Preimage, access: Access) -> Option<()> {
        let target = self.frames[frame].target;
        let lately = self.blanks[self.first_blank..].iter().rev().take(MAX_LOOKED_BACK);
        for Blank { entry, .. } in lately.filter(|blank| *self.hashes.preimage(blank.hash) == preimage) {
            // Most slots are read before they are written.
            if let (StateKey::Slot(address, _), held) = &mut self.set[*entry]
                && *address == target
            {
                *held = held.join(access);
                return Some(());
            }
        }
        self.blanks.push(Blank { entry: self.set.len(), hash: self.hashes.ask(preimage) });
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

    /// Walks the tree of a frame to its end.
    fn run(&mut self, frame: usize) -> Option<()> {
        let template = self.frames[frame].template;
        let mut block = 0;
        loop {
            let here = &template.blocks[block];
            for step in &here.steps {
                self.step(frame, step)?;
            }
            match &here.end {
                End::Open => return None,
                End::Leaf(leaf) => {
                    self.frames[frame].leaf = Some(leaf);
                    return Some(());
                }
                End::Switch { on, asked, arms } => {
                    self.burn()?;
                    let next = match &arms[..] {
                        [(_, only)] if !asked => *only as usize,
                        [(_, only)] => match self.value(frame, *on) {
                            Some(value) if value != arms[0].0 => return None,
                            _ => *only as usize,
                        },
                        arms => {
                            let value = self.value(frame, *on)?;
                            arms.iter().find(|(arm, _)| *arm == value)?.1 as usize
                        }
                    };
                    self.frames[frame].path.push(next as u32);
                    block = next;
                }
            }
        }
    }

    fn step(&mut self, frame: usize, step: &'a Step) -> Option<()> {
        self.burn()?;
        match step {
            Step::Slot { slot, access } => {
                if let Node::Keccak(region) = self.frames[frame].template.nodes.get(*slot)
                    && region_len(region) == 64
                {
                    self.burn()?;
                    let preimage = self.deeper(|it| it.preimage(frame, region))?;
                    return self.touch_mapping(frame, preimage, *access);
                }
                let value = self.value(frame, *slot)?;
                self.touch(StateKey::Slot(self.frames[frame].target, value), *access)
            }
            Step::Account { address, access } => {
                let address = self.address(frame, *address)?;
                self.touch(StateKey::Basic(address), *access)
            }
            Step::Lost => None,
            Step::Call(call) => self.call(frame, call),
        }
    }

    fn call(&mut self, frame: usize, call: &'a Call) -> Option<()> {
        if self.frames.len() > MAX_FRAMES {
            return None;
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
            self.frames[frame].calls.push(Called::Nothing { found });
            return Some(());
        };
        let selector = if region_len(&call.input) < 4 {
            None
        } else {
            let mut selector = [0; 4];
            self.read(frame, &call.input, 0, &mut selector)?;
            Some(selector)
        };
        let function = Function { code, selector };
        let template = self.table.get(&function)?;
        let input = Input::Of(frame, &call.input);
        let value = call.value.map_or(Wei::Known(U256::ZERO), |value| Wei::Of(frame, value));
        let (between, value) = match call.kind {
            CallKind::Call => ([target, to], value),
            CallKind::CallCode => ([target, target], value),
            CallKind::DelegateCall => ([caller, target], self.frames[frame].value),
        };
        let function = (found == Some(code)).then_some(function);
        let inner = self.open(template, function, between, value, input);
        self.frames[frame].calls.push(Called::Frame(inner));
        self.deeper(|it| it.run(inner))
    }

    /// Work that is counted.
    fn burn(&mut self) -> Option<()> {
        self.fuel = self.fuel.checked_sub(1)?;
        Some(())
    }

    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    fn address(&mut self, frame: usize, at: Ref) -> Option<Address> {
        Some(Address::from_word(B256::from(self.value(frame, at)?)))
    }

    /// The value of a formula of a frame.
    fn value(&mut self, frame: usize, at: Ref) -> Option<U256> {
        let Running { template, memo, caller, target, value, input, .. } = &self.frames[frame];
        let node = template.nodes.get(at);
        // What is there already is not worth remembering.
        match (node, value, input, self.tx) {
            (Node::Const(value), ..) | (Node::Value, Wei::Known(value), ..) => return Some(*value),
            (Node::Caller, ..) => return Some(caller.into_word().into()),
            (Node::Target, ..) => return Some(target.into_word().into()),
            (Node::InputLen, _, Input::Transaction, Some(tx)) => return Some(U256::from(tx.data.len())),
            (Node::Input(offset), _, Input::Transaction, Some(tx)) => {
                if let Node::Const(offset) = template.nodes.get(*offset)
                    && let Ok(offset) = usize::try_from(*offset)
                    && let Some(bytes) = tx.data.get(offset..).and_then(|rest| rest.first_chunk::<32>())
                {
                    return Some(U256::from_be_bytes(*bytes));
                }
            }
            _ => {}
        }
        let memo = memo + at as usize;
        let Memo { turn, place } = self.memo[memo];
        if turn == self.turn {
            return Some(self.values[place as usize]);
        }
        self.burn()?;
        let value = self.deeper(|it| it.compute(frame, node))?;
        self.memo[memo] = Memo { turn: self.turn, place: self.values.len() as u32 };
        self.values.push(value);
        Some(value)
    }

    fn compute(&mut self, frame: usize, node: &'a Node) -> Option<U256> {
        let number = |len: usize| U256::from(len);
        Some(match node {
            Node::Const(value) => *value,
            Node::Caller => self.frames[frame].caller.into_word().into(),
            Node::Target => self.frames[frame].target.into_word().into(),
            Node::Origin => self.tx?.caller.into_word().into(),
            Node::Value => match self.frames[frame].value {
                Wei::Known(value) => value,
                Wei::Of(frame, at) => self.value(frame, at)?,
            },
            Node::InputLen => match self.frames[frame].input {
                Input::Transaction => number(self.tx?.data.len()),
                Input::Of(_, region) => number(region_len(region)),
            },
            Node::Input(offset) => {
                let offset = self.value(frame, *offset)?;
                let mut bytes = [0; 32];
                self.read_input(frame, offset, &mut bytes)?;
                U256::from_be_bytes(bytes)
            }
            Node::Env(env) => env.of(self.env, self.tx?),
            Node::Load(_, slot) => {
                let slot = self.value(frame, *slot)?;
                self.fuel = self.fuel.checked_sub(DEAR_FORMULA - 1)?;
                let target = self.frames[frame].target;
                self.snapshot.storage_ref(target, slot).ok()?
            }
            Node::Unary(op, a) => unary(*op, &self.value(frame, *a)?)?,
            Node::Binary(op, a, b) => {
                let (a, b) = (self.value(frame, *a)?, self.value(frame, *b)?);
                if *op == EXP {
                    self.fuel = self.fuel.checked_sub(DEAR_FORMULA - 1)?;
                }
                binary(*op, &a, &b)?
            }
            Node::Keccak(region) => self.keccak(frame, region)?,
            Node::Word(region) => {
                let mut bytes = [0; 32];
                self.read(frame, region, 0, &mut bytes)?;
                U256::from_be_bytes(bytes)
            }
            Node::Success(call) => match self.called(frame, *call)? {
                Called::Frame(inner) => number(self.leaf(inner)?.success.into()),
                Called::Nothing { .. } => U256::ONE,
            },
            Node::ReturnedLen(call) => match self.called(frame, *call)? {
                Called::Frame(inner) => number(region_len(&self.leaf(inner)?.output)),
                Called::Nothing { .. } => U256::ZERO,
            },
            // The last three are of exact recordings.
            Node::Unknown | Node::Original(_) | Node::Gas(_) | Node::Ternary(..) => return None,
        })
    }

    /// Result of a call.
    fn called(&self, frame: usize, call: u16) -> Option<Called> {
        self.frames[frame].calls.get(usize::from(call)).copied()
    }

    /// End of a frame.
    fn leaf(&self, frame: usize) -> Option<&'a Leaf> {
        self.frames[frame].leaf
    }
}
