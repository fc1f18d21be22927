//! A block's graph: transactions by their level, the critical path in front.

use super::{
    picture::{Picture, RIGHT, WIDTH, number},
    scale::Scale,
};

const LEFT: f64 = 68.0;
const PLOT: f64 = 320.0;

/// Maximum number of transactions drawn as dots with edges; more are drawn as counts per level.
const MAX_DOTS: usize = 1500;
/// Maximum number of edges; more hide each other.
const MAX_EDGES: usize = 4000;
/// Maximum number of bars; levels are merged to stay below.
const MAX_BARS: usize = 160;

/// The drawn part of a graph.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// Level of each transaction: its predecessors on the longest chain to it.
    pub levels: &'a [u32],
    /// Predecessor and successor of each edge.
    pub edges: &'a [(u32, u32)],
    /// Transactions of the critical path, in order.
    pub path: &'a [u32],
}

/// Draws `layout`; `tip` says what a transaction is.
pub fn graph(title: &str, subtitle: &str, layout: Layout<'_>, tip: impl Fn(u32) -> String) -> Picture {
    let mut picture = Picture::new(title, subtitle);
    let Some(deepest) = layout.levels.iter().max() else { return picture.empty("The block is empty.") };
    let legend = ["transactions", "critical path: the chain with the most gas"];
    let top = 14.0
        + picture.legend(legend.into_iter(), |picture, index, x, y| {
            picture.rect((x + 10.0, y - 7.0), (14.0, 14.0), if index == 0 { "f4" } else { "f6" }, legend[index]);
        });
    let bottom = top + PLOT;
    let mut counts = vec![0usize; *deepest as usize + 1];
    let places: Vec<usize> = layout
        .levels
        .iter()
        .map(|level| {
            counts[*level as usize] += 1;
            counts[*level as usize] - 1
        })
        .collect();
    let most = counts.iter().copied().max().unwrap_or(1);
    let x = |level: u32| {
        let share = (f64::from(level) + 0.5) / (f64::from(*deepest) + 1.0);
        share.mul_add(WIDTH - RIGHT - LEFT, LEFT)
    };
    if layout.levels.len() <= MAX_DOTS {
        let at = |tx: u32| {
            let level = layout.levels[tx as usize];
            let share = (places[tx as usize] as f64 + 0.5) / counts[level as usize] as f64;
            (x(level), share.mul_add(PLOT, top))
        };
        for (from, to) in layout.edges.iter().take(MAX_EDGES) {
            picture.rule(at(*from), at(*to), "grid");
        }
        for tx in 0..layout.levels.len() as u32 {
            dot(&mut picture, at(tx), "f4", &tip(tx), if most > 60 { 2.0 } else { 4.0 });
        }
        for pair in layout.path.windows(2) {
            picture.rule(at(pair[0]), at(pair[1]), "l c1 d0");
        }
        layout.path.iter().for_each(|tx| dot(&mut picture, at(*tx), "f6", &tip(*tx), 5.0));
    } else {
        bars(&mut picture, &counts, layout, (top, bottom));
    }
    picture.rule((LEFT, bottom), (WIDTH - RIGHT, bottom), "axis");
    picture.text(LEFT, bottom + 20.0, "soft", "runs at once");
    picture.text(WIDTH - RIGHT, bottom + 20.0, "soft end", &format!("waits for {deepest} others, one after the other"));
    picture.height = bottom + 40.0;
    picture
}

/// Transactions per level, and which levels the path passes.
fn bars(picture: &mut Picture, counts: &[usize], layout: Layout<'_>, (top, bottom): (f64, f64)) {
    let size = counts.len().div_ceil(MAX_BARS);
    let sums: Vec<usize> = counts.chunks(size).map(|some| some.iter().sum()).collect();
    let most = sums.iter().copied().max().unwrap_or(1);
    let y = Scale::new(most as f64, 5, bottom, top);
    for (at, label) in y.ticks() {
        picture.rule((LEFT, at), (WIDTH - RIGHT, at), "grid");
        picture.text(LEFT - 8.0, at + 4.0, "soft end", &label);
    }
    let pitch = (WIDTH - RIGHT - LEFT) / sums.len() as f64;
    let mut on_path = vec![0usize; sums.len()];
    layout.path.iter().for_each(|tx| on_path[layout.levels[*tx as usize] as usize / size] += 1);
    for (index, (sum, path)) in sums.iter().zip(on_path).enumerate() {
        let left = (index as f64).mul_add(pitch, LEFT);
        let mut bar = |count: usize, class: &str, what: &str| {
            let high = bottom - y.at(count as f64);
            let tip = format!("levels {} to {}: {count} {what}", index * size, (index + 1) * size - 1);
            picture.rect((left, bottom - high), ((pitch - 1.0).max(0.6), high), class, &tip);
        };
        bar(*sum, "f4", "transactions");
        bar(path, "f6", "on the critical path");
    }
}

fn dot(picture: &mut Picture, (x, y): (f64, f64), class: &str, tip: &str, r: f64) {
    let d = format!("M{} {}m-{r} 0a{r} {r} 0 1 0 {w} 0a{r} {r} 0 1 0 -{w} 0", number(x), number(y), w = 2.0 * r);
    picture.path(&d, class, tip);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_dots_with_edges_and_many_are_bars() {
        let layout = Layout { levels: &[0, 0, 1], edges: &[(0, 2)], path: &[0, 2] };
        let svg = graph("t", "s", layout, |tx| format!("transaction <{tx}>")).inline();
        assert_eq!(svg.matches("transaction &lt;2&gt;").count(), 2, "once itself, once on the path");
        assert!(svg.contains("waits for 1 others"));
        let levels: Vec<u32> = (0..5000).map(|tx| tx / 10).collect();
        let path: Vec<u32> = (0..500).map(|level| level * 10).collect();
        let svg = graph("t", "s", Layout { levels: &levels, edges: &[], path: &path }, |_| String::new()).inline();
        assert!(svg.contains("levels 0 to 3: 40 transactions") && svg.contains("4 on the critical path"), "{svg}");
        let none = Layout { levels: &[], edges: &[], path: &[] };
        assert!(graph("t", "s", none, |_| String::new()).inline().contains("empty"));
    }
}
