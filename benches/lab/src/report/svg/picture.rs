//! The frame of every picture: size, legend, title.

use super::origin::Origin;
use crate::report::text::{self, escape};
use std::fmt::Write as _;

/// Colours of all plots, by class. A page that holds plots inline includes it once.
pub(crate) const STYLE: &str = include_str!("plot.css");

/// Width of every picture, in SVG units.
pub(super) const WIDTH: f64 = 960.0;
/// Room at the right edge.
pub(super) const RIGHT: f64 = 28.0;
/// Height of a line of a legend.
const LEGEND: f64 = 22.0;
/// Mean width of a character at the size of labels. Browsers differ; plots only need to be about right.
const CHARACTER: f64 = 6.9;

/// Height of a line of small text below the drawing.
const LINE: f64 = 17.0;

/// A finished drawing: title, subtitle, legend, the drawing itself, and notes.
///
/// As a file it is one SVG. In a page only the drawing is SVG, and all text around it is the page's own, which wraps on a narrow
/// screen.
#[derive(Clone, Debug)]
pub struct Picture {
    title: String,
    subtitle: String,
    /// Entries of the legend, each with the SVG of its sample.
    entries: Vec<(String, String)>,
    /// SVG of titles and legend.
    front: String,
    /// Upper end of the drawing.
    top: f64,
    /// Lower end of the drawing.
    pub(super) height: f64,
    pub(super) body: String,
    warnings: Vec<String>,
    /// Text below the drawing: sources and origins.
    notes: Vec<String>,
    /// True if a paper's own numbers are in it.
    pub(super) is_beside_paper: bool,
}

impl Picture {
    /// The picture for a page that includes [`STYLE`]: the drawing as SVG, with its text as HTML around it.
    pub(crate) fn inline(&self) -> String {
        let sample = |(entry, sample): &(String, String)| {
            let swatch =
                format!("<svg class=\"plot swatch\" viewBox=\"0 0 26 16\" aria-hidden=\"true\">{sample}</svg>");
            format!("<li>{swatch} {}</li>\n", escape(entry))
        };
        let entries: String = self.entries.iter().map(sample).collect();
        let legend = if entries.is_empty() { entries } else { format!("<ul class=\"legend\">\n{entries}</ul>\n") };
        let line = |class: &str, text: &str| format!("<p class=\"{class}\">{}</p>\n", escape(text));
        let warnings: String = self.warnings.iter().map(|text| line("doubt", &format!("⚠ {text}"))).collect();
        let notes: String = self.notes.iter().map(|text| line("fine", text)).collect();
        let subtitle = if self.subtitle.is_empty() { String::new() } else { line("fine", &self.subtitle) };
        format!(
            "<h3>{title}</h3>\n{subtitle}{legend}<div class=\"scroll\">{svg}</div>\n{warnings}{notes}",
            title = escape(&self.title),
            svg = self.svg((self.top, self.height), &self.body),
        )
    }

    /// SVG as a file, with its origin below the drawing.
    pub fn standalone(&self, origin: &Origin) -> String {
        let (mut below, mut height) = (Self::new("", ""), self.height);
        below.body.clear();
        let warnings = self.warnings.iter().map(|text| ("warn", format!("⚠ {text}")));
        let notes = self.notes.iter().chain(origin.lines()).map(|text| ("soft tiny", text.clone()));
        for (class, text) in warnings.chain(notes) {
            height = below.below(height, class, &text);
        }
        let paper = format!("<style>{STYLE}</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>");
        self.svg((0.0, height), &format!("{paper}\n{}{}{}", self.front, self.body, below.body))
    }

    /// The picture with warnings below the drawing: a reason to doubt a figure belongs into the picture of it.
    #[must_use]
    pub fn warned(mut self, warnings: &[String]) -> Self {
        self.warnings.extend_from_slice(warnings);
        self
    }

    /// True if a paper's own numbers are drawn beside ours.
    pub const fn is_beside_paper(&self) -> bool {
        self.is_beside_paper
    }

    /// Title above the drawing.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Warnings below the drawing.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Adds a note below the drawing.
    #[must_use]
    pub fn noted(mut self, note: &str) -> Self {
        self.notes.push(note.to_owned());
        self
    }

    /// Adds text at a height, wrapped to the width, and returns its end.
    fn below(&mut self, mut height: f64, class: &str, text: &str) -> f64 {
        for line in text::wrapped(text, ((WIDTH - 40.0) / CHARACTER) as usize) {
            // Words that are longer than a line, such as paths, are cut into pieces.
            let letters: Vec<char> = line.chars().collect();
            for piece in letters.chunks(((WIDTH - 40.0) / CHARACTER) as usize) {
                self.text(20.0, height + 4.0, class, &piece.iter().collect::<String>());
                height += LINE;
            }
        }
        height
    }

    fn svg(&self, (top, bottom): (f64, f64), content: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 {top} {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{title}\">{content}</svg>\n",
            top = number(top),
            height = number(bottom - top),
            title = escape(&self.title),
        )
    }

    pub(super) fn new(title: &str, subtitle: &str) -> Self {
        let mut picture = Self {
            title: title.to_owned(),
            subtitle: subtitle.to_owned(),
            entries: Vec::new(),
            front: String::new(),
            top: 60.0,
            height: 0.0,
            body: String::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            is_beside_paper: false,
        };
        picture.text(20.0, 28.0, "head", title);
        picture.text(20.0, 48.0, "soft", subtitle);
        picture.front = core::mem::take(&mut picture.body);
        picture
    }

