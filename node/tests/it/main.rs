//! The node as a whole: its block store under damage, its answers against stock revm and alloy, hostile clients, kills.

mod kit;
mod store;
mod answers;
mod headers;
mod tracing;
mod explorers;
mod simulating;
mod following;
mod hostile;
mod edge;
mod ingress;
mod meter;
mod deploy;
mod details;
mod development;
mod kills;
mod ordered;
mod proofs;
mod engine_api;
mod replicas;
mod joining;
mod follow;
mod long;
mod vectors;
