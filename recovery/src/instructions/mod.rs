//! The kernel per instruction set, chosen at run time.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod ifma;

use crate::{
    generator::Generator,
    group::{Group, Keys},
};

/// Instructions that recover a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Instructions {
    /// libsecp256k1, one signature at a time.
    None,
    /// Four lanes with AVX2 and FMA.
    Avx2,
    /// Eight lanes with AVX-512 IFMA.
    Avx512Ifma,
}

/// Arithmetic of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) lanes: usize,
    pub(crate) recover: fn(&[Group], &Generator, &mut [Keys]),
}

impl Instructions {
    /// The fastest that this processor has.
    pub fn detected() -> Self {
        [Self::Avx512Ifma, Self::Avx2].into_iter().find(|set| set.kernel().is_some()).unwrap_or(Self::None)
    }

    /// True if this processor has the instructions.
    pub fn is_available(self) -> bool {
        self == Self::None || self.kernel().is_some()
    }

    pub(crate) fn kernel(self) -> Option<Kernel> {
        #[cfg(target_arch = "x86_64")]
        {
            use crate::lanes;
            match self {
                Self::Avx512Ifma if lanes::ifma::available() => {
                    return Some(Kernel { lanes: 8, recover: ifma::recover });
                }
                Self::Avx2 if lanes::avx2::available() => return Some(Kernel { lanes: 4, recover: avx2::recover }),
                _ => {}
            }
        }
        None
    }
}
