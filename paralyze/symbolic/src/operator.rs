//! Operators of the EVM on words, by opcode. The only definition outside revm, for code that is traced and not interpreted.

use crate::word::{load, same};
use alloy_primitives::U256;
use revm::{
    bytecode::opcode::*,
    interpreter::instructions::i256::{i256_cmp, i256_div, i256_mod},
};

/// Returns true if `op` is an operator of two words that [`binary`] computes.
pub const fn is_binary(op: u8) -> bool {
    matches!(op, ADD..=SMOD | EXP | SIGNEXTEND | LT..=EQ | AND..=XOR | BYTE..=SAR)
}

/// Computes `op` of `a`, the top of the stack, and `b` below it. [`None`] if it is no binary operator.
///
/// Each operator loads the words itself, limb by limb.
#[inline(always)]
pub fn binary(op: u8, a: &U256, b: &U256) -> Option<U256> {
    Some(match op {
        ADD => load(a).wrapping_add(load(b)),
        MUL => load(a).wrapping_mul(load(b)),
        SUB => load(a).wrapping_sub(load(b)),
        LT => truth(load(a) < load(b)),
        GT => truth(load(a) > load(b)),
        EQ => truth(same(a, b)),
        AND => load(a) & load(b),
        OR => load(a) | load(b),
        XOR => load(a) ^ load(b),
        SHL => load(b) << shift(a),
        SHR => load(b) >> shift(a),
        _ => return rare(op, load(a), load(b)),
    })
}

/// Computes the operators that take so long, or are so rare, that a call does not matter.
#[inline(never)]
fn rare(op: u8, a: U256, b: U256) -> Option<U256> {
    Some(match op {
        DIV => a.checked_div(b).unwrap_or_default(),
        SDIV => i256_div(a, b),
        MOD => a.checked_rem(b).unwrap_or_default(),
        SMOD => i256_mod(a, b),
        EXP => a.wrapping_pow(b),
        SIGNEXTEND if a < U256::from(31) => {
            let bit = a.to::<usize>() * 8 + 7;
            let mask = (U256::ONE << bit) - U256::ONE;
            if b.bit(bit) { b | !mask } else { b & mask }
        }
        SIGNEXTEND => b,
        SLT => truth(i256_cmp(&a, &b).is_lt()),
        SGT => truth(i256_cmp(&a, &b).is_gt()),
        BYTE => {
            let at = shift(&a);
            if at < 32 { U256::from(b.byte(31 - at)) } else { U256::ZERO }
        }
        SAR => b.arithmetic_shr(shift(&a)),
        _ => return None,
    })
}

#[inline]
fn truth(holds: bool) -> U256 {
    U256::from(u8::from(holds))
}

/// Number of bits to shift by, at most 256.
#[inline]
fn shift(word: &U256) -> usize {
    usize::try_from(load(word)).unwrap_or(usize::MAX).min(256)
}

/// Computes `op` of `a`, the top of the stack. [`None`] if it is no unary operator.
#[inline]
pub fn unary(op: u8, a: &U256) -> Option<U256> {
    match op {
        ISZERO => Some(truth(same(a, &U256::ZERO))),
        NOT => Some(!load(a)),
        CLZ => Some(U256::from(load(a).leading_zeros())),
        _ => None,
    }
}

/// Computes `op` of the three words on top of the stack, `a` the uppermost. [`None`] if it is no ternary operator.
#[inline]
pub fn ternary(op: u8, a: U256, b: U256, modulus: U256) -> Option<U256> {
    match op {
        ADDMOD => Some(a.add_mod(b, modulus)),
        MULMOD => Some(a.mul_mod(b, modulus)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_equal_the_evms() {
        let (n, m) = (|v: u64| U256::from(v), U256::MAX);
        for (op, a, b, result) in [
            (SUB, n(1), n(2), m),
            (DIV, n(7), n(0), n(0)),
            (SDIV, m, n(1), m),
            (SMOD, m, n(2), m),
            (EXP, n(2), n(255), U256::ONE << 255),
            (SIGNEXTEND, n(0), n(0xff), m),
            (SIGNEXTEND, n(31), n(0xff), n(0xff)),
            (SLT, m, n(0), n(1)),
            (SGT, m, n(0), n(0)),
            (BYTE, n(31), n(0xab), n(0xab)),
            (BYTE, n(32), m, n(0)),
            (SHL, n(255), n(3), U256::ONE << 255),
            (SHL, n(256), m, n(0)),
            (SHR, n(224), m, n(0xffff_ffff)),
            (SAR, n(300), m, m),
        ] {
            assert_eq!(binary(op, &a, &b), Some(result), "{op:#x} {a} {b}");
            assert!(is_binary(op));
        }
        assert_eq!((unary(NOT, &n(0)), unary(ISZERO, &n(0)), unary(CLZ, &n(1))), (Some(m), Some(n(1)), Some(n(255))));
        assert_eq!((ternary(ADDMOD, m, n(2), n(0)), ternary(ADDMOD, m, n(2), m)), (Some(n(0)), Some(n(2))));
        assert_eq!((ternary(MULMOD, m, m, n(7)), ternary(ADD, m, m, m)), (Some(n(1)), None));
        assert!(binary(ADDMOD, &m, &m).is_none() && !is_binary(ADDMOD) && !is_binary(MULMOD) && !is_binary(ISZERO));
    }
}
