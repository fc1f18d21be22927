//! Schedule of a chain's upgrades: by block, by total difficulty, by time.

use crate::chain::blobs;
use alloy_eips::eip7840::BlobParams;
use alloy_primitives::U256;
use revm::primitives::hardfork::SpecId;

/// Reason for which a description is no chain that the engine can follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainSpecError {
    /// No fork has this name.
    #[error("no fork is called {name:?}")]
    UnknownFork {
        /// The given name.
        name: String,
    },
    /// The chain has rules that the engine does not implement.
    #[error("not supported: {what}")]
    Unsupported {
        /// Rules that are not supported.
        what: &'static str,
    },
    /// A fork is scheduled without the one that it builds upon.
    #[error("{fork} is scheduled without {before}")]
    Missing {
        /// The scheduled fork.
        fork: &'static str,
        /// The fork before it.
        before: &'static str,
    },
    /// A fork is scheduled before the one that it builds upon.
    #[error("{fork} is scheduled before {before}")]
    Order {
        /// The fork that is scheduled too early.
        fork: &'static str,
        /// The fork that it builds upon.
        before: &'static str,
    },
    /// A configuration contradicts the chain that it is for.
    #[error("{what} of the configuration contradicts the chain: give the chain's value")]
    Contradiction {
        /// Part that contradicts.
        what: &'static str,
    },
    /// The blob parameters are unusable: an update fraction or maximum of zero, or a target above the maximum.
    #[error("the blob parameters of {fork} are unusable, or there are none")]
    Blobs {
        /// Fork of the parameters.
        fork: &'static str,
    },
}

/// Start of proof of stake (EIP-3675).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Never: the chain stays on proof of work.
    Never,
    /// The chain starts on proof of stake.
    Genesis,
    /// From the first block whose parent's total difficulty is at least this.
    At {
        /// Terminal total difficulty.
        total_difficulty: U256,
        /// Number of the first block of proof of stake, once it is history.
        block: Option<u64>,
    },
}

/// Upgrade of a schedule, in order of activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Upgrade {
    Homestead,
    Tangerine,
    SpuriousDragon,
    Byzantium,
    Petersburg,
    Istanbul,
    MuirGlacier,
    Berlin,
    London,
    ArrowGlacier,
    GrayGlacier,
    Shanghai,
    Cancun,
    Prague,
    Osaka,
    Bpo1,
    Bpo2,
    Bpo3,
    Bpo4,
    Bpo5,
    Amsterdam,
}

impl Upgrade {
    /// Spec of the upgrade. Glaciers only delay the difficulty bomb, BPO forks only change blob parameters.
    pub(super) const fn spec(self) -> Option<SpecId> {
        Some(match self {
            Self::Homestead => SpecId::HOMESTEAD,
            Self::Tangerine => SpecId::TANGERINE,
            Self::SpuriousDragon => SpecId::SPURIOUS_DRAGON,
            Self::Byzantium => SpecId::BYZANTIUM,
            Self::Petersburg => SpecId::PETERSBURG,
            Self::Istanbul => SpecId::ISTANBUL,
            Self::Berlin => SpecId::BERLIN,
            Self::London => SpecId::LONDON,
            Self::Shanghai => SpecId::SHANGHAI,
            Self::Cancun => SpecId::CANCUN,
            Self::Prague => SpecId::PRAGUE,
            Self::Osaka => SpecId::OSAKA,
            Self::Amsterdam => SpecId::AMSTERDAM,
            _ => return None,
        })
    }

    /// Total delay of the difficulty bomb, in blocks (EIP-649, 1234, 2384, 3554, 4345, 5133).
    const fn bomb_delay(self) -> Option<u64> {
        Some(match self {
            Self::Byzantium => 3_000_000,
            Self::Petersburg => 5_000_000,
            Self::MuirGlacier => 9_000_000,
            Self::London => 9_700_000,
            Self::ArrowGlacier => 10_700_000,
            Self::GrayGlacier => 11_400_000,
            _ => return None,
        })
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Homestead => "Homestead",
            Self::Tangerine => "Tangerine Whistle",
            Self::SpuriousDragon => "Spurious Dragon",
            Self::Byzantium => "Byzantium",
            Self::Petersburg => "Petersburg",
            Self::Istanbul => "Istanbul",
            Self::MuirGlacier => "Muir Glacier",
            Self::Berlin => "Berlin",
            Self::London => "London",
            Self::ArrowGlacier => "Arrow Glacier",
            Self::GrayGlacier => "Gray Glacier",
            Self::Shanghai => "Shanghai",
            Self::Cancun => "Cancun",
            Self::Prague => "Prague",
            Self::Osaka => "Osaka",
            Self::Bpo1 => "BPO1",
            Self::Bpo2 => "BPO2",
            Self::Bpo3 => "BPO3",
            Self::Bpo4 => "BPO4",
            Self::Bpo5 => "BPO5",
            Self::Amsterdam => "Amsterdam",
        }
    }
}

