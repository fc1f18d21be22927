//! The permutation plane by plane, for registers that do not hold 25 words.
//!
//! A round reads one array and writes another, plane by plane, and sums the columns that it writes. A plane, the columns' sums and
//! theta's are fifteen registers. With sixteen registers a seventh faster than the compiler's spills.

/// Defines `rounds`, which permutes all states, for one instruction set. Its module has `Words`, `xor`, `xor_rol` (a sum, rotated),
/// `xor_twice` (theta's sum of two columns), `chi` and `splat`.
macro_rules! permutation {
    ($features:literal, $vector:ty) => {
        #[target_feature(enable = $features)]
        fn rounds(a: &mut Words) {
            let mut b = [splat(0); 25];
            let mut columns = [a[0]; 5];
            for (x, column) in columns.iter_mut().enumerate() {
                *column = xor(xor(xor(a[x], a[x + 5]), xor(a[x + 10], a[x + 15])), a[x + 20]);
            }
            // The last round writes to the array of the first.
            const { assert!($crate::keccak::state::ROUNDS.len().is_multiple_of(2)) };
            let (mut from, mut to) = (a, &mut b);
            for constant in $crate::keccak::state::ROUNDS {
                round(from, to, &mut columns, constant);
                core::mem::swap(&mut from, &mut to);
            }
        }

        /// Computes a round. `columns` are the sums over `from`'s columns and become the sums over `to`'s. Called from one
        /// place, so that it is inlined into the loop and the sums stay in registers.
        #[inline]
        #[target_feature(enable = $features)]
        fn round(from: &Words, to: &mut Words, columns: &mut [$vector; 5], constant: u64) {
            // Sums that theta adds to each column.
            let mut added = [columns[0]; 5];
            for (x, added) in added.iter_mut().enumerate() {
                *added = xor_twice(columns[(x + 4) % 5], columns[(x + 1) % 5]);
            }
            // Theta and rho of one word; its place in its plane is pi.
            macro_rules! word {
                ($at:literal) => {
                    xor(from[$at], added[$at % 5])
                };
                ($at:literal, $left:literal, $right:literal) => {
                    xor_rol::<$left, $right>(from[$at], added[$at % 5])
                };
            }
            // Chi of one plane, with iota in the first.
            macro_rules! plane {
                ($y:literal, $row:expr) => {
                    let row = $row;
                    plane!($y, row, 0, 1, 2);
                    plane!($y, row, 1, 2, 3);
                    plane!($y, row, 2, 3, 4);
                    plane!($y, row, 3, 4, 0);
                    plane!($y, row, 4, 0, 1);
                };
                ($y:literal, $row:ident, $x:literal, $x1:literal, $x2:literal) => {
                    let mut word = chi($row[$x], $row[$x1], $row[$x2]);
                    if $x + 5 * $y == 0 {
                        word = xor(word, splat(constant));
                    }
                    to[$x + 5 * $y] = word;
                    columns[$x] = if $y == 0 { word } else { xor(columns[$x], word) };
                };
            }
            plane!(0, [word!(0), word!(6, 44, 20), word!(12, 43, 21), word!(18, 21, 43), word!(24, 14, 50)]);
            plane!(1, [word!(3, 28, 36), word!(9, 20, 44), word!(10, 3, 61), word!(16, 45, 19), word!(22, 61, 3)]);
            plane!(2, [word!(1, 1, 63), word!(7, 6, 58), word!(13, 25, 39), word!(19, 8, 56), word!(20, 18, 46)]);
            plane!(3, [word!(4, 27, 37), word!(5, 36, 28), word!(11, 10, 54), word!(17, 15, 49), word!(23, 56, 8)]);
            plane!(4, [word!(2, 62, 2), word!(8, 55, 9), word!(14, 39, 25), word!(15, 41, 23), word!(21, 2, 62)]);
        }
    };
}
pub(super) use permutation;
