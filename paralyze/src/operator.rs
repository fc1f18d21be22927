//! What the EVM's operators make of words, by opcode: the one place outside revm that says so, for those who follow code
//! without running it.

use alloy_primitives::U256;
use revm::{
    bytecode::opcode::*,
    interpreter::instructions::i256::{i256_cmp, i256_div, i256_mod},
};

/// Whether `op` is a function of its two operands that [`binary`] computes.
pub const fn is_binary(op: u8) -> bool {
    matches!(op, ADD..=SMOD | EXP | SIGNEXTEND | LT..=EQ | AND..=XOR | BYTE..=SAR)
}

/// What `op` makes of the top of the stack, `a`, and what lies below, `b`; `None` if it is no such operator.
#[inline]
pub fn binary(op: u8, a: U256, b: U256) -> Option<U256> {
    let truth = |holds: bool| U256::from(u8::from(holds));
    let shift = |a: U256| usize::try_from(a).unwrap_or(usize::MAX).min(256);
    Some(match op {
        ADD => a.wrapping_add(b),
        MUL => a.wrapping_mul(b),
        SUB => a.wrapping_sub(b),
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
        LT => truth(a < b),
        GT => truth(a > b),
        SLT => truth(i256_cmp(&a, &b).is_lt()),
        SGT => truth(i256_cmp(&a, &b).is_gt()),
        EQ => truth(a == b),
        AND => a & b,
        OR => a | b,
        XOR => a ^ b,
        BYTE => {
            let at = shift(a);
            if at < 32 { U256::from(b.byte(31 - at)) } else { U256::ZERO }
        }
        SHL => b << shift(a),
        SHR => b >> shift(a),
        SAR => b.arithmetic_shr(shift(a)),
        _ => return None,
    })
}

/// What `op` makes of the top of the stack; `None` if it is no such operator.
#[inline]
pub fn unary(op: u8, a: U256) -> Option<U256> {
    match op {
        ISZERO => Some(U256::from(u8::from(a.is_zero()))),
        NOT => Some(!a),
        CLZ => Some(U256::from(a.leading_zeros())),
        _ => None,
    }
}

/// What `op` makes of the three words on top of the stack, `a` the uppermost.
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
    fn operators_do_what_the_evm_does() {
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
            assert_eq!(binary(op, a, b), Some(result), "{op:#x} {a} {b}");
            assert!(is_binary(op));
        }
        assert_eq!((unary(NOT, n(0)), unary(ISZERO, n(0)), unary(CLZ, n(1))), (Some(m), Some(n(1)), Some(n(255))));
        assert_eq!((ternary(ADDMOD, m, n(2), n(0)), ternary(ADDMOD, m, n(2), m)), (Some(n(0)), Some(n(2))));
        assert_eq!((ternary(MULMOD, m, m, n(7)), ternary(ADD, m, m, m)), (Some(n(1)), None));
        assert!(binary(ADDMOD, m, m).is_none() && !is_binary(ADDMOD) && !is_binary(MULMOD) && !is_binary(ISZERO));
    }
}
