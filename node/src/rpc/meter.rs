//! Memory of a trace, counted before any tracer records it: the same for all of them, also for the parts of `muxTracer`.

use super::api::Until;
use ::phalanx::revm::{
    bytecode::OpCode,
    context_interface::{ContextTr, context::ContextError},
    inspector::Inspector,
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter,
        interpreter_types::{InputsTr as _, Jumps as _, MemoryTr as _},
    },
    primitives::{Address, Log, U256},
};
use revm_inspectors::tracing::DebugInspector;
use std::collections::{HashMap, HashSet};

/// Memory of a call in the record of a tracer and in its answer, in bytes, beside its data.
const CALL_BYTES: usize = 2_048;

/// Memory of a call for a tracer that only counts calls, in bytes.
const COUNTED_BYTES: usize = 128;

/// Memory of a log beside its data, in bytes.
const LOG_BYTES: usize = 512;

/// Memory of a recorded instruction, in bytes, beside its stack.
const STEP_BYTES: usize = 512;

/// Memory of a word of the stack, recorded and shown, in bytes.
const WORD_BYTES: usize = 64;

/// Memory of a slot that a step shows, in bytes. Each step that touches storage shows all slots that were touched before.
const SLOT_BYTES: usize = 96;

/// Bytes that a byte of the EVM's memory takes where it is shown, as text.
const SHOWN: usize = 3;

/// Number of instructions between two looks at the clock: some hundred microseconds.
const LOOK: u32 = 1 << 14;

/// Room and time that traces have left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) bytes: usize,
    pub(super) until: Until,
}

/// Counts what a tracer records, and ends an execution that records too much.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub(super) room: Room,
    rates: Rates,
    /// Why there is no room.
    over: Option<&'static str>,
    /// Slots that a contract has touched.
    slots: HashMap<Address, HashSet<U256>>,
    /// True if the EVM's memory may differ from that of the step before.
    is_changed: bool,
    /// Instructions since the last look at the clock.
    unseen: u32,
}

/// Bytes that a tracer takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rates {
    /// Bytes of a call.
    call: usize,
    /// True if data of calls and logs are recorded.
    has_data: bool,
    steps: Option<Steps>,
}

/// Parts of every instruction that a tracer keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Steps {
    stack: bool,
    memory: Memory,
    storage: bool,
    /// Instructions behind which none is recorded.
    limit: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Unseen,
    /// Recorded where it has changed.
    Recorded,
    /// Shown with every instruction.
    Shown,
}

impl Rates {
    fn of(tracer: &DebugInspector) -> Self {
        let calls = |parts: usize| Self { call: CALL_BYTES * parts, has_data: true, steps: None };
        match tracer {
            DebugInspector::FourByte(_) => Self { call: COUNTED_BYTES, ..Self::default() },
            DebugInspector::CallTracer(..) | DebugInspector::PreStateTracer(..) => calls(1),
            // Instructions belong to OpenEthereum's `vmTrace`.
            DebugInspector::FlatCallTracer(tracer) => {
                let steps = Steps { stack: true, memory: Memory::Recorded, storage: false, limit: None };
                Self { steps: tracer.config().record_steps.then_some(steps), ..calls(1) }
            }
            DebugInspector::Noop(_) | DebugInspector::StateGasTracer(_) => Self::default(),
            DebugInspector::Mux(_, config) => calls(config.0.len()),
            DebugInspector::Erc7562Tracer(..) => {
                let steps = Steps { stack: true, memory: Memory::Recorded, storage: false, limit: None };
                Self { steps: Some(steps), ..calls(1) }
            }
            DebugInspector::Default(_, options) => {
                let memory = if options.is_memory_enabled() { Memory::Shown } else { Memory::Unseen };
                let steps = Steps {
                    stack: !options.disable_stack.unwrap_or_default(),
                    memory,
                    storage: !options.disable_storage.unwrap_or_default(),
                    limit: options.limit.filter(|limit| *limit != 0),
                };
                Self { steps: Some(steps), ..calls(1) }
            }
        }
    }
}

impl Meter {
    pub(super) fn new(tracer: &DebugInspector, room: Room) -> Self {
        Self { room, rates: Rates::of(tracer), over: None, slots: HashMap::new(), is_changed: true, unseen: 0 }
    }

    /// Takes room for bytes.
    const fn take(&mut self, bytes: usize) {
        match self.room.bytes.checked_sub(bytes) {
            Some(left) => self.room.bytes = left,
            None => self.over = Some("the trace is too large"),
        }
    }

    /// Takes room for a call or a log with data.
    const fn take_with_data(&mut self, bytes: usize, data: usize) {
        self.is_changed = true;
        self.take(bytes.saturating_add(if self.rates.has_data { data } else { 0 }));
    }

    /// Makes the transaction fail if there is no room.
    fn check<C: ContextTr>(&self, context: &mut C) {
        if let Some(why) = self.over
            && context.error().is_ok()
        {
            *context.error() = Err(ContextError::Custom(why.into()));
        }
    }

    /// Takes room for an instruction.
    fn step(&mut self, of: Steps, interpreter: &Interpreter) {
        let opcode = OpCode::new(interpreter.bytecode.opcode());
        let memory = match of.memory {
            Memory::Unseen => 0,
            Memory::Recorded if !self.is_changed => 0,
            Memory::Recorded => interpreter.memory.size(),
            Memory::Shown => SHOWN.saturating_mul(interpreter.memory.size()),
        };
        self.is_changed = opcode.is_none_or(|opcode| opcode.modifies_memory());
        let stack = if of.stack { interpreter.stack.len() * WORD_BYTES } else { 0 };
        let slots = match opcode {
            Some(OpCode::SLOAD | OpCode::SSTORE) if of.storage => {
                let slots = self.slots.entry(interpreter.input.target_address()).or_default();
                slots.extend(interpreter.stack.data().last());
                slots.len() * SLOT_BYTES
            }
            _ => 0,
        };
        self.take(STEP_BYTES.saturating_add(memory).saturating_add(stack).saturating_add(slots));
    }
}

impl<C: ContextTr> Inspector<C> for Meter {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut C) {
        if let Some(steps) = &mut self.rates.steps {
            let is_shown = steps.limit.is_none_or(|left| left > 0);
            steps.limit = steps.limit.map(|left| left.saturating_sub(1));
            let steps = *steps;
            if is_shown {
                self.step(steps, interpreter);
            }
        }
        self.unseen += 1;
        if self.unseen == LOOK {
            self.unseen = 0;
            if self.room.until.is_over() {
                self.over = Some("the trace takes too long");
            }
        }
        if self.over.is_some() {
            self.check(context);
            interpreter.halt_fatal();
        }
    }

    fn log(&mut self, context: &mut C, log: Log) {
        if self.rates.has_data {
            self.take_with_data(LOG_BYTES, log.data.data.len());
            self.check(context);
        }
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.take_with_data(self.rates.call, inputs.input.len());
        self.check(context);
        None
    }

    fn call_end(&mut self, context: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.take_with_data(0, outcome.result.output.len());
        self.check(context);
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.take_with_data(self.rates.call, inputs.init_code().len());
        self.check(context);
        None
    }

    fn create_end(&mut self, context: &mut C, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.take_with_data(0, outcome.result.output.len());
        self.check(context);
    }

    /// The instruction behind it ends the execution: there is no context here.
    fn selfdestruct(&mut self, _: Address, _: Address, _: U256) {
        self.take(self.rates.call);
    }
}
