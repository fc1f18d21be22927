//! Figures that the papers state, to be drawn beside ours. `points.csv` names figure and source of each.
//!
//! Only numbers of a paper's text, tables and captions are there: none is read off a picture.

use crate::report::svg::Published;

/// A number that a paper states.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Figure or table, as `zaptos-5`.
    pub figure: String,
    /// Series within it, by our name.
    pub series: String,
    /// Place on the axis of the figure.
    pub x: f64,
    /// The number.
    pub y: f64,
    /// True if the paper says "over".
    pub at_least: bool,
    /// Place in the paper, and its setting.
    pub source: String,
}

/// Numbers of a figure or table; none if the paper states none.
pub fn points(figure: &str) -> Vec<Point> {
    read(include_str!("points.csv")).into_iter().filter(|point| point.figure == figure).collect()
}

/// Marks of a figure, a series each, for the series that `draws`.
pub fn published(figure: &str, draws: impl Fn(&str) -> bool) -> Vec<Published> {
    let mut marks: Vec<Published> = Vec::new();
    for point in points(figure).into_iter().filter(|point| draws(&point.series)) {
        let sign = if point.at_least { "at least " } else { "" };
        let label = format!("paper: {sign}{}", point.series);
        match marks.iter_mut().find(|mark| mark.series == point.series) {
            Some(mark) => mark.points.push((point.x, point.y)),
            None => {
                let Point { series, x, y, source, .. } = point;
                marks.push(Published { series, label, source, points: vec![(x, y)] });
            }
        }
    }
    marks
}

/// Reads the table, whose fields may be quoted.
fn read(text: &str) -> Vec<Point> {
    text.lines().skip(1).filter_map(row).collect()
}

fn row(line: &str) -> Option<Point> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut()?.push(c),
        }
    }
    let [figure, series, x, y, bound, source] = <[String; 6]>::try_from(fields).ok()?;
    let at_least = match bound.as_str() {
        "is" => false,
        "at-least" => true,
        _ => return None,
    };
    Some(Point { figure, series, x: x.parse().ok()?, y: y.parse().ok()?, at_least, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read_and_names_its_source() {
        let text = include_str!("points.csv");
        let points = read(text);
        assert_eq!(points.len(), text.lines().count() - 1, "a row is malformed");
        for point in &points {
            assert!(point.source.starts_with("FAFO, ") || point.source.starts_with("Zaptos, "), "{point:?}");
            assert!(point.x >= 0.0 && point.y > 0.0 && !point.series.is_empty(), "{point:?}");
        }
        for (figure, count) in [("fafo-table-1", 2), ("fafo-4", 1), ("zaptos-5", 8), ("zaptos-8", 0)] {
            assert_eq!(super::points(figure).len(), count, "{figure}");
        }
        assert!(row("a,b,c,d,is,f").is_none() && row("a,b,1,2,maybe,f").is_none() && row("a,b").is_none());
    }

    #[test]
    fn marks_are_grouped_by_series() {
        let marks = published("zaptos-5", |series| series.starts_with("64"));
        assert_eq!(marks.iter().map(|mark| mark.points.len()).collect::<Vec<_>>(), [2, 2]);
        let over = &published("fafo-4", |_| true)[0];
        assert!(over.label == "paper: at least 1000" && over.source.starts_with("FAFO, caption"), "{over:?}");
    }
}
