//! The inspector that follows a transaction through revm, frame by frame.
//!
//! | hook | effect |
//! |---|---|
//! | `call`, `create` | notes that a frame may open, what it gets as calldata, and which code delegates |
//! | `initialize_interp` | opens a shadow frame; that of a creation follows nothing |
//! | `step` | follows one instruction on the shadow stack and memory, before revm runs it |
//! | `step_end` | in an exact recording: notes results that only the interpreter knows, as gas, sizes and stores |
//! | `call_end` | closes the frame, and keeps it if formulas explain its end |
//! | `create_end` | drops the frame |

use crate::{
    expr::Region,
    frame::{Frame, Pending},
    memory::Stop,
    mode::Mode,
    recording::{Event, Recording},
};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY};
use revm::{
    context_interface::{ContextTr, JournalTr as _},
    inspector::{Inspector, JournalExt},
    interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter},
};

/// Frames of one transaction that are followed, one by one, and in an exact recording.
const MAX_FRAMES: usize = 256;
const MAX_OPEN: usize = 16;

/// A frame that was followed to its end.
#[derive(Debug)]
pub struct Recorded {
    /// Hash of the code that ran.
    pub code: B256,
    /// First four bytes of calldata.
    pub selector: Option<[u8; 4]>,
    /// Result of the frame.
    pub result: InstructionResult,
    /// Return data.
    pub output: Region,
    /// Gas since the last event that names gas, in an exact recording.
    pub gas: u64,
    /// Formulas and events.
    pub recording: Recording,
}

/// Follows one transaction.
#[derive(Debug, Default)]
pub struct Recorder {
    mode: Mode,
    frames: Vec<(B256, Option<[u8; 4]>, Frame)>,
    /// Calls and creations that have not ended: true if a frame was made for them.
    open: Vec<bool>,
    done: Vec<Recorded>,
    delegations: Vec<(B256, Address)>,
    /// True while the code that is about to run is being created.
    creates: bool,
}

