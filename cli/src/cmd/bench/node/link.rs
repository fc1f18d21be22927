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
    /// JSON-RPC over HTTP, whose answers are receipts (EIP-7966): a request is sent once the one before is answered.
    Receipts,
}

/// A connection.
#[derive(Debug)]
pub(super) enum Link {
    Http(Client, &'static str),
    WebSocket(Client),
    /// The places of the frames in flight, which are answered in order.
    Frames(client::Sender, client::Receiver, VecDeque<Vec<usize>>),
}

/// Answer to a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answered {
    /// Place of the first transaction of the request.
    pub(super) first: usize,
    /// Places of the transactions that found no room.
    pub(super) refused: Vec<usize>,
}

/// Errors after which a transaction is sent again.
const AGAIN: [&str; 3] = ["txpool is full", "nonce too high", "retry later"];

impl Link {
    pub(super) fn connect(form: Form, node: &Served) -> anyhow::Result<Self> {
        Ok(match form {
            Form::Http => Self::Http(Client::connect(node.rpc)?, SEND),
            Form::Receipts => Self::Http(Client::connect(node.rpc)?, "eth_sendRawTransactionSync"),
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
            Self::Http(..) => 1,
            Self::WebSocket(_) => 64,
            Self::Frames(..) => 4,
        }
    }

    /// Sends transactions as one request: a call if there is one, a batch or a frame otherwise.
    pub(super) fn send(&mut self, load: &Load, places: &[usize]) -> anyhow::Result<()> {
        match self {
            Self::Http(client, method) => client.send("POST /", &body(load, places, method)),
            Self::WebSocket(client) => client.send_message(&body(load, places, SEND)),
            Self::Frames(sender, _, flying) => {
                let txs: Vec<_> = places.iter().map(|place| &load.txs[*place]).collect();
                flying.push_back(places.to_vec());
                Ok(sender.send(&txs)?)
            }
        }
    }

    /// Receives the answer to a request.
    pub(super) fn receive(&mut self) -> anyhow::Result<Answered> {
        match self {
            Self::Http(client, _) => answered(&client.receive()?),
            Self::WebSocket(client) => answered(&client.receive_message()?),
            Self::Frames(_, receiver, flying) => {
                let places = flying.pop_front().context("an answer to no frame")?;
                let verdicts = receiver.receive()?;
                let (found, sent) = (verdicts.len(), places.len());
                ensure!(found == sent, "{found} verdicts on {sent} transactions");
                let mut all = Answered { first: places[0], refused: Vec::new() };
                for (place, Verdict { code, .. }) in places.into_iter().zip(verdicts) {
                    if code.may_pass_later() {
                        all.refused.push(place);
                    } else {
                        ensure!(matches!(code, Code::Admitted | Code::Known), "refused: {code:?}");
                    }
                }
                Ok(all)
            }
        }
    }
}

/// Method that answers with hashes.
const SEND: &str = "eth_sendRawTransaction";

fn body(load: &Load, places: &[usize], method: &str) -> String {
    let one = |place: &usize| call(*place, method, &json!([load.txs[*place]]));
    match places {
        [place] => one(place),
        places => format!("[{}]", places.iter().map(one).collect::<Vec<_>>().join(",")),
    }
}

/// Reads an answer of JSON-RPC: a batch is answered in its order.
fn answered(answer: &str) -> anyhow::Result<Answered> {
    let (mut again, mut first) = (Vec::new(), None);
    for answer in answers(answer)? {
        let place = answer["id"].as_u64().and_then(|id| usize::try_from(id).ok());
        let place = place.with_context(|| format!("an answer to no request: {answer}"))?;
        first.get_or_insert(place);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        if AGAIN.iter().any(|why| message.contains(why)) {
            again.push(place);
        } else {
            ensure!(message.is_empty() || message.contains("already known"), "refused: {message}");
            ensure!(message.is_empty() == !matches!(answer["result"], Value::Null), "no result: {answer}");
        }
    }
    again.sort_unstable();
    Ok(Answered { first: first.context("an empty answer")?, refused: again })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_sent_again_and_what_is_wrong_ends_the_run() {
        let full = r#"[{"id":3,"error":{"message":"txpool is full"}},{"id":1,"result":"0x"},{"id":2,"error":{"message":"retry later"}}]"#;
        assert_eq!(answered(full).expect("sound"), Answered { first: 3, refused: vec![2, 3] });
        let known = answered(r#"{"id":3,"error":{"message":"already known"}}"#).expect("sound");
        assert_eq!(known, Answered { first: 3, refused: Vec::new() });
        for wrong in
            [r#"{"id":3,"error":{"message":"intrinsic gas too low"}}"#, r#"{"result":"0x"}"#, r#"{"id":3}"#, "[]"]
        {
            assert!(answered(wrong).is_err(), "{wrong}");
        }
    }
}
