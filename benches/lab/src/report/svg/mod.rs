//! Small plots as SVG: lines, stacked bars, dots, graphs. They work alone and inside a page, in light and dark mode.
//!
//! Colours are Okabe and Ito's, distinct for any colour vision. Lines also differ in their dashes, dots in their shapes, and
//! long bar segments bear their names. Figures and names are in tooltips (`<title>`).

mod bars;
mod dots;
mod graph;
mod line;
mod scale;
mod picture;
mod origin;

pub use bars::{Bar, Segment, stacked};
pub(crate) use dots::{Dots, dots};
pub use graph::{Layout, graph};
pub(crate) use line::ratios;
pub use line::{Line, Published, lines, lines_beside};
pub use origin::Origin;
pub use picture::Picture;
pub(crate) use picture::STYLE;
