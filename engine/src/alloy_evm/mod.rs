//! Traits of alloy-evm on this engine: a block that it has executed as a `BlockExecutor`, and EVMs of an `EvmFactory`.

mod factory;
mod known_block;

pub use factory::FactoryEvm;
pub use known_block::{KnownBlock, KnownBlockError};

/// The crate whose traits these are, of the version that the engine is built with.
pub use ::alloy_evm as traits;
