//! A tracer of revm-inspectors, mended where it differs from geth's.
//!
//! - A contract that destroys itself in favour of itself leaves no entry in the journal from Cancun on, so that the tracer has no
//!   notice of it.
//! - revm counts refunds per frame; geth's counter is the transaction's. A frame that clears what an outer one has set counts below
//!   zero, which the tracer takes for a large number.

use ::phalanx::revm::{
    bytecode::opcode::SELFDESTRUCT,
    context_interface::{ContextTr, JournalTr as _},
    handler::FrameResult,
    inspector::{Inspector, JournalExt},
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, FrameInput, InstructionResult, Interpreter,
        interpreter_types::{InputsTr as _, Jumps as _},
    },
    primitives::{Address, Log, U256},
};

/// A tracer with what it needs besides.
#[derive(Clone, Debug)]
pub(super) struct GethTracer<I> {
    tracer: I,
    /// Contract, receiver and balance of the SELFDESTRUCT that runs, until the tracer has notice of it.
    leaving: Option<(Address, Address, U256)>,
    /// Refunds of the frames around the running one, and of this one so far.
    around: Vec<(i64, i64)>,
    base: i64,
    own: i64,
    /// Refund counter before each instruction of the first ones.
    refunds: Vec<u64>,
    /// Number of these instructions at most.
    steps: usize,
}

impl<I> GethTracer<I> {
    /// Mends a tracer whose trace holds at most so many instructions.
    pub(super) const fn new(tracer: I, steps: usize) -> Self {
        Self { tracer, leaving: None, around: Vec::new(), base: 0, own: 0, refunds: Vec::new(), steps }
    }

    /// The tracer, and the refund counter before each instruction that its trace holds.
    pub(super) fn end(self) -> (I, Vec<u64>) {
        (self.tracer, self.refunds)
    }

    fn enter(&mut self) {
        self.around.push((self.base, self.own));
        (self.base, self.own) = (self.base + self.own, 0);
    }

    fn leave<C>(&mut self, result: InstructionResult)
    where
        I: Inspector<C>,
    {
        (self.base, self.own) = self.around.pop().unwrap_or_default();
        if let Some((contract, receiver, balance)) = self.leaving.take()
            && result == InstructionResult::SelfDestruct
        {
            self.tracer.selfdestruct(contract, receiver, balance);
        }
    }
}

impl<C, I> Inspector<C> for GethTracer<I>
where
    C: ContextTr<Journal: JournalExt>,
    I: Inspector<C>,
{
    fn initialize_interp(&mut self, interp: &mut Interpreter, context: &mut C) {
        self.tracer.initialize_interp(interp, context);
    }

    fn step(&mut self, interp: &mut Interpreter, context: &mut C) {
        self.own = interp.gas.refunded();
        if self.refunds.len() < self.steps {
            // Below zero for the frame, never for the transaction.
            self.refunds.push(u64::try_from(self.base + self.own).unwrap_or_default());
        }
        if interp.bytecode.opcode() == SELFDESTRUCT
            && let Some(receiver) = interp.stack.data().last()
        {
            let contract = interp.input.target_address();
            let account = context.journal_ref().evm_state().get(&contract);
            let balance = account.map(|account| account.info.balance).unwrap_or_default();
            self.leaving = Some((contract, Address::from_word((*receiver).into()), balance));
        }
        self.tracer.step(interp, context);
    }

    fn step_end(&mut self, interp: &mut Interpreter, context: &mut C) {
        self.tracer.step_end(interp, context);
    }

    fn log(&mut self, context: &mut C, log: Log) {
        self.tracer.log(context, log);
    }

    fn log_full(&mut self, interp: &mut Interpreter, context: &mut C, log: Log) {
        self.tracer.log_full(interp, context, log);
    }

    fn frame_start(&mut self, context: &mut C, input: &mut FrameInput) -> Option<FrameResult> {
        self.tracer.frame_start(context, input)
    }

    fn frame_end(&mut self, context: &mut C, input: &FrameInput, result: &mut FrameResult) {
        self.tracer.frame_end(context, input, result);
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.enter();
        self.tracer.call(context, inputs)
    }

    fn call_end(&mut self, context: &mut C, inputs: &CallInputs, outcome: &mut CallOutcome) {
        self.leave::<C>(*outcome.instruction_result());
        self.tracer.call_end(context, inputs, outcome);
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.enter();
        self.tracer.create(context, inputs)
    }

    fn create_end(&mut self, context: &mut C, inputs: &CreateInputs, outcome: &mut CreateOutcome) {
        self.leave::<C>(*outcome.instruction_result());
        self.tracer.create_end(context, inputs, outcome);
    }

    fn selfdestruct(&mut self, contract: Address, receiver: Address, balance: U256) {
        self.leaving = None;
        self.tracer.selfdestruct(contract, receiver, balance);
    }
}
