//! The primitives under the protocols: std's, or loom's in the test that model-checks them.
//!
//! Only `tests/loom` sees loom, which compiles the protocol files into itself; the library is built on std even in
//! the loom build, so every other target keeps working there.

#[cfg(all(loom, test))]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
