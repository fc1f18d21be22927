//! Replicas with threads, sockets and log files around the model engine.

mod kit;
mod proxy;
mod joining;
mod epochs;
mod protocols;
mod embedder;
mod faults;
mod junk;
mod refusals;