impl Recorder {
    /// A recorder of the next transaction.
    pub fn new(mode: Mode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Returns the frames that ended in a way that formulas can explain, inner frames first. An exact recording is one frame,
    /// or none. Also returns the codes that delegate (EIP-7702), and their targets.
    pub fn finish(self) -> (Vec<Recorded>, Vec<(B256, Address)>) {
        (self.done, self.delegations)
    }

    /// Follows with the innermost frame, which is dropped if it cannot.
    fn follow(&mut self, work: impl FnOnce(&mut Frame) -> Result<(), Stop>) {
        if let Some((.., frame)) = self.frames.last_mut().filter(|(.., frame)| !frame.dropped) {
            frame.dropped = work(frame).is_err();
        }
    }

    /// A frame whose code begins to run.
    fn enter(&mut self, interp: &Interpreter) -> Frame {
        let (mode, target, depth) = (self.mode, interp.input.target_address, self.frames.len());
        let caller = self.frames.last_mut().filter(|_| mode != Mode::Frames).map(|(.., frame)| frame);
        let Some(caller) = caller else {
            let mut frame = Frame::new(mode, Recording::new(mode), target);
            frame.dropped = self.creates || depth + self.done.len() >= MAX_FRAMES;
            if mode != Mode::Frames {
                frame.last = interp.gas.remaining();
                frame.dropped |= frame.begin().is_err();
            }
            return frame;
        };
        let mut frame = Frame::new(mode, core::mem::take(&mut caller.recording), target);
        frame.last = interp.gas.remaining();
        let accounts = &frame.recording.accounts;
        match (caller.pending.take(), caller.around) {
            (Some(Pending { delegates, to, input, .. }), Some([address, by])) if depth < MAX_OPEN => {
                frame.input = Some(input);
                let callee = accounts.iter().position(|(_, address)| *address == to.1);
                let around = if delegates { [address, by] } else { [to.0, address] };
                // There are fewer than 2^16 accounts.
                frame.account = if delegates { caller.account } else { callee.unwrap_or_default() as u16 };
                frame.around = Some(around);
                frame.dropped = caller.dropped || callee.is_none();
            }
            _ => frame.dropped = true,
        }
        frame
    }

    fn ended(&mut self, outcome: &CallOutcome) {
        let followed = self.open.pop().unwrap_or_default();
        let ended = if followed { self.frames.pop() } else { None };
        let (result, len) = (*outcome.instruction_result(), outcome.output().len());
        let mut output = Region::default();
        // How far a frame gets with too little gas is not a property of the code.
        let mut explained =
            result.is_ok() || matches!(result, InstructionResult::Revert | InstructionResult::InvalidFEOpcode);
        if let Mode::Exact { .. } = self.mode {
            let reverts = result == InstructionResult::Revert && self.frames.is_empty();
            explained = reverts || matches!(result, InstructionResult::Stop | InstructionResult::Return);
        }
        if let Some((code, selector, mut frame)) = ended {
            let gas = match self.mode {
                Mode::Frames => Ok(0),
                Mode::Exact { .. } => frame.ends(outcome.gas().remaining(), len, self.frames.is_empty()),
            };
            frame.dropped |= !explained || gas.is_err();
            let gas = gas.unwrap_or_default();
            match self.frames.last_mut().filter(|_| self.mode != Mode::Frames) {
                Some((.., caller)) => {
                    caller.recording = frame.recording;
                    caller.recording.events.push(Event::Leave { gas });
                    caller.dropped |= frame.dropped;
                    output = frame.output;
                    match caller.last.checked_add(outcome.gas().remaining()) {
                        Some(last) => caller.last = last,
                        None => caller.dropped = true,
                    }
                }
                None if !frame.dropped => {
                    let Frame { output, recording, .. } = frame;
                    self.done.push(Recorded { code, selector, result, output, gas, recording });
                }
                None => {}
            }
        } else if let (Mode::Exact { .. }, Some((.., caller))) = (self.mode, self.frames.last_mut()) {
            // A call that runs no code.
            caller.dropped = true;
        }
        self.follow(|caller| caller.call_ended(output, followed, len));
    }
}

impl<C: ContextTr<Journal: JournalExt>> Inspector<C> for Recorder {
    fn initialize_interp(&mut self, interp: &mut Interpreter, _: &mut C) {
        let code = interp.bytecode.get_or_calculate_hash();
        let input = &interp.input.input;
        // An empty input may point nowhere.
        let selector =
            if input.is_empty() { None } else { input.as_bytes_memory(&interp.memory).first_chunk::<4>().copied() };
        let frame = self.enter(interp);
        self.frames.push((code, selector, frame));
        if let Some(open) = self.open.last_mut() {
            *open = true;
        }
    }

    fn step(&mut self, interp: &mut Interpreter, _: &mut C) {
        self.follow(|frame| frame.step(interp));
    }

    fn step_end(&mut self, interp: &mut Interpreter, context: &mut C) {
        if self.mode != Mode::Frames {
            self.follow(|frame| frame.stepped(interp, context));
        }
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.open.push(false);
        self.creates = false;
        if self.mode != Mode::Frames {
            self.follow(|frame| frame.called(context, inputs));
        } else if let Some(account) = context.journal().evm_state().get(&inputs.bytecode_address)
            && let Some(to) = account.info.code.as_ref().and_then(|code| code.eip7702_address())
            && account.info.code_hash != KECCAK256_EMPTY
            && self.delegations.len() < MAX_FRAMES
        {
            self.delegations.push((account.info.code_hash, to));
        }
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.ended(outcome);
    }

    fn create(&mut self, _: &mut C, _: &mut CreateInputs) -> Option<CreateOutcome> {
        self.open.push(false);
        self.creates = true;
        None
    }

    fn create_end(&mut self, _: &mut C, _: &CreateInputs, _: &mut CreateOutcome) {
        if self.open.pop().unwrap_or_default() {
            self.frames.pop();
        }
    }
}
