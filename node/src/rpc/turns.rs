//! Turns of a WebSocket's requests: those that choose the chain run one after the other, in the order in which they were read.

use tokio::sync::oneshot;

/// Methods of the Engine API whose order counts, behind the namespace and without a version. A fork choice must be processed in the
/// order of its arrival, and a payload may be its head.
const ORDERED: [&str; 2] = ["forkchoiceUpdated", "newPayload"];

/// True for the body of a request that may be of an ordered method. One that is too many only waits. O(bytes).
pub(super) fn is_ordered(body: &[u8]) -> bool {
    // Other bytes are no JSON.
    let Ok(text) = core::str::from_utf8(body) else { return false };
    let is_name = |at: usize| {
        let rest = &text[at + 1..];
        text[..at].ends_with("engine") && ORDERED.iter().any(|name| rest.starts_with(name))
    };
    // An escape may hide a name. Both are searched for as single bytes, which takes little of a payload's megabytes.
    text.contains('\\') || text.match_indices('_').any(|(at, _)| is_name(at))
}

/// End of an earlier place: the channel is closed with that, or names a place before it.
#[derive(Debug)]
struct Before(oneshot::Receiver<Self>);

/// The line of one connection.
#[derive(Debug, Default)]
pub(super) struct Line {
    last: Option<Before>,
}

/// Place in a line. The next one begins once this is dropped, and all before are over.
#[derive(Debug)]
pub(super) struct Turn {
    before: Option<Before>,
    ends: Option<oneshot::Sender<Before>>,
}

impl Line {
    /// Takes the place behind all that were taken before.
    pub(super) fn join(&mut self) -> Turn {
        let (ends, ended) = oneshot::channel();
        Turn { before: self.last.replace(Before(ended)), ends: Some(ends) }
    }
}

impl Turn {
    /// Waits until everything before is over.
    pub(super) async fn begin(&mut self) {
        while let Some(Before(end)) = &mut self.before {
            self.before = end.await.ok();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A place that is given up leaves its successor what it has waited for.
        if let (Some(before), Some(ends)) = (self.before.take(), self.ends.take()) {
            let _ = ends.send(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use std::sync::Arc;

    #[test]
    fn ordered_methods_are_found_wherever_they_stand() {
        let body = |method: &str| format!(r#"{{"params":["0x00"],"method":"{method}","id":"_"}}"#).into_bytes();
        for ordered in ["engine_forkchoiceUpdatedV1", "engine_newPayloadV5", r"engine\u005fnewPayloadV4", "eth_\\n"] {
            assert!(is_ordered(&body(ordered)), "{ordered}");
        }
        let batch = [b"[", &body("eth_chainId")[..], b",", &body("engine_newPayloadV3"), b"]"].concat();
        assert!(is_ordered(&batch));
        for free in ["engine_getPayloadV4", "engine_getBlobsV2", "eth_call", "newPayload", "_newPayload", ""] {
            assert!(!is_ordered(&body(free)), "{free}");
        }
        assert!(!is_ordered(b"") && !is_ordered(b"_") && !is_ordered(&[0xff, b'_']));
    }

    #[tokio::test]
    async fn turns_begin_in_the_order_of_the_line_also_if_one_is_given_up() {
        let (mut line, order) = (Line::default(), Arc::new(parking_lot::Mutex::new(Vec::new())));
        let mut turns: Vec<_> = (0..8).map(|place| (place, line.join())).collect();
        drop((turns.remove(3), turns.remove(3)));
        // The last is first to ask, and each takes its time.
        let tasks = turns.into_iter().rev().map(|(place, mut turn)| {
            let order = Arc::clone(&order);
            tokio::spawn(async move {
                turn.begin().await;
                tokio::time::sleep(Duration::from_millis(2)).await;
                order.lock().push(place);
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("no panic");
        }
        assert_eq!(*order.lock(), [0, 1, 2, 5, 6, 7]);
    }
}
