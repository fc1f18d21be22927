//! Names of subscriptions and filters: random, as hexadecimal strings, which libraries expect.

/// A name that no other has, most likely.
pub(super) fn random() -> String {
    let mut bytes = [0; 16];
    // Without randomness of the system the name is a constant, and a second one replaces the first.
    let _ = getrandom::fill(&mut bytes);
    format!("{:#x}", u128::from_be_bytes(bytes))
}
