//! Baselines that evaluations compare with. Simulator only: they count certificates without signing them, and log nothing.

mod hotstuff;

pub use hotstuff::{Block, Form, HotStuff, HotStuffConfig, HotStuffMsg, HotStuffTimer};