    /// Adds text; `class` sets alignment: `end`, `mid` or the default.
    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let (x, y, text) = (number(x), number(y), escape(text));
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>");
    }

    pub(super) fn rule(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let (x1, y1, x2, y2) = (number(from.0), number(from.1), number(to.0), number(to.1));
        let _ = writeln!(self.body, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>");
    }

    pub(super) fn rect(&mut self, at: (f64, f64), size: (f64, f64), class: &str, tip: &str) {
        let (x, y, width, height) = (number(at.0), number(at.1), number(size.0), number(size.1));
        let _ = write!(self.body, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" class=\"{class}\">");
        let _ = writeln!(self.body, "<title>{}</title></rect>", escape(tip));
    }

    pub(super) fn path(&mut self, d: &str, class: &str, tip: &str) {
        let _ = writeln!(self.body, "<path d=\"{d}\" class=\"{class}\"><title>{}</title></path>", escape(tip));
    }

    /// Lays entries out in rows below the titles; `swatch` draws the sample of each, 26 units wide. Returns the end of the last
    /// row.
    pub(super) fn legend<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a str>,
        mut swatch: impl FnMut(&mut Self, usize, f64, f64),
    ) -> f64 {
        let (mut x, mut y) = (20.0, 74.0);
        for (i, entry) in entries.enumerate() {
            let entry = text::line(entry, 90);
            let width = 34.0 + width(&entry) + 18.0;
            if x > 20.0 && x + width > WIDTH {
                (x, y) = (20.0, y + LEGEND);
            }
            let before = core::mem::take(&mut self.body);
            swatch(self, i, 0.0, 8.0);
            let sample = core::mem::replace(&mut self.body, before);
            swatch(self, i, x, y - 4.5);
            self.text(x + 34.0, y, "", &entry);
            x += width;
            self.entries.push((entry, sample));
        }
        self.front.push_str(&core::mem::take(&mut self.body));
        self.top = y + 10.0;
        self.top
    }

    /// A picture with only the reason why it is empty.
    pub(super) fn empty(mut self, why: &str) -> Self {
        self.text(WIDTH / 2.0, 100.0, "soft mid", why);
        self.height = 130.0;
        self
    }
}

/// Coordinate to a tenth of a unit; a value that is not finite becomes the origin.
pub(super) fn number(value: f64) -> String {
    // Adding zero turns -0 into 0.
    let tenths = if value.is_finite() { (value * 10.0).round() / 10.0 + 0.0 } else { 0.0 };
    tenths.to_string()
}

/// Estimated width of `text`.
pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// Width of the longest of `labels`, at most a third of the picture, and the number of characters that fit into it.
pub(super) fn gutter<'a>(labels: impl Iterator<Item = &'a str>) -> (f64, usize) {
    let longest = labels.map(width).fold(60.0, f64::max);
    let room = longest.min(WIDTH / 3.0);
    (room + 32.0, (room / CHARACTER).round() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_always_numbers() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.04, 0.25, 12.0];
        assert_eq!(odd.map(number), ["0", "0", "0", "0", "0.3", "12"]);
    }

    #[test]
    fn legends_wrap_before_the_edge() {
        let mut picture = Picture::new("t", "s");
        let entries = vec!["a name of some forty characters, or so it seems"; 9];
        let mut places = Vec::new();
        let end = picture.legend(entries.into_iter(), |_, _, x, y| places.push((x, y)));
        // Each sample is drawn once for a file and once, in a corner, for a page.
        let places: Vec<_> = places.into_iter().skip(1).step_by(2).collect();
        assert!(places.iter().all(|(x, _)| *x < WIDTH / 2.0) && places.len() == 9, "{places:?}");
        assert!(places.windows(2).all(|p| p[0].1 < p[1].1 || p[0].0 < p[1].0) && end > places[8].1);
    }

    #[test]
    fn in_a_page_text_is_outside_of_the_drawing_and_a_file_has_it_all() {
        let mut picture = Picture::new("Latency <ms>", "of blocks");
        let top = picture.legend(["ours"].into_iter(), |picture, _, x, y| picture.rule((x, y), (x + 26.0, y), "l c0"));
        picture.text(50.0, top + 20.0, "", "in the drawing");
        picture.height = top + 40.0;
        let picture = picture.warned(&["NOT SURE".into()]).noted("Squares: a paper");
        let (page, file) = (picture.inline(), picture.standalone(&Origin::here("phalanx demo")));
        let drawing = &page[page.rfind("<svg").expect("a drawing")..page.rfind("</svg>").expect("its end")];
        for word in ["of blocks", "ours", "NOT SURE", "Squares: a paper"] {
            assert!(page.contains(word) && !drawing.contains(word) && file.contains(word), "{word}: {page}");
        }
        assert!(drawing.contains("in the drawing") && drawing.contains("viewBox=\"0 84 960 40\""), "{drawing}");
        assert!(page.contains("<h3>Latency &lt;ms&gt;</h3>") && file.contains("$ phalanx demo"), "{page}");
        assert_eq!((page.matches("<svg").count(), file.matches("<svg").count()), (2, 1), "a sample and the drawing");
    }
}
