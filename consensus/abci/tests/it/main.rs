//! The application over a model engine: every order of calls, every death between two of them, votes, and the wire.

mod joining;
mod kit;
mod deaths;
mod order;
mod votes;
mod trouble;
mod wire;
