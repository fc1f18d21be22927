//! A view is left in the log before anything says so: a replica that forgot it would vote in the view again.

use phalanx_bft::{
    Base, Crypto, Domain, Index, Input, Out, Outs, Protocol, Quorums, View,
    pbft::{self, Pbft},
    sbft::{self, Sbft},
};
use std::sync::Arc;

/// Leaves view 0 for view 2, and checks the order of effects. Returns the view of a replica that starts from the records.
fn leave<P: Protocol + core::fmt::Debug>(
    config: P::Config,
    left: fn(&P::Record) -> Option<View>,
    change: fn(&P::Msg) -> bool,
) -> View {
    let (config, mut out) = (Arc::new(config), Vec::new());
    let mut replica = P::open(Index(1), Arc::clone(&config), Base::default(), &[], &mut out);
    out.clear();
    replica.speak(2, &mut out);
    let place = |out: &Outs<P>, is: &dyn Fn(&Out<P>) -> bool| out.iter().position(is);
    let logged = place(&out, &|effect| matches!(effect, Out::Persist(record) if left(record) == Some(2)));
    let signs = |effect: &Out<P>| matches!(effect, Out::Work { crypto: Crypto::Sign(_), .. });
    let signed = place(&out, &signs).expect("its VIEW-CHANGE is signed");
    assert!(logged.is_some_and(|logged| logged < signed), "{out:?}");
    let is_change = |effect: &Out<P>| matches!(effect, Out::Send(_, message) if change(message));
    assert!(place(&out, &is_change).is_none(), "it leaves once it is signed");
    let jobs: Vec<u64> = out
        .iter()
        .filter_map(|effect| match effect {
            Out::Work { job, .. } => Some(*job),
            _ => None,
        })
        .collect();
    let mut after = Vec::new();
    for job in jobs {
        replica.on_input(0, Input::Signed { job, signature: vec![1; 64].into() }, &mut after);
    }
    assert!(place(&after, &is_change).is_some(), "{after:?}");
    let records = |outs: Outs<P>| {
        outs.into_iter().filter_map(|effect| if let Out::Persist(record) = effect { Some(record) } else { None })
    };
    let log: Vec<P::Record> = records(out).collect();
    P::open(Index(1), config, Base::default(), &log, &mut Vec::new()).view()
}

#[test]
fn a_view_is_left_in_the_log_first() {
    let quorums = Quorums::new(4, 1).expect("a legal size");
    let pbft = leave::<Pbft>(
        pbft::Config::new(quorums, Domain::default()),
        |record| if let pbft::Record::Left(view) = record { Some(*view) } else { None },
        |message| matches!(message, pbft::Msg::ViewChange(_)),
    );
    let sbft = leave::<Sbft>(
        sbft::Config::new(quorums, Domain::default()),
        |record| if let sbft::Record::Left(view) = record { Some(*view) } else { None },
        |message| matches!(message, sbft::Msg::ViewChange(_)),
    );
    assert_eq!((pbft, sbft), (2, 2), "a restart stays out of the views before");
}