/// An upgrade and its first block.
pub(super) type ByBlock = (Upgrade, u64);
/// An upgrade, the timestamp from which it is in force, and its blob parameters.
pub(super) type ByTime = (Upgrade, u64, Option<BlobParams>);

/// Schedule of a chain. Every list ascends, so that the last entry reached is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    blocks: Vec<(u64, SpecId)>,
    bombs: Vec<(u64, u64)>,
    pub(super) merge: Merge,
    times: Vec<(u64, SpecId)>,
    blobs: Vec<(Upgrade, u64, BlobParams)>,
}

impl Schedule {
    /// Checks that every upgrade comes after the one that it builds upon, and none is missing. Both lists are in the
    /// order of [`Upgrade`].
    pub(super) fn new(by_block: &[ByBlock], merge: Merge, by_time: &[ByTime]) -> Result<Self, ChainSpecError> {
        let specs = |(upgrade, at): (Upgrade, u64)| upgrade.spec().map(|spec| (at, spec));
        let times = || by_time.iter().map(|(upgrade, at, _)| (*upgrade, *at));
        in_order(by_block.iter().copied().filter(|(upgrade, _)| upgrade.spec().is_some()), Upgrade::Homestead)?;
        in_order(times(), Upgrade::Shanghai)?;

        let london = by_block.iter().find(|(upgrade, _)| *upgrade == Upgrade::London);
        match (merge, london) {
            (Merge::Never, _) if !by_time.is_empty() => {
                return Err(ChainSpecError::Missing { fork: "Shanghai", before: "the merge" });
            }
            (Merge::Genesis | Merge::At { .. }, None) => {
                return Err(ChainSpecError::Missing { fork: "the merge", before: "London" });
            }
            (Merge::Genesis, Some((_, 1..))) => {
                return Err(ChainSpecError::Order { fork: "the merge", before: "London" });
            }
            _ => {}
        }
        let blob = |(upgrade, at, params): &ByTime| params.map(|params| blobs::usable(*upgrade, *at, params));
        Ok(Self {
            blocks: by_block.iter().copied().filter_map(specs).collect(),
            bombs: by_block.iter().filter_map(|(upgrade, at)| Some((*at, upgrade.bomb_delay()?))).collect(),
            merge,
            times: times().filter_map(specs).collect(),
            blobs: by_time.iter().filter_map(blob).collect::<Result<_, _>>()?,
        })
    }

