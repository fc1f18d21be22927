//! Variants that are run now, beside each other: round by round, every second round in reverse.
//!
//! An even drift (temperature, neighbours, the page cache) meets all variants alike.

use super::samples::{Sample, Samples};
use crate::{
    error::{Different, Interrupted},
    ui::Ui,
};

/// Samples of all variants.
pub(super) struct Outcome {
    pub(super) variants: Vec<Samples>,
    pub(super) interrupted: bool,
}

/// Runs every variant `pairs` times; `once` runs a variant in a round, and gives `None` if the user stopped it.
pub(super) fn run(
    names: &[String],
    pairs: usize,
    once: &mut dyn FnMut(usize, usize) -> anyhow::Result<Option<Sample>>,
    ui: &Ui,
) -> anyhow::Result<Outcome> {
    let mut variants: Vec<Samples> =
        names.iter().map(|name| Samples { name: name.clone(), samples: Vec::with_capacity(pairs) }).collect();
    let bar = ui.bar("comparing", (pairs * names.len()) as u64);
    let mut interrupted = false;
    'rounds: for round in 0..pairs {
        for position in 0..names.len() {
            let index = if round.is_multiple_of(2) { position } else { names.len() - 1 - position };
            bar.set_message(format!("round {} of {pairs}: {}", round + 1, names[index]));
            let sample = match once(index, round) {
                Ok(Some(sample)) => sample,
                Err(error) if !error.is::<Interrupted>() => return Err(error),
                Ok(None) | Err(_) => {
                    interrupted = true;
                    break 'rounds;
                }
            };
            ui.say(&format!("round {} {}: {:.0} tx/s", round + 1, names[index], sample.tps));
            let samples = &mut variants[index].samples;
            if let Some(first) = samples.first()
                && first.state_root != sample.state_root
            {
                let (name, root) = (&names[index], &first.state_root);
                anyhow::bail!(Different(format!("{name} ended in {root} first and in {} later", sample.state_root)));
            }
            samples.push(sample);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    // An interrupted round is no pair.
    let complete = variants.iter().map(|variant| variant.samples.len()).min().unwrap_or(0);
    variants.iter_mut().for_each(|variant| variant.samples.truncate(complete));
    Ok(Outcome { variants, interrupted })
}
