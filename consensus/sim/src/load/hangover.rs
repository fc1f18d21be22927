//! Hangover: time after a fault for which clients still wait longer than before it.

/// Length of a window, in µs.
const WINDOW_US: u64 = 100_000;
/// Latency on top of twice the usual one that still counts as usual, in µs: noise of a small median.
const NOISE_US: u64 = 20_000;

/// Time in µs from the end of a fault until the transactions that come due within a tenth of a second have a median latency of at most
/// twice that before the fault, and 20 ms. Each answer is the time at which its transaction was due and its latency. `None` without
/// answers before the fault, or if none after it is that fast.
#[must_use]
pub fn hangover(answers: &[(u64, u64)], (begin_us, end_us): (u64, u64)) -> Option<u64> {
    let median = |from: u64, to: u64| {
        let within = answers.iter().filter(|(due, _)| (from..to).contains(due));
        let mut latencies: Vec<u64> = within.map(|(_, latency)| *latency).collect();
        latencies.sort_unstable();
        latencies.get(latencies.len() / 2).copied()
    };
    // What is due right before the fault may wait for its end.
    let usual = median(0, begin_us.saturating_sub(WINDOW_US * 5)).or_else(|| median(0, begin_us))?;
    let last = answers.iter().map(|(due, _)| *due).max()?;
    let windows = (end_us..=last).step_by(WINDOW_US as usize);
    let mut usual_again =
        windows.filter(|from| median(*from, from + WINDOW_US).is_some_and(|latency| latency <= 2 * usual + NOISE_US));
    usual_again.next().map(|from| from - end_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hangover_ends_with_the_first_usual_window() {
        // A transaction every 10 ms: 50 ms before the fault from 2 s to 4 s, and again from 5 s on.
        let latency = |due: u64| match due {
            2_000_000..4_000_000 => 5_000_000 - due,
            4_000_000..5_000_000 => 400_000,
            _ => 50_000,
        };
        let answers: Vec<(u64, u64)> = (0..800).map(|at| (at * 10_000, latency(at * 10_000))).collect();
        assert_eq!(hangover(&answers, (2_000_000, 4_000_000)), Some(1_000_000));
        assert_eq!(hangover(&answers, (2_000_000, 5_000_000)), Some(0));
        assert_eq!(hangover(&answers[..490], (2_000_000, 4_000_000)), None, "it lasts to the end");
        assert_eq!(hangover(&[], (1, 2)), None);
    }
}