    /// Writes all that decides the rules, each part behind its length.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Self { blocks, bombs, merge, times, blobs } = self;
        let put = |out: &mut Vec<u8>, number: u64| out.extend_from_slice(&number.to_be_bytes());
        for forks in [blocks, times] {
            put(out, forks.len() as u64);
            for (at, spec) in forks {
                let name: &str = (*spec).into();
                put(out, *at);
                put(out, name.len() as u64);
                out.extend_from_slice(name.as_bytes());
            }
        }
        put(out, bombs.len() as u64);
        bombs.iter().for_each(|(at, delay)| [at, delay].into_iter().for_each(|number| put(out, *number)));
        match merge {
            Merge::Never => out.push(0),
            Merge::Genesis => out.push(1),
            // The block is known once it is history; it decides nothing.
            Merge::At { total_difficulty, block: _ } => {
                out.push(2);
                out.extend_from_slice(&total_difficulty.to_be_bytes::<32>());
            }
        }
        put(out, blobs.len() as u64);
        for (_, at, params) in blobs {
            let BlobParams {
                target_blob_count,
                max_blob_count,
                update_fraction,
                min_blob_fee,
                max_blobs_per_tx,
                blob_base_cost,
            } = *params;
            [*at, target_blob_count, max_blob_count, max_blobs_per_tx, blob_base_cost]
                .into_iter()
                .for_each(|n| put(out, n));
            [update_fraction, min_blob_fee].iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        }
    }

    /// True if both schedules have the same upgrades up to a block and a time, with the same parameters.
    pub(super) fn agrees_until(&self, other: &Self, number: u64, timestamp: u64) -> bool {
        fn until<T: Copy + PartialEq>(ours: &[T], theirs: &[T], has_begun: impl Fn(&T) -> bool) -> bool {
            let begun = |all: &[T]| all.iter().copied().filter(&has_begun).collect::<Vec<T>>();
            begun(ours) == begun(theirs)
        }
        let Self { blocks, bombs, merge, times, blobs } = self;
        until(blocks, &other.blocks, |(at, _)| *at <= number)
            && until(bombs, &other.bombs, |(at, _)| *at <= number)
            && *merge == other.merge
            && until(times, &other.times, |(at, _)| *at <= timestamp)
            && until(blobs, &other.blobs, |(_, at, _)| *at <= timestamp)
    }

    /// Blocks and times at which an upgrade comes into force, each once, ascending.
    pub(super) fn points(&self) -> (Vec<u64>, Vec<u64>) {
        let mut blocks: Vec<u64> =
            self.blocks.iter().map(|(at, _)| *at).chain(self.bombs.iter().map(|(at, _)| *at)).collect();
        let mut times: Vec<u64> =
            self.times.iter().map(|(at, _)| *at).chain(self.blobs.iter().map(|(_, at, _)| *at)).collect();
        for points in [&mut blocks, &mut times] {
            points.sort_unstable();
            points.dedup();
        }
        (blocks, times)
    }

    /// Spec in force at a block on the given side of the merge.
    pub(super) fn spec(&self, number: u64, timestamp: u64, merged: bool) -> SpecId {
        let (forks, at, base) =
            if merged { (&self.times, timestamp, SpecId::MERGE) } else { (&self.blocks, number, SpecId::FRONTIER) };
        forks.iter().rev().find(|(from, _)| *from <= at).map_or(base, |(_, spec)| *spec)
    }

    /// Delay of the difficulty bomb at a block, in blocks.
    pub(super) fn bomb_delay(&self, number: u64) -> u64 {
        self.bombs.iter().filter(|(from, _)| *from <= number).map(|(_, delay)| *delay).max().unwrap_or(0)
    }

    /// Blob parameters in force at a time, if there are blobs.
    pub(super) fn blobs(&self, timestamp: u64) -> Option<BlobParams> {
        self.blobs.iter().rev().find(|(_, from, _)| *from <= timestamp).map(|(_, _, params)| *params)
    }

    /// Blob parameters of all upgrades.
    pub(super) fn all_blobs(&self) -> impl Iterator<Item = BlobParams> {
        self.blobs.iter().map(|(_, _, params)| *params)
    }

    /// Replaces the blob parameters of an upgrade, if it is scheduled.
    pub(super) fn set_blobs(&mut self, upgrade: Upgrade, params: BlobParams) -> Result<(), ChainSpecError> {
        for entry in self.blobs.iter_mut().filter(|(known, _, _)| *known == upgrade) {
            *entry = blobs::usable(upgrade, entry.1, params)?;
        }
        Ok(())
    }
}

/// Checks the order. BPO forks may be missing, and need Osaka; every other fork needs the one before it.
fn in_order(forks: impl Iterator<Item = (Upgrade, u64)>, first: Upgrade) -> Result<(), ChainSpecError> {
    const SPECS: [Upgrade; 13] = [
        Upgrade::Homestead,
        Upgrade::Tangerine,
        Upgrade::SpuriousDragon,
        Upgrade::Byzantium,
        Upgrade::Petersburg,
        Upgrade::Istanbul,
        Upgrade::Berlin,
        Upgrade::London,
        Upgrade::Shanghai,
        Upgrade::Cancun,
        Upgrade::Prague,
        Upgrade::Osaka,
        Upgrade::Amsterdam,
    ];
    let mut last: Option<(Upgrade, u64)> = None;
    for (fork, at) in forks {
        // The newest upgrade with a lower spec: this one builds upon it.
        let before = SPECS.into_iter().rev().find(|spec| *spec < fork && *spec >= first);
        if let Some(before) = before
            && last.is_none_or(|(last, _)| last < before)
        {
            return Err(ChainSpecError::Missing { fork: fork.name(), before: before.name() });
        }
        if let Some((before, earlier)) = last
            && at < earlier
        {
            return Err(ChainSpecError::Order { fork: fork.name(), before: before.name() });
        }
        last = Some((fork, at));
    }
    Ok(())
}
