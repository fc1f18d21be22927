//! Round-trip times between ten regions.
//!
//! The paper names its ten regions of Google Cloud and gives the range of the times between them, 25 to 317 ms, but not
//! the table. This table was measured between the nearest regions of another provider, so single pairs differ; its
//! range is 34 to 409 ms.

/// Source of the figures.
pub const RTT_SOURCE: &str = "AWS inter-region p50 round-trip times, as published with commonware's estimator \
                              (commonwarexyz/monorepo at 4622dfb, examples/estimator/src/p50.json)";

/// The paper's regions, each with the region that was measured in its place.
pub const REGIONS: [(&str, &str); 10] = [
    ("us-west1", "us-west-2"),
    ("us-east1", "us-east-1"),
    ("europe-west4", "eu-central-1"),
    ("europe-southwest1", "eu-south-2"),
    ("southamerica-east1", "sa-east-1"),
    ("africa-south1", "af-south-1"),
    ("australia-southeast1", "ap-southeast-2"),
    ("asia-northeast3", "ap-northeast-2"),
    ("asia-southeast1", "ap-southeast-1"),
    ("asia-south1", "ap-south-1"),
];

/// Round-trip times between region `i` and the later regions `i + 1..`, in µs.
const LATER: [&[u64]; 10] = [
    &[64_031, 142_776, 158_982, 174_628, 274_764, 141_002, 123_571, 160_206, 222_202],
    &[93_160, 107_687, 115_310, 227_964, 199_812, 179_824, 219_640, 192_506],
    &[34_827, 204_017, 155_906, 251_345, 230_834, 160_422, 129_262],
    &[221_084, 137_654, 272_511, 239_570, 164_902, 123_402],
    &[338_904, 312_424, 289_659, 327_676, 301_760],
    &[408_790, 386_016, 313_912, 271_565],
    &[146_134, 94_832, 154_862],
    &[73_916, 135_238],
    &[63_786],
    &[],
];

/// Within a region.
const LOCAL_RTT: u64 = 1_000;

/// Latency from region to region, one way, in µs.
pub(crate) fn one_way(from: usize, to: usize) -> u64 {
    let (low, high) = (from.min(to) % 10, from.max(to) % 10);
    let rtt = if low == high { LOCAL_RTT } else { LATER[low][high - low - 1] };
    rtt / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        for from in 0..10 {
            for to in 0..10 {
                assert_eq!(one_way(from, to), one_way(to, from));
                assert!((500..205_000).contains(&one_way(from, to)), "{from} to {to}");
            }
        }
    }
}
