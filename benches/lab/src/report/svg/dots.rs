//! Quantiles as dots on a line.

use super::{
    picture::{Picture, WIDTH, gutter, number},
    scale::Scale,
};
use crate::report::{summary::amount, text};

/// From one line to the next.
const PITCH: f64 = 34.0;
/// Room for the figures at the end of a line.
const FIGURES: f64 = 200.0;

/// A line of dots.
#[derive(Clone, Debug)]
pub(crate) struct Dots {
    /// Label before the line.
    pub(crate) label: String,
    /// Values by name, in rising order.
    pub(crate) values: [f64; 4],
}

/// Lines of dots over a common axis of `unit`; `names` are the dots' names.
pub(crate) fn dots(title: &str, subtitle: &str, unit: &str, names: [&str; 4], rows: &[Dots]) -> Picture {
    let mut picture = Picture::new(title, subtitle);
    let largest = rows.iter().flat_map(|row| row.values).fold(0.0, |most: f64, v| most.max(amount(v)));
    if largest == 0.0 {
        return picture.empty("No block was timed.");
    }
    let top = 8.0
        + picture.legend(names.into_iter(), |picture, i, x, y| {
            mark(picture, i, (x + 18.0, y), names[i]);
        });
    let (left, fitting) = gutter(rows.iter().map(|row| row.label.as_str()));
    let bottom = (rows.len() as f64).mul_add(PITCH, top);
    let scale = Scale::new(largest, 6, left, WIDTH - FIGURES);
    for (at, label) in scale.ticks() {
        picture.rule((at, top), (at, bottom), "grid");
        picture.text(at, bottom + 18.0, "soft mid", &label);
    }
    picture.text(f64::midpoint(left, WIDTH - FIGURES), bottom + 40.0, "soft mid", unit);
    for (i, row) in rows.iter().enumerate() {
        let y = (i as f64 + 0.5).mul_add(PITCH, top);
        let at = row.values.map(|value| scale.at(amount(value)));
        picture.text(left - 12.0, y + 4.5, "end", &text::line(&row.label, fitting));
        picture.rule((at[0], y), (at[3], y), "span c0");
        // The median is drawn last, on top of the others.
        for dot in (0..4).rev() {
            let tip = format!("{}\n{}: {} {unit}", row.label, names[dot], text::figure(row.values[dot]));
            mark(&mut picture, dot, (at[dot], y), &tip);
        }
        let figures = row.values.map(text::figure).join(" / ");
        picture.text(WIDTH - FIGURES + 16.0, y + 4.5, "soft", &figures);
    }
    picture.rule((left, top), (left, bottom), "axis");
    picture.height = bottom + 54.0;
    picture
}

/// Disc, ring, diamond, stroke.
fn mark(picture: &mut Picture, shape: usize, (x, y): (f64, f64), tip: &str) {
    let place = format!("M{} {}", number(x), number(y));
    let (outline, class) = match shape {
        0 => ("m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0", "dot c0"),
        1 => ("m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "dot hollow c0"),
        2 => ("m-5.5 0l5.5 -5.5l5.5 5.5l-5.5 5.5z", "dot c1"),
        _ => ("m-1 -7h2v14h-2z", "dot c1"),
    };
    picture.path(&(place + outline), class, tip);
}
