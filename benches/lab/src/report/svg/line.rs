//! Lines over time, or over a varied setting.

use super::{
    picture::{Picture, RIGHT, WIDTH, number},
    scale::Scale,
};
use crate::report::text;

/// Maximum number of points drawn per line.
const MAX_POINTS: usize = 240;
/// Lines of more points get no dots.
const MAX_DOTS: usize = 80;
/// Height of the plotting area.
const PLOT: f64 = 260.0;
/// Room for the labels of the vertical axis.
const LEFT: f64 = 68.0;

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Text of the tooltip.
    pub label: String,
    /// Lines of one group share their colour and their entry in the legend.
    pub group: usize,
    /// Points; values that are not finite or below zero are left out.
    pub points: Vec<(f64, f64)>,
}

/// Numbers of a paper, drawn as squares beside the lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Group that it is compared with, and whose colour it has; a series of its own if there is no such group.
    pub series: String,
    /// Entry in the legend.
    pub label: String,
    /// Place in the paper, below the picture.
    pub source: String,
    /// Points; values that are not finite or below zero are left out.
    pub points: Vec<(f64, f64)>,
}

/// Lines over a common axis, with `groups` as legend. `y_label` is below the title, `x_label` below the axis.
pub fn lines(title: &str, y_label: &str, x_label: &str, groups: &[String], lines: &[Line]) -> Picture {
    lines_beside([title, y_label, x_label], groups, lines, &[])
}

/// [`lines`] with a paper's numbers beside them; title, label of the vertical axis and of the horizontal one.
pub fn lines_beside(
    [title, y_label, x_label]: [&str; 3],
    groups: &[String],
    lines: &[Line],
    published: &[Published],
) -> Picture {
    drawn(title, [x_label, y_label], groups, lines, published, |points, marks, from, to| {
        Scale::new(points.fold(0.0, f64::max), marks, from, to)
    })
}

/// [`lines_beside`] on logarithmic axes: proportional growth is a straight line.
pub(crate) fn ratios(
    [title, y_label, x_label]: [&str; 3],
    groups: &[String],
    lines: &[Line],
    published: &[Published],
) -> Picture {
    drawn(title, [x_label, y_label], groups, lines, published, |points, _, from, to| {
        let reach = |(least, most): (f64, f64), point: f64| (least.min(point), most.max(point));
        let (least, most) = points.fold((f64::INFINITY, 0.0), reach);
        Scale::logarithmic(least, most, from, to)
    })
}

/// Draws lines; each axis is `scaled` from its points, its number of marks, and its ends.
fn drawn(
    title: &str,
    [x_label, y_label]: [&str; 2],
    groups: &[String],
    lines: &[Line],
    published: &[Published],
    scaled: impl Fn(&mut dyn Iterator<Item = f64>, u32, f64, f64) -> Scale,
) -> Picture {
    let mut picture = Picture::new(title, y_label);
    let lines: Vec<(&Line, Vec<(f64, f64)>)> = lines.iter().map(|line| (line, thinned(&line.points))).collect();
    let marks: Vec<_> = published
        .iter()
        .enumerate()
        .map(|(at, mark)| {
            let alike = groups.iter().position(|group| group.starts_with(&mark.series)).unwrap_or(groups.len() + at);
            (alike, mark, thinned(&mark.points))
        })
        .collect();
    let points = || lines.iter().flat_map(|(_, points)| points).chain(marks.iter().flat_map(|(_, _, points)| points));
    if points().next().is_none() {
        return picture.empty("No samples were taken.");
    }
    let top = 14.0
        + picture.legend(
            groups.iter().map(String::as_str).chain(published.iter().map(|mark| mark.label.as_str())),
            |picture, entry, x, y| match entry.checked_sub(groups.len()) {
                None => picture.rule((x, y), (x + 26.0, y), &format!("l {}", style(entry))),
                Some(mark) => square(picture, (x + 13.0, y), marks[mark].0, &published[mark].label),
            },
        );
    let bottom = top + PLOT;
    // Whole amounts, as of threads, have no marks between them.
    let most = points().map(|p| p.0).fold(0.0, f64::max);
    let along = if points().all(|p| p.0.fract() == 0.0) { most.clamp(1.0, 8.0) as u32 } else { 8 };
    let x = scaled(&mut points().map(|p| p.0), along, LEFT, WIDTH - RIGHT);
    let y = scaled(&mut points().map(|p| p.1), 5, bottom, top);
    for (at, label) in y.ticks() {
        picture.rule((LEFT, at), (WIDTH - RIGHT, at), "grid");
        picture.text(LEFT - 8.0, at + 4.0, "soft end", &label);
    }
    for (at, label) in x.ticks() {
        picture.rule((at, bottom), (at, bottom + 5.0), "axis");
        picture.text(at, bottom + 20.0, "soft mid", &label);
    }
    picture.rule((LEFT, bottom), (WIDTH - RIGHT, bottom), "axis");
    picture.text(f64::midpoint(LEFT, WIDTH - RIGHT), bottom + 42.0, "soft mid", x_label);
    for (line, points) in &lines {
        draw(&mut picture, line, points, (x, x_label), y);
    }
    for (colour, mark, points) in &marks {
        for point in points {
            let tip = format!("{}\n{}\n{x_label}: {}", mark.label, text::count(point.1), text::figure(point.0));
            square(&mut picture, (x.at(point.0), y.at(point.1)), *colour, &tip);
        }
    }
    picture.height = bottom + 56.0;
    let mut sources: Vec<&str> = Vec::new();
    published.iter().map(|mark| mark.source.as_str()).for_each(|source| {
        if !sources.contains(&source) {
            sources.push(source);
        }
    });
    picture.is_beside_paper = marks.iter().any(|(.., points)| !points.is_empty());
    sources.into_iter().fold(picture, |picture, source| picture.noted(&format!("Squares: {source}")))
}

