//! Claims of pages in virtual time.

use phalanx_lab::report::Claim;

/// Claim of a page whose figures are computed, not measured.
pub(super) fn virtual_time(what: &str) -> Claim {
    let sure = "Virtual time: the same command of the same version gives the same figures on every machine. Squares are the \
                paper's own numbers.";
    Claim { what: what.to_owned(), sure: sure.to_owned() }
}
