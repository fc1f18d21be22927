//! Horizontal bars made of segments.

use super::{
    picture::{Picture, WIDTH, gutter, width},
    scale::Scale,
};
use crate::report::{summary::amount, text};

/// Height of a bar, and from one bar to the next.
const BAR: f64 = 26.0;
const PITCH: f64 = 40.0;
/// Room for the total at the end of a bar.
const TOTAL: f64 = 124.0;

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Label before the bar.
    pub label: String,
    /// Label at the end of the bar.
    pub total: String,
    /// Segments from the left.
    pub segments: Vec<Segment>,
}

/// A part of a bar.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Name in legend and tooltip. Segments of one name share a colour.
    pub name: &'static str,
    /// Length; a value that is not positive and finite is not drawn.
    pub value: f64,
    /// Colour, `0..9`; the last is grey.
    pub colour: usize,
}

/// Bars over a common axis of `unit`.
pub fn stacked(title: &str, subtitle: &str, unit: &str, bars: &[Bar]) -> Picture {
    let mut picture = Picture::new(title, subtitle);
    let sum = |bar: &Bar| bar.segments.iter().map(|s| amount(s.value)).sum::<f64>();
    let largest = bars.iter().map(sum).fold(0.0, f64::max);
    if largest == 0.0 {
        return picture.empty("No processor time was measured.");
    }
    let mut legend: Vec<(usize, &str)> = Vec::new();
    for segment in bars.iter().flat_map(|bar| &bar.segments).filter(|s| amount(s.value) > 0.0) {
        if !legend.contains(&(segment.colour, segment.name)) {
            legend.push((segment.colour, segment.name));
        }
    }
    legend.sort_unstable();
    let top = 8.0
        + picture.legend(legend.iter().map(|(_, name)| *name), |picture, i, x, y| {
            picture.rect((x + 10.0, y - 7.0), (14.0, 14.0), &format!("f{}", legend[i].0), legend[i].1);
        });
    let (left, fitting) = gutter(bars.iter().map(|bar| bar.label.as_str()));
    let bottom = (bars.len() as f64).mul_add(PITCH, top);
    let scale = Scale::new(largest, 6, left, WIDTH - TOTAL);
    for (at, label) in scale.ticks() {
        picture.rule((at, top), (at, bottom), "grid");
        picture.text(at, bottom + 18.0, "soft mid", &label);
    }
    picture.text(f64::midpoint(left, WIDTH - TOTAL), bottom + 40.0, "soft mid", unit);
    for (i, bar) in bars.iter().enumerate() {
        let y = (i as f64).mul_add(PITCH, top + (PITCH - BAR) / 2.0);
        picture.text(left - 12.0, y + 17.5, "end", &text::line(&bar.label, fitting));
        let end = draw(&mut picture, bar, scale, y, unit);
        picture.text(end + 9.0, y + 17.5, "strong", &bar.total);
    }
    picture.rule((left, top), (left, bottom), "axis");
    picture.height = bottom + 54.0;
    picture
}

/// Draws a bar and returns its end.
fn draw(picture: &mut Picture, bar: &Bar, scale: Scale, y: f64, unit: &str) -> f64 {
    let mut before = 0.0;
    for segment in bar.segments.iter().filter(|s| amount(s.value) > 0.0) {
        let (from, to) = (scale.at(before), scale.at(before + segment.value));
        before += segment.value;
        let value = text::figure(segment.value);
        // A gap between neighbours, but never so wide that a thin segment vanishes.
        let drawn = (to - from - 1.5).max(0.6);
        let tip = format!("{}\n{}: {value} {unit}", bar.label, segment.name);
        picture.rect((from, y), (drawn, BAR), &format!("f{}", segment.colour), &tip);
        let class = format!("on on{} mid small", segment.colour);
        let both = format!("{} {value}", segment.name);
        let label = [both.as_str(), segment.name].into_iter().find(|label| width(label) + 8.0 < drawn);
        if let Some(label) = label {
            picture.text(from + drawn / 2.0, y + 17.0, &class, label);
        }
    }
    scale.at(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_each_other_and_name_themselves_where_there_is_room() {
        let segment = |name, value, colour| Segment { name, value, colour };
        let segments = vec![
            segment("big", 3.0, 4),
            segment("none", 0.0, 1),
            segment("odd", f64::NAN, 2),
            segment("thin", 0.01, 6),
        ];
        let bar = Bar { label: "a <b>".into(), total: "3.01".into(), segments };
        let svg = stacked("t", "s", "µs", &[bar]).inline();
        assert!(svg.contains(">big 3.00</text>") && svg.contains("a &lt;b&gt;\nthin: 0.01 µs"), "{svg}");
        assert!(!svg.contains("none") && !svg.contains("odd"));
        assert!(stacked("t", "s", "µs", &[]).inline().contains("No processor time"));
    }
}
