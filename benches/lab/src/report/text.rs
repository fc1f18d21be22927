//! Words and numbers for people, safe inside HTML, SVG and a terminal.

/// Text in place of a missing figure.
pub const NONE: &str = "—";

/// Escapes text for HTML and XML, between tags or in a quoted attribute. Characters that XML cannot hold become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A line of at most `max` characters. Control characters, and so escape sequences of terminals, become blanks.
pub(crate) fn line(text: &str, max: usize) -> String {
    let mut out: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if out.chars().count() > max {
        out = out.chars().take(max.saturating_sub(1)).collect();
        out.push('…');
    }
    out
}

/// Lines of at most `width` characters, broken between words; a longer word has a line of its own. Control characters become
/// blanks.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let (text, mut lines) = (line(text, usize::MAX), Vec::<String>::new());
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `1 thread`, `2 threads`.
pub fn threads(count: usize) -> String {
    counted(count, "thread")
}

/// A count and its noun: `1 block`, `2,000 blocks`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{} {noun}s", self::count(count as f64)) }
}

/// Verdict of an oracle in words, after "results".
pub(crate) fn compared(oracle: &str) -> &'static str {
    match oracle {
        "match" => "all equal to sequential revm's",
        "sampled" => "of the sampled blocks equal to sequential revm's",
        "off" => "not compared with sequential revm",
        _ => "DIFFER from sequential revm's",
    }
}

/// `; pinned to cores 0, 2`, core *i* of worker *i*; of many cores their number and ends. Empty for none.
pub fn pinned(cores: &[usize]) -> String {
    match cores {
        [] => String::new(),
        [core] => format!("; pinned to core {core}"),
        [first, .., last] if cores.len() > 8 => format!("; pinned to {} cores, {first} .. {last}", cores.len()),
        cores => format!("; pinned to cores {}", cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Lines on pinning and touched memory, for output without the cores and scope of single runs.
pub(crate) fn prepared(pinned: bool, touched_gib: u64) -> String {
    let pinned = if pinned { "\nEach run was pinned to as many cores as it had threads.\n" } else { "" };
    pinned.to_owned() + &touched([touched_gib])
}

/// Line on memory that was touched before timers started, ascending; empty for none.
pub(crate) fn touched(gib: impl IntoIterator<Item = u64>) -> String {
    let gib: Vec<_> = gib.into_iter().map(|gib| gib.to_string()).collect();
    if gib == ["0"] {
        return String::new();
    }
    format!("\n{} GiB of memory was written to before the timer started.\n", gib.join(" or "))
}

/// A whole number with thousands separators; from 10^15 on in powers of ten.
pub fn count(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut out = String::with_capacity(digits.len() * 4 / 3 + 1);
    if value < 0.0 && digits != "0" {
        out.push('-');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// About three digits: `2.41`, `18.3`, `1,204`.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => NONE.to_owned(),
        v if v > 0.0 && v < 0.005 => "<0.01".to_owned(),
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => count(value),
    }
}

/// [`figure`] of a value that may be missing.
pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), figure)
}

/// A share as `46 %`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.0} %", share * 100.0) } else { NONE.to_owned() }
}

/// A size in binary units.
pub(crate) fn bytes(size: u64) -> String {
    let mut value = size as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if unit == "B" { format!("{size} B") } else { format!("{} {unit}", figure(value)) }
}

/// A root as `0x123456…abcdef`.
pub(crate) fn short_root(root: &str) -> String {
    let chars: Vec<char> = root.chars().collect();
    if chars.len() <= 20 {
        return line(root, 20);
    }
    let (head, tail): (String, String) = (chars[..8].iter().collect(), chars[chars.len() - 6..].iter().collect());
    line(&format!("{head}…{tail}"), 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let cases = [(0.0, "0"), (999.4, "999"), (1000.0, "1,000"), (812_345.2, "812,345"), (1_234_567.0, "1,234,567")];
        for (value, text) in cases {
            assert_eq!(count(value), text);
        }
        assert_eq!(count(-1234.0), "-1,234");
        assert_eq!(count(-0.1), "0");
        assert_eq!((count(1e300).as_str(), count(f64::NAN).as_str()), ("1.00e300", NONE));
        assert_eq!(
            [2.414, 9.999, 18.34, 99.99, 1204.0, 0.001, 0.0, f64::INFINITY].map(figure),
            ["2.41", "10.0", "18.3", "100", "1,204", "<0.01", "0.00", NONE]
        );
        assert_eq!(
            [0, 1023, 1024, 8 << 30, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.00 KiB", "8.00 GiB", "16,777,216 TiB"]
        );
        assert_eq!((percent(0.456).as_str(), percent(f64::NAN).as_str()), ("46 %", NONE));
    }

    #[test]
    fn pinned_cores_are_listed_briefly() {
        let told = |cores: &[usize]| pinned(cores);
        assert_eq!([told(&[]), told(&[3]), told(&[4, 0])], ["", "; pinned to core 3", "; pinned to cores 4, 0"]);
        assert_eq!(told(&(2..40).collect::<Vec<_>>()), "; pinned to 38 cores, 2 .. 39");
    }

    #[test]
    fn text_is_escaped_and_cut() {
        assert_eq!(
            escape("<a href='x'>\"&\"</a>\u{1b}"),
            "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt;\u{fffd}"
        );
        assert_eq!(line("\u{1b}[31mred\nline", 8), " [31mre…");
        assert_eq!(line("short", 5), "short");
        assert_eq!(short_root(&format!("0x{}", "ab".repeat(32))), "0xababab…ababab");
        assert_eq!(short_root("0x"), "0x");
        assert_eq!(short_root(&"é".repeat(40)).chars().count(), 15);
    }
}
