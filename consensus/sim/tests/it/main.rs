//! What simulated worlds show of protocol, pipeline and model engine.

mod safety;
mod zaptos;
