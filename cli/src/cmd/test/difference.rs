use phalanx_workloads::fixtures::Alloc;
use std::collections::BTreeSet;

/// The first way in which two states differ, in words; `None` if they are equal.
pub(crate) fn first_difference(ours: &Alloc, expected: &Alloc) -> Option<String> {
    let addresses: BTreeSet<_> = ours.keys().chain(expected.keys()).collect();
    for address in addresses {
        let (our, expected) = match (ours.get(address), expected.get(address)) {
            (Some(our), Some(expected)) => (our, expected),
            (Some(_), None) => return Some(format!("account {address} exists, and must not")),
            _ => return Some(format!("account {address} does not exist, and must")),
        };
        if our.balance != expected.balance {
            return Some(format!("balance of {address} is {}, expected {}", our.balance, expected.balance));
        }
        if our.nonce != expected.nonce {
            return Some(format!("nonce of {address} is {}, expected {}", our.nonce, expected.nonce));
        }
        if our.code != expected.code {
            return Some(format!("code of {address} is another one"));
        }
        let slots: BTreeSet<_> = our.storage.keys().chain(expected.storage.keys()).collect();
        for slot in slots {
            let value = |alloc: &std::collections::BTreeMap<_, _>| alloc.get(slot).copied().unwrap_or_default();
            let (our, expected) = (value(&our.storage), value(&expected.storage));
            if our != expected {
                return Some(format!("slot {slot:#x} of {address} is {our:#x}, expected {expected:#x}"));
            }
        }
    }
    None
}
