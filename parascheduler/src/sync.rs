//! Primitives of the protocols: std's, or loom's in the test that model-checks them.
//!
//! Only `tests/loom` sees loom; it compiles the protocol files into itself. In the loom build too the library is built on std,
//! so every other target still works there.

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
