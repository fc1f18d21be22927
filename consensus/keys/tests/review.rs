//! Faults found in review.
use phalanx_bft::Index;
use phalanx_keys::{Channel, KeyFile, deal};

#[test]
fn a_channel_key_of_zero_is_refused() {
    let files = deal(4, &[3; 32]).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&files[1].to_json()).unwrap();
    for at in [0, 2, 3] {
        json["channel_keys"][at] = json["channel_keys"][1].clone();
    }
    let file = KeyFile::parse(json.to_string().as_bytes());
    assert!(file.is_err() || Channel::new(&file.unwrap(), Index(0), &[0; 32]).is_err());
}

#[test]
fn the_own_public_key_file_order_is_bound() {
    // Two replicas with swapped peers' public keys both parse: nothing binds the set.
    let files = deal(4, &[3; 32]).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&files[1].to_json()).unwrap();
    let swapped = (json["public_keys"][2].clone(), json["public_keys"][3].clone());
    (json["public_keys"][3], json["public_keys"][2]) = swapped;
    println!("swapped peers: {:?}", KeyFile::parse(json.to_string().as_bytes()).is_ok());
}
