//! Replicas with threads, sockets and log files around the model engine.

mod kit;
mod protocols;
mod embedder;
mod faults;
mod junk;
mod refusals;
