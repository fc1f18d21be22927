//! Dealers that sign their lies.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use super::*;
use serde_json::Value;

#[test]
fn a_dealer_that_lies_is_found_by_the_member_that_it_harms() {
    let own: Vec<OwnKeys> = (0..4).map(|_| OwnKeys::fresh().unwrap()).collect();
    let roster = Roster::new(B256::repeat_byte(7), own.iter().map(OwnKeys::public).collect()).unwrap();
    let good: Vec<Dealing> = own.iter().map(|own| Dealing::new(own, &roster, 1).unwrap()).collect();
    let json = |of: usize| serde_json::to_value(&good[of]).unwrap();
    let join = |who: usize, at: &str, to: Value| {
        let mut all = good.clone();
        let mut lie = json(2);
        *lie.pointer_mut(at).unwrap() = to;
        all[2] = serde_json::from_value(lie).unwrap();
        all[2].signature = own[2].sign(all[2].hash().as_slice());
        BlsFile::join(&own[who], &roster, 1, &all).map(drop)
    };
    let wrong = |taken: Result<(), KeyError>, why: &str| match taken {
        Err(KeyError::Dealing { dealer: 2, what }) => assert!(what.contains(why), "{what}"),
        other => panic!("{why}: {other:?}"),
    };
    // Member 1 alone is harmed, and finds it.
    let value = json(2)["groups"][1]["values"][0].clone();
    wrong(join(1, "/groups/1/values/1", value.clone()), "wrong value");
    assert_eq!(join(0, "/groups/1/values/1", value), Ok(()));
    // The key of another, whose secret the dealer does not know.
    wrong(join(0, "/groups/0/commitments/0", json(1)["groups"][0]["commitments"][0].clone()), "does not prove");
    wrong(join(0, "/groups/0/possession", json(1)["groups"][0]["possession"].clone()), "does not prove");
    wrong(join(0, "/groups/0/commitments/1", json(1)["groups"][0]["commitments"][1].clone()), "wrong value");
    // The identity, and a polynomial of a lower degree.
    let mut infinity = vec![0; 96];
    infinity[0] = 0xc0;
    wrong(join(0, "/groups/0/commitments/1", serde_json::json!(Bytes::from(infinity))), "no point");
    wrong(join(0, "/groups/0/commitments", serde_json::json!([])), "incomplete");
    wrong(join(0, "/groups/2/values", serde_json::json!([])), "incomplete");
    wrong(join(0, "/groups", serde_json::json!([])), "incomplete");
}

/// Two values under one pad show their difference.
#[test]
fn every_pad_encrypts_one_value() {
    let own: Vec<OwnKeys> = (0..2).map(|_| OwnKeys::fresh().unwrap()).collect();
    let roster = Roster::new(B256::repeat_byte(7), own.iter().map(OwnKeys::public).collect()).unwrap();
    let (me, peer) = (Index(0), Index(1));
    let mut pads = std::collections::BTreeSet::new();
    for (dealer, group) in [me, peer].into_iter().flat_map(|dealer| (0..SHARED.len()).map(move |group| (dealer, group)))
    {
        for faulty in [0, 1] {
            let here = pad(&own[0], (&roster, faulty), (me, peer), dealer, group).unwrap();
            assert_eq!(here, pad(&own[1], (&roster, faulty), (peer, me), dealer, group).unwrap(), "at either end");
            assert!(pads.insert(here), "dealer {dealer}, group {group}, {faulty} faulty");
        }
        let own_value = pad(&own[0], (&roster, 1), (me, me), me, group).unwrap();
        assert_eq!(pads.insert(own_value), dealer == me, "one for the own value of each group");
    }
}
