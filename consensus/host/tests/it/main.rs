//! Hosts of every protocol with pipelines and model engines, in virtual time.

mod watched;
mod cluster;
mod faults;
mod pins;
mod latency;
mod silence;
mod epochs;
mod snapshots;
mod script;
mod attacks;
mod handover;
mod forgeries;
mod parts;
mod inner;
mod transfers;
mod logs;
mod ends;
mod counting;
