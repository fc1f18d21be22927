//! Replicas with threads, sockets and log files around the model engine.

mod kit;
mod faults;
mod junk;
mod refusals;
