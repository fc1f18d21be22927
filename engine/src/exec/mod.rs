//! Executes blocks: from a planned order to outcomes and a state.
//!
//! ```text
//! dispatch ─► session ─► dag ─► worker ─► view ─► cells       predicted, in waves
//!    │           └─────► serial, settle                       escapes, and the serial tail
//!    ├─► stm                                                  a given order, nothing predicted
//!    └─► list                                                 on the values of a block access list
//! ```
//!
//! An executor never calls upward: a wave is returned to the session, a session hands over to the dispatch.

pub(crate) mod dispatch;
pub(crate) mod session;
pub(crate) mod stm;
pub(crate) mod dag;
pub(crate) mod list;
pub(crate) mod trace;
pub(crate) mod serial;
pub(crate) mod fast_path;
pub(crate) mod context;
pub(crate) mod run;
pub(crate) mod policy;
pub(crate) mod overlay;
pub(crate) mod cells;
pub(crate) mod outcomes;
pub(crate) mod block_gas;
pub(crate) mod journal;
