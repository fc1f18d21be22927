//! Regions of the two deployments, and round-trip times between them.
//!
//! The paper says "5 different regions in the same continent" and "15 regions spread over all continents", and names none.

/// Source of the figures.
pub const SOURCE: &str = "AWS inter-region p50 round-trip times, as published with commonware's estimator \
                          (commonwarexyz/monorepo at 4622dfb, examples/estimator/src/p50.json)";

/// A deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Five regions of North America.
    Continent,
    /// Fifteen regions on six continents.
    World,
}

/// Round-trip time within a region, in µs.
const LOCAL_RTT: u64 = 1_000;

const CONTINENT: [&str; 5] = ["us-east-1", "us-east-2", "ca-central-1", "us-west-2", "us-west-1"];

/// Times between region `i` and the later regions `i + 1..`, in µs.
const CONTINENT_RTT: [&[u64]; 5] =
    [&[15_068, 16_704, 64_419, 64_160], &[28_306, 51_166, 53_220], &[60_902, 79_978], &[21_720], &[]];

const WORLD: [&str; 15] = [
    "us-east-1",
    "us-west-1",
    "us-west-2",
    "ca-central-1",
    "sa-east-1",
    "eu-west-1",
    "eu-central-1",
    "eu-north-1",
    "af-south-1",
    "me-south-1",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-northeast-1",
    "ap-northeast-2",
];

const WORLD_RTT: [&[u64]; 15] = [
    &[
        64_160, 64_419, 16_704, 115_310, 69_622, 93_160, 112_794, 227_964, 161_790, 192_506, 219_640, 199_812, 149_684,
        179_824,
    ],
    &[
        21_890, 79_806, 174_762, 129_934, 153_252, 172_856, 287_760, 221_299, 232_000, 169_592, 139_126, 108_256,
        133_536,
    ],
    &[60_566, 174_628, 118_292, 142_776, 155_467, 274_764, 214_895, 222_202, 160_206, 141_002, 98_204, 123_571],
    &[125_412, 69_214, 93_330, 106_395, 225_136, 162_704, 192_852, 214_618, 198_256, 147_508, 176_514],
    &[178_588, 205_014, 223_336, 338_904, 273_450, 301_760, 327_676, 312_424, 258_918, 289_659],
    &[27_456, 40_878, 160_340, 97_852, 125_890, 178_534, 255_742, 202_282, 232_626],
    &[22_938, 155_906, 86_002, 129_262, 160_422, 251_345, 226_991, 230_834],
    &[174_142, 105_278, 148_877, 180_489, 271_220, 246_670, 250_092],
    &[247_152, 271_565, 313_912, 408_790, 356_548, 386_016],
    &[38_820, 98_920, 189_306, 176_400, 168_862],
    &[63_786, 154_675, 133_254, 134_488],
    &[94_844, 70_940, 74_208],
    &[105_814, 146_134],
    &[36_343],
    &[],
];

impl Topology {
    /// Names of its regions.
    #[must_use]
    pub const fn regions(self) -> &'static [&'static str] {
        match self {
            Self::Continent => &CONTINENT,
            Self::World => &WORLD,
        }
    }

    /// Delay between two machines in one direction, in ns. Machines are dealt to the regions in turn.
    #[must_use]
    pub fn delay_ns(self, from: usize, to: usize) -> u64 {
        let (table, regions): (&[&[u64]], usize) = match self {
            Self::Continent => (&CONTINENT_RTT, CONTINENT.len()),
            Self::World => (&WORLD_RTT, WORLD.len()),
        };
        let (a, b) = ((from % regions).min(to % regions), (from % regions).max(to % regions));
        let rtt = if a == b { LOCAL_RTT } else { table[a][b - a - 1] };
        rtt * 500
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_regions_has_a_delay_in_both_directions() {
        for topology in [Topology::Continent, Topology::World] {
            let regions = topology.regions().len();
            for a in 0..2 * regions {
                for b in 0..2 * regions {
                    assert_eq!(topology.delay_ns(a, b), topology.delay_ns(b, a));
                    assert_eq!(topology.delay_ns(a, b) == 500_000, a % regions == b % regions);
                }
            }
        }
    }
}
