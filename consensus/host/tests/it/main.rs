//! Hosts of PBFT with pipelines and model engines, in virtual time.

mod cluster;
mod faults;
mod latency;
mod attacks;
