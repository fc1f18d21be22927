//! Positions that exporters and the checkpoint need, which pruning leaves in the log.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// First positions that are held.
#[derive(Debug, Default)]
pub(crate) struct Pins(Mutex<Vec<Weak<Pin>>>);

/// First position that one holder reads.
#[derive(Debug)]
pub(crate) struct Pin(u64);

impl Pins {
    /// Holds the log from a position on, as long as the pin is held.
    pub(crate) fn pin(&self, first: u64) -> Arc<Pin> {
        let pin = Arc::new(Pin(first));
        let mut pins = self.0.lock();
        pins.retain(|pin| pin.strong_count() > 0);
        pins.push(Arc::downgrade(&pin));
        pin
    }

    /// First position that is held.
    pub(crate) fn first(&self) -> Option<u64> {
        let pins = self.0.lock();
        pins.iter().filter_map(Weak::upgrade).map(|pin| pin.0).min()
    }
}
