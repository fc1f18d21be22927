//! Routes the effects that address the engine to its methods.

use crate::event::Effect;
use phalanx_engine_api::{EngineEvent, ExecId, ExecutionEngine, Failure, Operation, Ticket};

/// Result of [`call`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// The engine accepted the request.
    Accepted,
    /// The engine refused. Hand this event to [`crate::Pipeline::on_engine`].
    Refused(EngineEvent),
    /// The effect does not address the engine.
    NotForEngine(Effect),
}

/// Calls the engine if the effect addresses it.
pub fn call<E: ExecutionEngine + ?Sized>(engine: &E, effect: Effect) -> Called {
    let answer = |ticket: Ticket, id: ExecId, operation: Operation, result: Result<(), Failure>| match result {
        Ok(()) => Called::Accepted,
        Err(why) => Called::Refused(EngineEvent::Failed { ticket, id, operation, why }),
    };
    match effect {
        Effect::Submit(ticket, candidate, priority) => {
            let id = candidate.id();
            answer(ticket, id, Operation::Submit, engine.submit(ticket, candidate, priority))
        }
        Effect::Stage(ticket, id) => answer(ticket, id, Operation::Stage, engine.stage(ticket, id)),
        Effect::Commit(ticket, id, meta) => answer(ticket, id, Operation::Commit, engine.commit(ticket, id, meta)),
        Effect::KeepOnly(ticket, leaves) => {
            answer(ticket, ExecId::GENESIS, Operation::KeepOnly, engine.keep_only(ticket, &leaves))
        }
        Effect::Finalise(ticket, height) => {
            answer(ticket, ExecId::GENESIS, Operation::Finalise, engine.finalise(ticket, height))
        }
        Effect::Quiesce(ticket) => {
            engine.quiesce(ticket);
            Called::Accepted
        }
        Effect::Resume => {
            engine.resume();
            Called::Accepted
        }
        other => Called::NotForEngine(other),
    }
}
