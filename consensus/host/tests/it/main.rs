//! Hosts of every protocol with pipelines and model engines, in virtual time.

mod watched;
mod cluster;
mod faults;
mod latency;
mod silence;
mod script;
mod attacks;
mod handover;
mod forgeries;
