//! What simulated worlds show of protocol, pipeline and model engine.

mod exhaustive;
mod model;
mod safety;
mod zaptos;
