//! Instruction sets and their kernels, found out at run time.

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
    /// Two lanes with the vector instructions of 64-bit Arm. [`Instructions::detected`] never returns it: with two lanes a
    /// processor needs four vector units to be faster than libsecp256k1, and no system says how many there are.
    Neon,
}

/// Arithmetic of one instruction set.
///
/// # Invariants
/// The processor has the instructions of `entry`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) lanes: usize,
    /// Signatures for which lanes pay: fewer take longer in one group, of which the other lanes are idle, than alone.
    pub(crate) least: usize,
    entry: unsafe fn(&[Group], &Generator, &mut [Keys]),
}

impl Kernel {
    /// Recovers the keys of at most [`GROUPS`](crate::kernel::GROUPS) groups, `keys` having as many.
    pub(crate) fn recover(&self, groups: &[Group], generator: &Generator, keys: &mut [Keys]) {
        #[expect(unsafe_code, reason = "the features were detected")]
        // SAFETY: by the invariant of `Kernel` the processor has the features.
        unsafe {
            (self.entry)(groups, generator, keys);
        }
    }

    /// The kernel in plain integers, on any processor.
    #[cfg(test)]
    pub(crate) fn model() -> Self {
        Self { lanes: crate::lanes::MOST, least: 2, entry: super::model::recover }
    }
}

impl Instructions {
    /// The fastest that this processor is known to have.
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
                    return Some(Kernel { lanes: 8, least: 2, entry: super::ifma::recover });
                }
                Self::Avx2 if lanes::avx2::available() => {
                    return Some(Kernel { lanes: 4, least: 3, entry: super::avx2::recover });
                }
                _ => {}
            }
        }
        #[cfg(target_arch = "aarch64")]
        if self == Self::Neon {
            return Some(Kernel { lanes: 2, least: 2, entry: super::neon::recover });
        }
        None
    }
}
