//! All lanes as a replica sees them, and the cars that it has.

use super::{
    car::{Ballot, Car, Certificate, Header, LaneVote, Tip},
    lane::Lane,
};
use crate::core::{Batch, Index, Quorums};
use alloy_primitives::B256;
use std::collections::BTreeMap;

/// Result of a car that came from its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The car changes nothing.
    Nothing,
    /// The car is new and stored: log it with this vote, then vote.
    Vote(LaneVote),
    /// The car has this replica's vote, which may be lost.
    Again(LaneVote),
    /// The car waits for an older one.
    Waits(Missing),
}

/// A car that a history lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Missing {
    /// Lane.
    pub lane: Index,
    /// Place of the newest missing car.
    pub tip: Tip,
    /// Cars at or below this position are not needed.
    pub above: u64,
}

/// The lanes of all replicas.
#[derive(Clone, Debug)]
pub struct Lanes {
    me: Index,
    quorums: Quorums,
    /// Maximum number of cars of a lane above its committed one, and their length in bytes, unless a single one is longer.
    ahead: u64,
    ahead_bytes: usize,
    lanes: Vec<Lane>,
    cars: BTreeMap<B256, Car>,
    /// Digests of the cars by place, to prune them.
    places: BTreeMap<(Index, u64), Vec<B256>>,
    /// Votes on the newest own car.
    votes: BTreeMap<Index, Ballot>,
    /// True while a header waits for its signature.
    making: bool,
}

impl Lanes {
    /// Empty lanes; at most so many cars of each lane above its committed one, and bytes of them, are voted for.
    #[must_use]
    pub fn new(me: Index, quorums: Quorums, (ahead, ahead_bytes): (u64, usize)) -> Self {
        Self {
            me,
            quorums,
            ahead,
            ahead_bytes,
            lanes: vec![Lane::default(); quorums.n()],
            cars: BTreeMap::new(),
            places: BTreeMap::new(),
            votes: BTreeMap::new(),
            making: false,
        }
    }

    fn lane(&self, lane: Index) -> Option<&Lane> {
        self.lanes.get(usize::from(lane.0))
    }

    fn own(&self) -> &Lane {
        &self.lanes[usize::from(self.me.0)]
    }

