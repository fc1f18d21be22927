//! A contract whose operations are places in its code: calldata is two words, and then the place to jump to.

use revm::primitives::{Address, Bytes, U256, hex};

/// Operations of the contract. *a* and *b* are the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Slot a becomes b.
    Set,
    /// Slot a grows by b.
    Add,
    /// Slot b becomes slot a.
    Copy,
    /// Slot a is read.
    Read,
    /// Slot a becomes b, and then what it was.
    Back,
    /// Slot a becomes b, and all is reverted.
    Revert,
    /// a wei go to the account b.
    Pay,
    /// Slot a becomes the balance of account b.
    Balance,
    /// Slot a becomes the hash of account b's code.
    CodeHash,
    /// A contract at salt a is created of the code that follows, with what the call brought.
    Create,
    /// All wei go to account b, by SELFDESTRUCT.
    Leave,
}

const OPS: [(Op, &str); 11] = [
    (Op::Set, "6020356000355500"),
    (Op::Add, "602035600035540160003555 00"),
    (Op::Copy, "600035546020355500"),
    (Op::Read, "600035545000"),
    (Op::Back, "60003554 60203560003555 60003555 00"),
    (Op::Revert, "60203560003555 60006000fd"),
    (Op::Pay, "6000600060006000 600035 602035 5af1 5000"),
    (Op::Balance, "602035 31 600035 55 00"),
    (Op::CodeHash, "602035 3f 600035 55 00"),
    (Op::Create, "6060360360606000 37 600035 60603603 6000 34 f5 5000"),
    (Op::Leave, "602035ff"),
];

/// Codes of contracts to create: a living one that stores its value when called, destroyed ones that leave all to their
/// creator or to themselves, and a failing one.
pub(super) const INIT: [&str; 4] =
    ["60016000 55 64 3460005500 600052 6005601bf3", "6001600055 600054 33ff", "6007600155 30ff", "6001600055 fe"];

pub(super) fn bytes(text: &str) -> Vec<u8> {
    hex::decode(text.replace(' ', "")).expect("hexadecimal digits")
}

/// The contract's code.
pub(super) fn code() -> Bytes {
    let mut code = bytes("60403556");
    for (_, body) in OPS {
        code.push(0x5b);
        code.extend(bytes(body));
    }
    code.into()
}

/// Calldata of an operation.
pub(super) fn call(op: Op, a: U256, b: U256, rest: &[u8]) -> Bytes {
    let before = OPS.iter().take_while(|(other, _)| *other != op);
    let place = 4 + before.map(|(_, body)| 1 + bytes(body).len()).sum::<usize>();
    let words = [a, b, U256::from(place)].map(|word| word.to_be_bytes::<32>());
    [words.concat(), rest.to_vec()].concat().into()
}

pub(super) fn word(address: Address) -> U256 {
    address.into_word().into()
}