fn draw(picture: &mut Picture, line: &Line, points: &[(f64, f64)], (x, x_label): (Scale, &str), y: Scale) {
    let class = style(line.group);
    let places = points.iter().map(|p| format!("{} {}", number(x.at(p.0)), number(y.at(p.1)))).collect::<Vec<_>>();
    if points.len() > 1 {
        picture.path(&format!("M{}", places.join("L")), &format!("l {class}"), &line.label);
    }
    if points.len() <= MAX_DOTS {
        for (at, point) in points.iter().enumerate() {
            let [along, value] = [text::figure(point.0), text::count(point.1)];
            // A circle, and not a path of no length, so that it has an area to point at.
            let place = &places[at];
            let dot = format!("M{place}m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0");
            picture.path(
                &dot,
                &format!("dot c{}", line.group % 7),
                &format!("{}\n{value}\n{x_label}: {along}", line.label),
            );
        }
    }
}

/// Mark of a paper's number: hollow, so that it is told from a dot without colours.
fn square(picture: &mut Picture, (x, y): (f64, f64), colour: usize, tip: &str) {
    let outline = format!("M{} {}h10v10h-10z", number(x - 5.0), number(y - 5.0));
    picture.path(&outline, &format!("dot hollow square c{}", colour % 7), tip);
}

/// Seven colours, then the same again in other dashes.
fn style(group: usize) -> String {
    format!("c{} d{}", group % 7, group / 7 % 4)
}

/// Drawable points in order, neighbours averaged if there are too many.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> =
        points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite() && *x >= 0.0 && *y >= 0.0).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let size = points.len().div_ceil(MAX_POINTS).max(1);
    let mean = |some: &[(f64, f64)]| {
        let share = 1.0 / some.len() as f64;
        // A group has the time of its last point, as a sample has the end of its interval.
        let x = some.last().map_or(0.0, |p| p.0);
        (x, some.iter().map(|p| p.1 * share).sum())
    };
    points.chunks(size).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_mean_and_end() {
        let points: Vec<(f64, f64)> = (1..=9600).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        let thin = thinned(&points);
        assert_eq!(thin.len(), MAX_POINTS);
        assert_eq!(thin.last().map(|p| p.0), Some(9600.0));
        let mean = |p: &[(f64, f64)]| p.iter().map(|p| p.1).sum::<f64>() / p.len() as f64;
        assert!((mean(&thin) - mean(&points)).abs() < 1e-9);
        assert_eq!(thinned(&[(2.0, 1.0), (f64::NAN, 1.0), (1.0, 3.0), (3.0, f64::INFINITY)]), [(1.0, 3.0), (2.0, 1.0)]);
    }

    #[test]
    fn a_single_point_is_a_dot() {
        let one = Line { label: "a".into(), group: 0, points: vec![(0.0, 5.0)] };
        let svg = lines("t", "y", "x", &["a".into()], &[one]).inline();
        assert_eq!(svg.matches("class=\"dot c0\"").count(), 1);
        assert!(lines("t", "y", "x", &[], &[]).inline().contains("No samples"));
        let threads = Line { label: "a".into(), group: 0, points: vec![(1.0, 5.0), (2.0, 7.0)] };
        let svg = lines("t", "y", "threads", &["a".into()], &[threads]).inline();
        assert!(svg.contains(">1</text>") && !svg.contains(">0.5") && !svg.contains(">1.5"), "{svg}");
    }

    #[test]
    fn a_papers_numbers_are_squares_in_the_colour_of_their_series() {
        let ours = Line { label: "b, fast".into(), group: 1, points: vec![(1.0, 2.0), (2.0, 3.0)] };
        let of = |series: &str, points| Published {
            series: series.into(),
            label: format!("paper: {series}"),
            source: "Paper, Figure 1".into(),
            points,
        };
        let groups = ["a".to_owned(), "b, fast".to_owned()];
        let marks = [of("b, fast", vec![(1.5, 100.0)]), of("new", vec![(1.0, 5.0), (f64::NAN, 1.0)])];
        for svg in [
            lines_beside(["t", "y", "x"], &groups, core::slice::from_ref(&ours), &marks).inline(),
            ratios(["t", "y", "x"], &groups, core::slice::from_ref(&ours), &marks).inline(),
        ] {
            // A square in the legend, and one per point.
            assert_eq!(svg.matches("hollow square c1").count(), 2, "{svg}");
            assert_eq!(svg.matches("hollow square c3").count(), 2, "{svg}");
            assert!(svg.contains("paper: b, fast\n100"), "{svg}");
            assert_eq!(svg.matches("Squares: Paper, Figure 1").count(), 1, "{svg}");
        }
        // The axis reaches them.
        let svg = lines_beside(["t", "y", "x"], &groups, &[ours], &marks[..1]).inline();
        assert!(svg.contains(">100<"), "{svg}");
    }
}
