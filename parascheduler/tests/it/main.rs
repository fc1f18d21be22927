//! The DAG is exact, and runs on it and on Block-STM end as a loop over the block does.

mod common;
mod exactness;
#[cfg(feature = "eip7928")]
mod listed;
mod serial_order;
mod stm;
