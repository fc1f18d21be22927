//! Simulated worlds test the protocol, the pipeline and the model engine.

mod autobahn;
mod load;
mod sbft;
mod model;
mod safety;
mod zaptos;
