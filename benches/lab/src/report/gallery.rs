//! A folder of pictures with their points, and a page that shows all of them.

use super::{
    html,
    svg::{Origin, Picture},
};
use crate::machine::temporary;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Result in a sentence, and how far it may be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The result.
    pub what: String,
    /// Number of runs, comparison with an oracle, or why the figures do not vary.
    pub sure: String,
}

/// Pictures of one command.
#[derive(Clone, Debug)]
pub struct Gallery<'a> {
    /// Title of the page.
    pub title: &'a str,
    /// First thing on the page; left out if there is none.
    pub claim: Option<Claim>,
    /// Reasons to doubt the claim beside the warnings of the pictures.
    pub doubts: Vec<String>,
    /// The table that the command prints.
    pub table: &'a str,
    /// Names of files, without extension, and their pictures.
    pub pictures: Vec<(String, Picture)>,
    /// Name of a file with a row per point, and its content.
    pub rows: Option<(&'a str, String)>,
    /// The exact command.
    pub command: &'a str,
}

impl Gallery<'_> {
    /// Writes the pictures, the rows and `index.html` into `dir`, which is made if it is missing. Returns the path of the page.
    ///
    /// # Errors
    /// When the folder cannot be made or a file cannot be written; files written before that stay.
    pub fn write(&self, dir: &Path) -> io::Result<PathBuf> {
        let origin = Origin::here(self.command);
        let pictures = self.pictures.iter().map(|(name, picture)| (format!("{name}.svg"), picture.standalone(&origin)));
        let mut files: Vec<(String, String)> = pictures.collect();
        files.extend(self.rows.as_ref().map(|(name, rows)| ((*name).to_owned(), rows.clone())));
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let page = html::gallery(self, &origin, &names);
        fs::create_dir_all(dir)?;
        for (name, content) in files.iter().map(|(name, content)| (name.as_str(), content)).chain([(PAGE, &page)]) {
            temporary::write_whole(&dir.join(name), content.as_bytes())?;
        }
        Ok(dir.join(PAGE))
    }
}

/// Name of the page.
const PAGE: &str = "index.html";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::svg::{Line, lines};

    #[test]
    fn a_page_shows_every_picture_with_its_command() {
        let line = Line { label: "ours".into(), group: 0, points: vec![(1.0, 2.0), (2.0, 3.0)] };
        let picture = lines("Latency <1>", "ms", "tps", &["ours".into()], &[line]).warned(&["NOT SURE: ours".into()]);
        let dir = tempfile::tempdir().unwrap();
        let gallery = Gallery {
            title: "Figures & more",
            claim: Some(Claim { what: "1 < 2 tps".into(), sure: "median of 3 runs".into() }),
            doubts: vec!["load: 9.0".into()],
            table: "tps  ms\n  1 < 2\n",
            pictures: vec![("figure-5".into(), picture.clone()), ("figure-6".into(), picture)],
            rows: Some(("points.csv", "tps,ms\n1,2\n".into())),
            command: "phalanx simulate zaptos --figure 5",
        };
        let page = gallery.write(&dir.path().join("deep")).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        assert_eq!(text.matches("role=\"img\"").count(), 2, "{text}");
        for word in
            ["Figures &amp; more", "1 &lt; 2", "points.csv", "figure-5.svg", "NOT SURE: ours", "--figure 5", "commit"]
        {
            assert!(text.contains(word), "{word}: {text}");
        }
        // The claim comes first, with every doubt once: a warning of two pictures, and the machine's condition.
        let card = text.split("<section").next().unwrap();
        for part in ["claim caution", "1 &lt; 2 tps", "median of 3 runs", "<p>load: 9.0</p>"] {
            assert!(card.contains(part), "{part}: {card}");
        }
        assert_eq!(card.matches("NOT SURE: ours").count(), 1, "{card}");
        assert!(text.contains("<pre class=\"table\">"), "columns stay columns: {text}");
        let sure = Gallery { doubts: Vec::new(), pictures: Vec::new(), ..gallery.clone() };
        assert!(fs::read_to_string(sure.write(&dir.path().join("sure")).unwrap()).unwrap().contains("claim good"));
        assert!(!text.contains("<script") && !text.contains("src="), "{text}");
        let drawn = fs::read_to_string(page.with_file_name("figure-6.svg")).unwrap();
        assert!(drawn.contains("$ phalanx simulate zaptos --figure 5") && drawn.contains("⚠ NOT SURE"), "{drawn}");
        assert_eq!(fs::read_to_string(page.with_file_name("points.csv")).unwrap(), "tps,ms\n1,2\n");
        assert!(gallery.write(&page).is_err(), "a file is in the way");
    }
}
