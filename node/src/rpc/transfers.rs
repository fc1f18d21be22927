//! Logs of a call, with its transfers of ether among them as logs of a token: `traceTransfers` of `eth_simulateV1`.

use ::phalanx::revm::{
    context_interface::{ContextTr, JournalTr as _},
    inspector::Inspector,
    interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome},
};
use alloy_primitives::{Address, B256, Log, LogData, U256};
use alloy_sol_types::SolValue as _;
use revm_inspectors::transfer::{TRANSFER_EVENT_TOPIC, TRANSFER_LOG_EMITTER};

/// Collects logs and transfers, frame by frame: those of a frame that fails are lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Transfers {
    /// Logs of the frames that run, the outermost first.
    frames: Vec<Vec<Log>>,
    /// Logs of the call once it has succeeded.
    logs: Vec<Log>,
}

impl Transfers {
    pub(super) fn into_logs(self) -> Vec<Log> {
        self.logs
    }

    fn put(&mut self, log: Log) {
        if let Some(frame) = self.frames.last_mut() {
            frame.push(log);
        }
    }

    fn transfer(&mut self, from: Address, to: Address, value: U256) {
        if !value.is_zero() {
            let topics = vec![TRANSFER_EVENT_TOPIC, from.into_word(), to.into_word()];
            let data = LogData::new_unchecked(topics, B256::from(value).abi_encode().into());
            self.put(Log { address: TRANSFER_LOG_EMITTER, data });
        }
    }

    fn leave(&mut self, is_ok: bool) {
        let Some(logs) = self.frames.pop().filter(|_| is_ok) else { return };
        self.frames.last_mut().unwrap_or(&mut self.logs).extend(logs);
    }
}

impl<C: ContextTr> Inspector<C> for Transfers {
    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.frames.push(Vec::new());
        if let Some(value) = inputs.transfer_value() {
            self.transfer(inputs.transfer_from(), inputs.transfer_to(), value);
        }
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.leave(outcome.instruction_result().is_ok());
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.frames.push(Vec::new());
        if let Ok(creator) = context.journal_mut().load_account(inputs.caller()) {
            let to = inputs.created_address(creator.data.info.nonce);
            self.transfer(inputs.caller(), to, inputs.value());
        }
        None
    }

    fn create_end(&mut self, _: &mut C, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.leave(outcome.instruction_result().is_ok());
    }

    fn log(&mut self, _: &mut C, log: Log) {
        self.put(log);
    }

    fn selfdestruct(&mut self, contract: Address, receiver: Address, value: U256) {
        self.transfer(contract, receiver, value);
    }
}
