//! Symbolic recordings: an execution is followed once, and what it computed is kept as formulas.
//!
//! ```text
//! revm, one transaction     each word and byte: a formula     formulas and events
//! recorder.rs ─► frame.rs ─► expr.rs, memory.rs ────────────► recording.rs ─► Mode::Frames ─► templates (ParaLyze)
//!                                                                          └► Mode::Exact  ─► traces (the engine)
//!                                     both compute formulas in straight-line programs: program.rs, registers.rs
//! ```
//!
//! A value that depends on no input is the same in every execution of a path, and needs no formula. So stack, memory and jumps are gone
//! from what is left: formulas, conditions that they decide (guards), and what is touched, called, stored and emitted.
//!
//! Templates and traces share the shadow stack and memory, the formulas, what each instruction makes of them, and the programs.
//! They differ, each for a reason, in what a recording must be good for ([`Mode`]):
//!
//! | | templates: `Frames` | traces: `Exact` | because |
//! |---|---|---|---|
//! | unit | each frame, over its own inputs | a transaction with all its calls | a template is composed with whatever is called later; a trace is replayed as it is |
//! | no formula | unknown, kept | the recording is given up | a prediction may lack what decides no key; a replay must be right |
//! | lengths, offsets of calldata, exponents | values | expected | gas depends on them |
//! | stores, logs, gas, results | not kept | kept | only a replay has effects |
//! | two slots or accounts that are one | told apart by formula | expected to be one, or two | a key that comes twice does no harm; a load that misses a store does |
//! | code that is called | looked up at prediction | expected | as the unit |
//! | operators of three words | unknown | formulas | no key was seen to need them |
//! | commuted and masked words | as they are | one form | a replay computes each formula that it has |
//! | limits | nodes, nesting, bytes of constants | instructions, slots, accounts, bytes of patterns | formulas are evaluated by recursion; programs run in order |
//!
//! Nothing else differs.

mod recorder;

mod frame;

mod recording;

mod mode;

mod memory;

mod program;

mod expr;

mod registers;

pub mod operator;

mod word;

pub use expr::{Bounds, Env, Node, Nodes, Piece, Ref, Region, append, heap, parts, region_len, zeros};
pub use mode::Mode;
pub use program::{Inputs, Op, Scope};
pub use recorder::{Recorded, Recorder};
pub use recording::{Call, CallKind, Event, Log, Recording, Slot};
pub use registers::{Register, Registers};
