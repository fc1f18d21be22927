//! Parts of messages that a traitor has from others: it changes each of them, signs its own statements around them anew, and no
//! replica takes the message.

use crate::{
    cluster::{DOMAIN, Net},
    faults::world_with,
    parts::{Part, Path, put_together, take_apart},
};
use alloy_primitives::B256;
use phalanx_bft::{Checked, Claim, Domain, Index, Message, autobahn::Autobahn, pbft::Pbft, sbft::Sbft};
use phalanx_keys::{Scheme as _, Simulated};
use phalanx_world::Facts;
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

/// Forgeries of one shape that are tried.
const TRIES: usize = 24;

/// Change that a traitor makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// A bit of a signature of another replica, or of a group.
    Signature,
    /// A bit of the sender's own signature, which others hand on as a proof.
    Own,
    /// A field that another replica or a group has signed.
    Field,
    /// The last of several statements is the first once more.
    Repeated,
    /// Fewer statements than any quorum.
    Fewer,
}

/// Shape of a forgery: kind of the message, way to the part without the places in lists of statements, change.
type Shape = (u8, String, Change);

/// Every forgery of a message by its sender.
fn forgeries(parts: &Part, sender: Index) -> Vec<(Change, Path, Part)> {
    let mut found = Vec::new();
    let mut changed = |change: Change, path: &[usize], with: &dyn Fn(&mut Part)| {
        let mut forged = parts.clone();
        with(forged.at(path));
        found.push((change, path.to_vec(), forged));
    };
    parts.walk(&mut Vec::new(), &mut Vec::new(), &mut |around, path| {
        let (part, outside) = around.split_last().expect("the part itself");
        match part {
            Part::Leaf(_) => {
                let signed = outside.iter().rposition(|part| part.is_signed() || part.is_certificate());
                let Some(depth) = signed else { return };
                let change = match (outside[depth].signer() == Some(sender), part.is_signature()) {
                    (true, true) => return changed(Change::Own, path, &Part::change),
                    (true, false) => return,
                    (false, true) => Change::Signature,
                    (false, false) => Change::Field,
                };
                // In its own name the sender may say anything.
                let mut of = outside[depth].clone();
                of.at(&path[depth..]).change();
                if of.signer() != Some(sender) {
                    changed(change, path, &Part::change);
                }
            }
            Part::List(statements) if statements.len() > 1 && statements.iter().all(|part| part.signer().is_some()) => {
                changed(Change::Repeated, path, &Part::repeat_first);
                let fewer = if statements.len() > 2 { 2 } else { 1 };
                changed(Change::Fewer, path, &|part| part.truncate(fewer));
            }
            Part::List(_) => {}
        }
    });
    found
}

/// The way to a part; places in lists of statements are all alike.
fn shape(parts: &Part, path: &[usize]) -> String {
    let (mut part, mut text) = (parts, String::new());
    for child in path {
        let alike = part.children().len() > 1 && part.children().iter().all(Part::has_signature);
        text += &if alike { "*.".to_owned() } else { format!("{child}.") };
        part = &part.children()[*child];
    }
    text
}

fn claims(message: &impl Message, domain: Domain) -> Vec<Claim> {
    let mut claims = Vec::new();
    message.claims(domain, &mut claims);
    claims
}

/// Tries the forgeries of every message that a replica would take, in worlds with crashes and cuts. Returns how many of each shape were
/// refused. Messages of the kinds `shares` have shares, which are verified when they are combined.
fn refused<P: Facts + 'static>(worlds: u64, shares: &'static [u8]) -> BTreeMap<Shape, usize> {
    let refused = Rc::new(RefCell::new(BTreeMap::<Shape, usize>::new()));
    for seed in 0..worlds {
        let counts = Rc::clone(&refused);
        world_with::<P>(seed, move |cluster: &mut Net<P>| {
            cluster.inspector = Some(Box::new(move |replica: &P, sender: Index, message: &P::Msg| {
                let scheme = Simulated::new(Index(0), 64);
                let takes = |message: P::Msg| {
                    replica.wants(sender, &message)
                        && Checked::new(message, DOMAIN, |claims| scheme.accepts(claims)).is_some()
                };
                let (kind, parts) = take_apart(message);
                if shares.contains(&kind) || !takes(message.clone()) {
                    return;
                }
                for other in [
                    Domain { chain: 8, ..DOMAIN },
                    Domain { epoch: 1, ..DOMAIN },
                    Domain { instance: B256::repeat_byte(4), ..DOMAIN },
                ] {
                    let both = claims(message, DOMAIN).into_iter().zip(claims(message, other));
                    both.for_each(|(here, there)| assert_ne!(here.bytes, there.bytes, "signed for {other:?} as well"));
                }
                for (change, path, forged) in forgeries(&parts, sender) {
                    let shape = (kind, shape(&parts, &path), change);
                    if counts.borrow().get(&shape).is_some_and(|tries| *tries >= TRIES) {
                        continue;
                    }
                    let signs = (change != Change::Own).then_some(sender);
                    let forged: Option<P::Msg> = put_together(&(kind, forged), signs);
                    let Some(forged) = forged.filter(|forged| forged != message) else { continue };
                    assert!(!takes(forged), "seed {seed}: {shape:?} at {path:?} is taken from {sender}");
                    *counts.borrow_mut().entry(shape).or_default() += 1;
                }
            }));
        });
    }
    Rc::try_unwrap(refused).expect("the worlds have ended").into_inner()
}

/// Checks that the worlds had forgeries of signatures in these kinds of messages, in so many places.
fn check<P: Facts + 'static>(worlds: u64, shares: &'static [u8], kinds: &[u8], places: usize) {
    let refused = refused::<P>(worlds, shares);
    refused.iter().for_each(|((kind, path, change), count)| println!("{kind} {path} {change:?}: {count}"));
    let is_signature = |change: Change| matches!(change, Change::Signature | Change::Own);
    let signed: Vec<&Shape> = refused.keys().filter(|(.., change)| is_signature(*change)).collect();
    let missing: Vec<&u8> = kinds.iter().filter(|kind| !signed.iter().any(|(of, ..)| of == *kind)).collect();
    assert!(missing.is_empty(), "no signature was forged in messages of the kinds {missing:?}");
    assert!(signed.len() >= places, "signatures were forged in {} places: {signed:?}", signed.len());
}

#[test]
fn no_part_of_a_message_is_believed_unsigned() {
    // CHECKPOINT, VIEW-CHANGE with its proof, NEW-VIEW with both.
    check::<Pbft>(12, &[], &[4, 5, 6], 7);
    // PRE-PREPARE, PREPARE, decisions, checkpoints, VIEW-CHANGE and NEW-VIEW with certificates and decisions.
    check::<Sbft>(12, &[2, 3, 6, 8], &[1, 4, 5, 7, 9, 11, 12], 12);
    // Cars, votes and certificates, PREPARE with tips and either ticket, CONFIRM, COMMIT, TIMEOUT, TC, fetched cars, tips, checkpoints.
    check::<Autobahn>(12, &[], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 17], 20);
}
