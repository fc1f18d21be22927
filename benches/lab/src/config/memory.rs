//! Part of the state in memory.

use super::bytes;
use phalanx::merkle::Memory;

/// Reads `resident` or `cached:BYTES`.
///
/// # Errors
/// If `word` is neither.
pub fn memory(word: &str) -> Result<Memory, String> {
    let refused = || "expected resident or cached:BYTES".to_owned();
    match word.split_once(':') {
        None if word == "resident" => Ok(Memory::Resident),
        Some(("cached", number)) => {
            let bytes = bytes(number).ok().and_then(|bytes| usize::try_from(bytes).ok());
            bytes.map(|bytes| Memory::Cached { bytes }).ok_or_else(refused)
        }
        _ => Err(refused()),
    }
}

/// The word that [`memory`] reads, with the number in bytes.
pub fn memory_word(memory: Memory) -> String {
    match memory {
        Memory::Resident => "resident".to_owned(),
        Memory::Cached { bytes } => format!("cached:{bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written() {
        for (word, shown) in [("resident", "resident"), ("cached:0", "cached:0"), ("cached:64M", "cached:67108864")] {
            assert_eq!(memory_word(memory(word).unwrap()), shown);
        }
        for word in ["", "cached", "cached:", "cached:x", "resident:1", "cached:-1"] {
            assert!(memory(word).unwrap_err().contains("expected"), "{word}");
        }
    }
}
