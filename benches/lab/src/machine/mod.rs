//! The machine: clocks, cores, memory, and the description that a result carries.

pub mod pin;
pub mod clock;
pub mod memory;
pub mod disk_reads;
pub mod temporary;
pub mod host;
