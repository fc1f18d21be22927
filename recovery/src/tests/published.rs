//! Project Wycheproof's signatures: they verify keys, so a valid one must recover to its key by some recovery id.

use super::*;

fn hex<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    alloy_primitives::hex::decode_to_array(text).expect("as many bytes")
}

#[test]
fn wycheproof() {
    let (mut signer, mut valid, mut invalid) = (Address::ZERO, 0, 0);
    let mut batch = Vec::new();
    let mut expected = Vec::new();
    for line in include_str!("../../fixtures/wycheproof.txt").lines().filter(|line| !line.starts_with('#')) {
        if let Some(key) = line.strip_prefix("key ") {
            signer = Address::from_raw_public_key(&hex::<64>(key));
            continue;
        }
        let mut fields = line.split(' ');
        let mut field = || fields.next().expect("three fields");
        let (verdict, digest, numbers) = (field(), B256::from(hex(field())), hex::<64>(field()));
        let is_valid = verdict == "valid";
        expected.push((signer, is_valid));
        *if is_valid { &mut valid } else { &mut invalid } += 1;
        for id in 0..4 {
            let mut signature = [id; 65];
            signature[..64].copy_from_slice(&numbers);
            batch.push((digest, signature));
        }
    }
    assert_eq!((valid, invalid), (395, 123));
    compare(&batch);
    for (set, kernel) in kernels() {
        let verdicts = recover_with(&kernel, &batch);
        for ((signer, is_valid), ids) in expected.iter().zip(verdicts.as_chunks::<4>().0) {
            assert_eq!(ids.contains(&Ok(*signer)), *is_valid, "{set}, {signer}");
        }
    }
}
