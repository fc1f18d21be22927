//! The conformance kit on the model engine, the solo driver and the example; journals and logs; rewinds that fail.

#[path = "../../examples/sequencer.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example of its own, with a main function")]
mod sequencer;

mod broken;
mod conformance;
mod journal;
mod killed;
mod rewind;
mod subjects;
mod wal;
