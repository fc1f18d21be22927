//! Time that the distances alone cost.

use phalanx_bft::{Micros, Quorums};

/// Time in µs from a primary's proposal until f+1 replicas know the order in PBFT, with these one-way delays alone.
#[must_use]
pub fn order_floor(delay_us: &[Vec<Micros>], quorums: Quorums, primary: usize) -> Micros {
    let n = delay_us.len();
    let nth = |mut times: Vec<Micros>, nth: usize| {
        times.sort_unstable();
        times.get(nth.saturating_sub(1)).copied().unwrap_or(0)
    };
    let proposed: Vec<Micros> = (0..n).map(|to| if to == primary { 0 } else { delay_us[primary][to] }).collect();
    let hop = |from: usize, to: usize, at: Micros| if from == to { at } else { at + delay_us[from][to] };
    let prepared: Vec<Micros> = (0..n)
        .map(|to| {
            let votes = (0..n).filter(|from| *from != primary).map(|from| hop(from, to, proposed[from])).collect();
            nth(votes, quorums.quorum() - 1).max(proposed[to])
        })
        .collect();
    let decided: Vec<Micros> =
        (0..n).map(|to| nth((0..n).map(|from| hop(from, to, prepared[from])).collect(), quorums.quorum())).collect();
    nth(decided, quorums.one_correct())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_delays_give_three_of_them() {
        for n in [4, 7, 8] {
            let delays: Vec<Vec<Micros>> =
                (0..n).map(|from| (0..n).map(|to| if from == to { 0 } else { 10 }).collect()).collect();
            let quorums = Quorums::new(n, (n - 1) / 3).expect("a legal size");
            assert!((0..n).all(|primary| order_floor(&delays, quorums, primary) == 30));
        }
        // A distant replica is not waited for.
        let mut delays = vec![vec![10; 4]; 4];
        (0..4).for_each(|other| (delays[3][other], delays[other][3]) = (500, 500));
        let quorums = Quorums::new(4, 1).expect("a legal size");
        assert_eq!(order_floor(&delays, quorums, 0), 30);
        assert_eq!(order_floor(&delays, quorums, 3), 520);
    }
}