    /// Returns true if the own lane can take a batch: its newest car is certified, so that one car at most may be wasted.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let own = self.own();
        let newest = own.newest();
        !self.making
            && (newest.position == own.committed.position || own.certified == newest)
            && newest.position < own.committed.position + self.ahead
            && self.uncommitted(self.me) < self.ahead_bytes
            // Without a certificate of a committed car, no replica could check the next one's parent.
            && (newest.position == 0 || !self.ballots_of(newest).is_empty())
    }

    /// Header of the next own car. [`Lanes::give`] takes the signed car.
    pub fn make(&mut self, batch: &Batch) -> Header {
        self.making = true;
        let newest = self.own().newest();
        Header { lane: self.me, position: newest.position + 1, parent: newest.digest, batch: batch.digest() }
    }

    /// Length of the stored cars of a lane above its committed one, in bytes. Linear in their number.
    fn uncommitted(&self, lane: Index) -> usize {
        let above = self.committed(lane).position + 1;
        let stored = self.places.range((lane, above)..=(lane, u64::MAX)).flat_map(|(_, digests)| digests);
        stored.filter_map(|digest| self.cars.get(digest)).map(|car| car.batch.bytes()).sum()
    }

    fn ballots_of(&self, own: Tip) -> Vec<Ballot> {
        let lane = self.own();
        if lane.certified == own && !lane.ballots.is_empty() {
            return lane.ballots.clone();
        }
        // The newest own car may have been committed before its votes were here.
        let votes: Vec<Ballot> = self.votes.values().cloned().collect();
        if votes.len() >= self.quorums.one_correct() { votes } else { Vec::new() }
    }

    /// Certificate that the next own car carries.
    #[must_use]
    pub fn proof(&self) -> Vec<Ballot> {
        self.ballots_of(self.own().newest())
    }

    /// Takes the next own car. Returns the own vote on it.
    pub fn give(&mut self, car: Car) -> LaneVote {
        self.making = false;
        self.votes.clear();
        let vote = LaneVote { lane: self.me, tip: car.tip() };
        self.note_vote(vote);
        self.keep(car);
        vote
    }

    /// Takes a vote on the newest own car. Returns the certificate that it completes.
    pub fn count(&mut self, vote: LaneVote, ballot: Ballot) -> Option<Certificate> {
        let newest = self.own().newest();
        if vote.lane != self.me || vote.tip != newest || newest.position == 0 {
            return None;
        }
        let needed = self.quorums.one_correct();
        if self.votes.len() >= needed || self.votes.insert(ballot.signer, ballot).is_some() || self.votes.len() < needed
        {
            return None;
        }
        let ballots: Vec<Ballot> = self.votes.values().cloned().collect();
        self.lanes[usize::from(self.me.0)].certify(newest, ballots.clone());
        Some(Certificate { lane: self.me, tip: newest, ballots })
    }

    /// Takes a car that its owner sent. It is well formed and its signatures are right.
    pub fn take(&mut self, car: Car) -> Taken {
        let (header, tip) = (car.header.body, car.tip());
        let Some(lane) = self.lanes.get_mut(usize::from(header.lane.0)) else { return Taken::Nothing };
        let vote = LaneVote { lane: header.lane, tip };
        if header.position > 1 {
            lane.certify(header.before(), car.proof.clone());
        }
        if lane.voted.get(&tip.position) == Some(&tip.digest) {
            return Taken::Again(vote);
        }
        let above = lane.committed.position;
        let waits = lane.waiting.as_ref().map_or(0, |car| car.batch.bytes());
        if tip == lane.committed && tip.position > 0 && !lane.voted.contains_key(&tip.position) {
            // Committed before this replica had it: the owner may still need votes, to go on.
            self.note_vote(vote);
            return Taken::Vote(vote);
        }
        if tip.position <= above
            || tip.position > above.saturating_add(self.ahead)
            || lane.voted.contains_key(&tip.position)
        {
            return Taken::Nothing;
        }
        let (has_history, stored) = (lane.has(header.before()), self.uncommitted(header.lane));
        if stored > 0 && (stored + waits).saturating_add(car.batch.bytes()) > self.ahead_bytes {
            return Taken::Nothing;
        }
        if has_history {
            self.note_vote(vote);
            self.keep(car);
            return Taken::Vote(vote);
        }
        // Cars that wait are the history of those behind them: one per position is kept.
        let free = !self.places.contains_key(&(header.lane, header.position));
        if free {
            self.keep(car.clone());
        }
        let lane = &mut self.lanes[usize::from(header.lane.0)];
        if lane.waiting.as_ref().is_none_or(|waiting| waiting.header.body.position < tip.position) {
            lane.waiting = Some(car);
        }
        self.follow(header.lane)
    }

    /// Looks whether the car that waits in a lane can be voted for now.
    pub fn follow(&mut self, lane: Index) -> Taken {
        let Some(known) = self.lanes.get(usize::from(lane.0)) else { return Taken::Nothing };
        let Some(waiting) = &known.waiting else { return Taken::Nothing };
        let (tip, before) = (waiting.tip(), waiting.header.body.before());
        let above = known.newest().position;
        if tip.position <= above || before.position <= above && !known.has(before) {
            // One vote per position: another car has it, or another branch.
            self.lanes[usize::from(lane.0)].waiting = None;
            return Taken::Nothing;
        }
        let history = match self.walk(lane, before, above) {
            Ok(history) => history.iter().map(|car| car.header.body).collect::<Vec<_>>(),
            Err(missing) => return Taken::Waits(missing),
        };
        let known = &mut self.lanes[usize::from(lane.0)];
        let joins = history.first().is_none_or(|first| known.has(first.before()));
        let Some(car) = known.waiting.take() else { return Taken::Nothing };
        if !joins || !known.has(before) && history.is_empty() {
            return Taken::Nothing;
        }
        known.voted.extend(history.iter().map(|header| (header.position, header.digest())));
        let vote = LaneVote { lane, tip };
        self.note_vote(vote);
        self.keep(car);
        Taken::Vote(vote)
    }

    /// Notes a vote of this replica, made now or before a restart.
    pub fn note_vote(&mut self, vote: LaneVote) {
        if let Some(lane) = self.lanes.get_mut(usize::from(vote.lane.0))
            && vote.tip.position >= lane.committed.position
        {
            lane.voted.insert(vote.tip.position, vote.tip.digest);
        }
    }

    /// Stores a car. Returns true if it is new.
    pub fn keep(&mut self, car: Car) -> bool {
        let (place, digest) = ((car.header.body.lane, car.header.body.position), car.header.body.digest());
        let new = self.cars.insert(digest, car).is_none();
        if new {
            self.places.entry(place).or_default().push(digest);
        }
        new
    }

    /// Notes a certificate that is well formed and whose signatures are right. Returns true if it is news.
    pub fn certify(&mut self, certificate: Certificate) -> bool {
        let Certificate { lane, tip, ballots } = certificate;
        self.lanes.get_mut(usize::from(lane.0)).is_some_and(|lane| lane.certify(tip, ballots))
    }

    /// The car with this digest.
    #[must_use]
    pub fn car(&self, digest: B256) -> Option<&Car> {
        self.cars.get(&digest)
    }

    /// All stored cars.
    pub fn cars(&self) -> impl Iterator<Item = &Car> {
        self.cars.values()
    }

    /// Stored cars at a place: more than one if the owner has forked its lane.
    pub fn branches(&self, lane: Index, position: u64) -> impl Iterator<Item = &Car> {
        self.places.get(&(lane, position)).into_iter().flatten().filter_map(|digest| self.cars.get(digest))
    }

    /// Votes of this replica, down to the last frontier that was pruned.
    pub fn own_votes(&self) -> impl Iterator<Item = LaneVote> {
        (0..).map(Index).zip(&self.lanes).flat_map(|(lane, known)| {
            known
                .voted
                .iter()
                .map(move |(position, digest)| LaneVote { lane, tip: Tip { position: *position, digest: *digest } })
        })
    }

    /// The newest own car, unless it is certified or committed: others may have missed it.
    #[must_use]
    pub fn uncertified(&self) -> Option<&Car> {
        let own = self.own();
        let newest = own.newest();
        let waits = newest.position > 0 && own.ballots.is_empty() && self.ballots_of(newest).is_empty();
        self.cars.get(&newest.digest).filter(|_| waits || own.certified != newest && newest != own.committed)
    }

    /// The newest own car, if neither it nor votes on it are here. It is committed, by a state that was transferred to this replica
    /// after its log was lost. The next own car carries votes on it.
    #[must_use]
    pub fn lost(&self) -> Option<Tip> {
        let newest = self.own().newest();
        let lacks = newest.position > 0 && !self.cars.contains_key(&newest.digest);
        (lacks && self.ballots_of(newest).is_empty()).then_some(newest)
    }

    /// Last committed car of a lane.
    #[must_use]
    pub fn committed(&self, lane: Index) -> Tip {
        self.lane(lane).map_or(Tip::default(), |lane| lane.committed)
    }

    /// Last committed cars of all lanes.
    #[must_use]
    pub fn frontier(&self) -> Vec<Tip> {
        self.lanes.iter().map(|lane| lane.committed).collect()
    }

    /// Highest certified car of a lane, or the committed one.
    #[must_use]
    pub fn certified(&self, lane: Index) -> Tip {
        self.lane(lane).map_or(Tip::default(), |lane| {
            if lane.certified.position > lane.committed.position { lane.certified } else { lane.committed }
        })
    }

    /// Certificate of the highest certified car of a lane, if it is above the committed one.
    #[must_use]
    pub fn certificate(&self, lane: Index) -> Option<Certificate> {
        let known = self.lane(lane)?;
        let above = known.certified.position > known.committed.position;
        above.then(|| Certificate { lane, tip: known.certified, ballots: known.ballots.clone() })
    }

    /// The newest car of a lane that this replica has with its whole history, certified or not.
    #[must_use]
    pub fn newest(&self, lane: Index) -> Tip {
        self.lane(lane).map_or(Tip::default(), Lane::newest)
    }

    /// Cars of a lane above a position up to a tip, oldest first. Linear in their number.
    ///
    /// # Errors
    /// Names the newest car that is missing.
    pub fn walk(&self, lane: Index, tip: Tip, above: u64) -> Result<Vec<&Car>, Missing> {
        let mut cars = Vec::new();
        let mut next = tip;
        while next.position > above {
            let car = self
                .cars
                .get(&next.digest)
                .filter(|car| (car.header.body.lane, car.header.body.position) == (lane, next.position));
            let Some(car) = car else { return Err(Missing { lane, tip: next, above }) };
            next = car.header.body.before();
            cars.push(car);
        }
        cars.reverse();
        Ok(cars)
    }

    /// Moves the committed car of a lane up.
    pub fn commit(&mut self, lane: Index, tip: Tip) {
        if let Some(known) = self.lanes.get_mut(usize::from(lane.0))
            && tip.position > known.committed.position
        {
            // What certifies the newest own car is needed for the next one.
            if lane == self.me && known.newest() == tip && known.certified == tip && !known.ballots.is_empty() {
                self.votes = known.ballots.iter().map(|ballot| (ballot.signer, ballot.clone())).collect();
            }
            known.commit(tip);
        }
    }

    /// Drops cars and votes at or below a frontier, but for the newest of each lane. No restart may begin below it.
    pub fn prune(&mut self, frontier: &[Tip]) {
        for (lane, tip) in (0..).map(Index).zip(frontier) {
            let old: Vec<_> = self.places.range((lane, 0)..(lane, tip.position)).map(|(place, _)| *place).collect();
            for digest in old.into_iter().filter_map(|place| self.places.remove(&place)).flatten() {
                self.cars.remove(&digest);
            }
            if let Some(known) = self.lanes.get_mut(usize::from(lane.0)) {
                known.voted = known.voted.split_off(&tip.position);
            }
        }
    }
}
