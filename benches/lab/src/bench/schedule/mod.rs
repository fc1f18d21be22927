//! `bench schedule`: framing and DAG alone, without execution (FAFO's ablation, §3.3).

mod figure;
mod kernels;
mod given;
mod load;
mod sets;

pub use figure::run as figure;
pub use kernels::{ScheduleConfig, run};

use crate::written::Named;

/// Schemas of what is written.
pub(super) fn schemas() -> [Named; 2] {
    [kernels::schema(), figure::schema()]
}
