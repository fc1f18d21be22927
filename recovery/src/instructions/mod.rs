//! The kernel per instruction set, chosen at run time.

mod set;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(test)]
mod model;
#[cfg(target_arch = "aarch64")]
mod neon;

pub use set::Instructions;
pub(crate) use set::Kernel;
