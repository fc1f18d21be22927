//! A writer's connection: the forms in which a node takes transactions.

use super::{
    client::{Client, answers, call},
    load::Load,
    served::Served,
};
use anyhow::{Context as _, ensure};
use phalanx_node::ingress::{Code, Verdict, client};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Form in which transactions are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// JSON-RPC over HTTP: a request is sent once the one before is answered.
    Http,
    /// JSON-RPC over WebSocket, with many requests in flight.
    WebSocket,
    /// Frames of the binary ingress, with some of them in flight.
    Frames,
}

/// A connection.
#[derive(Debug)]
pub(super) enum Link {
    Http(Client),
    WebSocket(Client),
    /// The places of the frames in flight, which are answered in order.
    Frames(client::Sender, client::Receiver, VecDeque<Vec<usize>>),
}

/// Errors after which a transaction is sent again.
const AGAIN: [&str; 3] = ["txpool is full", "nonce too high", "retry later"];

impl Link {
    pub(super) fn connect(form: Form, node: &Served) -> anyhow::Result<Self> {
        Ok(match form {
            Form::Http => Self::Http(Client::connect(node.rpc)?),
            Form::WebSocket => Self::WebSocket(Client::connect_websocket(node.rpc)?),
            Form::Frames => {
                let (sender, receiver) = client::connect(&node.ingress)?;
                Self::Frames(sender, receiver, VecDeque::new())
            }
        })
    }

    /// Maximum number of requests in flight.
    pub(super) const fn depth(&self) -> usize {
        match self {
            Self::Http(_) => 1,
            Self::WebSocket(_) => 64,
            Self::Frames(..) => 4,
        }
    }

    /// Sends transactions as one request: a call if there is one, a batch or a frame otherwise.
    pub(super) fn send(&mut self, load: &Load, places: &[usize]) -> anyhow::Result<()> {
        match self {
            Self::Http(client) => client.send("POST /", &body(load, places)),
            Self::WebSocket(client) => client.send_message(&body(load, places)),
            Self::Frames(sender, _, flying) => {
                let txs: Vec<_> = places.iter().map(|place| &load.txs[*place]).collect();
                flying.push_back(places.to_vec());
                Ok(sender.send(&txs)?)
            }
        }
    }

    /// Receives the answer to a request. Returns the places of the transactions that found no room.
    pub(super) fn receive(&mut self) -> anyhow::Result<Vec<usize>> {
        match self {
            Self::Http(client) => refused(&client.receive()?),
            Self::WebSocket(client) => refused(&client.receive_message()?),
            Self::Frames(_, receiver, flying) => {
                let places = flying.pop_front().context("an answer to no frame")?;
                let verdicts = receiver.receive()?;
                let (found, sent) = (verdicts.len(), places.len());
                ensure!(found == sent, "{found} verdicts on {sent} transactions");
                let mut again = Vec::new();
                for (place, Verdict { code, .. }) in places.into_iter().zip(verdicts) {
                    if code.may_pass_later() {
                        again.push(place);
                    } else {
                        ensure!(matches!(code, Code::Admitted | Code::Known), "refused: {code:?}");
                    }
                }
                Ok(again)
            }
        }
    }
}

fn body(load: &Load, places: &[usize]) -> String {
    let one = |place: &usize| call(*place, "eth_sendRawTransaction", &json!([load.txs[*place]]));
    match places {
        [place] => one(place),
        places => format!("[{}]", places.iter().map(one).collect::<Vec<_>>().join(",")),
    }
}

/// Places of the transactions of an answer that found no room.
fn refused(answer: &str) -> anyhow::Result<Vec<usize>> {
    let mut again = Vec::new();
    for answer in answers(answer)? {
        let place = answer["id"].as_u64().and_then(|id| usize::try_from(id).ok());
        let place = place.with_context(|| format!("an answer to no request: {answer}"))?;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        if AGAIN.iter().any(|why| message.contains(why)) {
            again.push(place);
        } else {
            ensure!(message.is_empty() || message.contains("already known"), "refused: {message}");
            ensure!(message.is_empty() == !matches!(answer["result"], Value::Null), "no result: {answer}");
        }
    }
    again.sort_unstable();
    Ok(again)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_sent_again_and_what_is_wrong_ends_the_run() {
        let full = r#"[{"id":3,"error":{"message":"txpool is full"}},{"id":1,"result":"0x"},{"id":2,"error":{"message":"retry later"}}]"#;
        assert_eq!(refused(full).expect("sound"), [2, 3]);
        assert!(refused(r#"{"id":3,"error":{"message":"already known"}}"#).expect("sound").is_empty());
        for wrong in [r#"{"id":3,"error":{"message":"intrinsic gas too low"}}"#, r#"{"result":"0x"}"#, r#"{"id":3}"#] {
            assert!(refused(wrong).is_err(), "{wrong}");
        }
    }
}
