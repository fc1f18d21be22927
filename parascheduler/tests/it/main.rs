//! The DAG orders what it must, and whatever runs on it or on Block-STM ends as a loop over the block does.

mod common;
mod exactness;
mod serial_order;
mod stm;
