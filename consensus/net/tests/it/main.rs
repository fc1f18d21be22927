//! Replicas with threads, sockets and log files around the model engine.

mod kit;
mod protocols;
mod faults;
mod junk;
mod refusals;
