//! The scripted client: tokens, payloads of every version, and a node that it drives.

use crate::kit::{Client, PATIENCE, Socket, config};
use alloy_consensus::{Block, Transaction as _, TxEnvelope};
use alloy_eips::{Decodable2718 as _, eip7685::Requests};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rpc_types_engine::{
    CancunPayloadFields, ExecutionPayload, ExecutionPayloadSidecar, ExecutionPayloadV1, ExecutionPayloadV2,
    ExecutionPayloadV3, ExecutionPayloadV4, PraguePayloadFields,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use phalanx::alloy::genesis::Genesis;
use phalanx_node::{BlockSource, EngineApiConfig, Node, NodeConfig, Production};
use serde_json::{Value, json};
use sha2::Sha256;
use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Name of the file in which a process has its addresses.
const ADDRESSES: &str = "addresses";

/// Secret of all nodes of the tests.
pub(super) const SECRET: [u8; 32] = [7; 32];

/// Root of the beacon block of every payload's parent.
pub(super) const ROOT: B256 = B256::repeat_byte(0xbe);

/// A token of a secret that was issued so many seconds ago.
pub(super) fn token(secret: &[u8], age: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let iat = now.checked_add_signed(-age).expect("a time");
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let signed = format!("{}.{}", part(r#"{"alg":"HS256","typ":"JWT"}"#), part(&format!(r#"{{"iat":{iat}}}"#)));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key");
    mac.update(signed.as_bytes());
    format!("Authorization: Bearer {signed}.{}\r\n", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

/// Settings of a node that is driven, in a folder.
pub(super) fn driven(folder: &Path, genesis: Genesis) -> NodeConfig {
    let mut settings = config(folder, Production::Off);
    (settings.genesis, settings.beneficiary) = (genesis, Address::ZERO);
    let jwt = folder.join("jwt.hex");
    std::fs::create_dir_all(folder).expect("a folder");
    std::fs::write(&jwt, alloy_primitives::hex::encode(SECRET)).expect("written");
    let api = EngineApiConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)), jwt);
    settings.source = BlockSource::Client(EngineApiConfig { commit: [0xab, 0xcd, 0, 1], ..api });
    settings
}

/// Place of a driven node.
enum Host {
    Here(Box<Node>),
    Process(Child),
}

/// A driven node with its clients.
pub(super) struct Driven {
    host: Host,
    /// The public JSON-RPC.
    pub(super) client: Client,
    engine: Client,
}

/// A payload with everything that goes with it, as a client has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Payload {
    pub(super) body: Value,
    pub(super) requests: Value,
    /// Blobs of a built payload.
    pub(super) bundle: Value,
    /// Version of its fork: 1 for Paris, to 6 for Amsterdam.
    pub(super) fork: u8,
}

impl Payload {
    pub(super) fn hash(&self) -> B256 {
        read(&self.body["blockHash"])
    }

    pub(super) fn parent(&self) -> B256 {
        read(&self.body["parentHash"])
    }

    pub(super) fn number(&self) -> u64 {
        quantity(&self.body["blockNumber"])
    }

    pub(super) fn timestamp(&self) -> u64 {
        quantity(&self.body["timestamp"])
    }

    pub(super) fn txs(&self) -> Vec<Bytes> {
        read(&self.body["transactions"])
    }

    /// The payload as a block, by alloy.
    pub(super) fn block(&self) -> Block<Bytes> {
        let (mut payload, sidecar): (ExecutionPayload, _) = match self.fork {
            1 => (read::<ExecutionPayloadV1>(&self.body).into(), ExecutionPayloadSidecar::none()),
            2 => (read::<ExecutionPayloadV2>(&self.body).into(), ExecutionPayloadSidecar::none()),
            fork => {
                let cancun = CancunPayloadFields::new(ROOT, Vec::new());
                let requests = || PraguePayloadFields::new(Requests::new(read(&self.requests)));
                let sidecar = match fork {
                    3 => ExecutionPayloadSidecar::v3(cancun),
                    _ => ExecutionPayloadSidecar::v4(cancun, requests()),
                };
                match fork {
                    6 => (read::<ExecutionPayloadV4>(&self.body).into(), sidecar),
                    _ => (read::<ExecutionPayloadV3>(&self.body).into(), sidecar),
                }
            }
        };
        // Some have more of it than a block may.
        let extra = core::mem::take(&mut payload.as_v1_mut().extra_data);
        let mut block = payload.into_block_with_sidecar_raw(&sidecar).expect("a block");
        block.header.extra_data = extra;
        block
    }

    /// The payload with a changed field, and the hash that goes with it.
    pub(super) fn with(&self, field: &str, value: Value) -> Self {
        let mut changed = self.clone();
        changed.body[field] = value;
        changed.body["blockHash"] = json!(changed.block().header.hash_slow());
        changed
    }

    /// Hashes of its blobs.
    pub(super) fn blobs(&self) -> Vec<B256> {
        let txs = self.txs();
        let txs = txs.iter().filter_map(|tx| TxEnvelope::decode_2718_exact(tx).ok());
        txs.flat_map(|tx| tx.blob_versioned_hashes().unwrap_or_default().to_vec()).collect()
    }

    /// Arguments of `newPayload` of its fork, and the version of the method.
    pub(super) fn args(&self) -> (u8, Value) {
        match self.fork {
            1 | 2 => (self.fork, json!([self.body])),
            3 => (3, json!([self.body, self.blobs(), ROOT])),
            4 | 5 => (4, json!([self.body, self.blobs(), ROOT, self.requests])),
            _ => (5, json!([self.body, self.blobs(), ROOT, self.requests])),
        }
    }
}

pub(super) fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

pub(super) fn quantity(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value}"));
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a quantity")
}

/// State of a payload, and its latest valid hash.
pub(super) fn said(status: &Value) -> (String, Option<B256>) {
    let state: String = read(&status["status"]);
    let is_wrong = state.starts_with("INVALID");
    assert_eq!(status["validationError"].is_string(), is_wrong, "{status}");
    (state, read(&status["latestValidHash"]))
}

/// Attributes of a payload of a fork, whose other values follow from a seed.
pub(super) fn attributes(fork: u8, timestamp: u64, seed: u64) -> Value {
    let hash = keccak256(seed.to_be_bytes());
    let mut attributes = json!({
        "timestamp": format!("{timestamp:#x}"), "prevRandao": hash,
        "suggestedFeeRecipient": Address::from_word(hash),
    });
    if fork >= 2 {
        let withdrawal = json!({
            "index": format!("{seed:#x}"), "validatorIndex": "0x1", "address": Address::repeat_byte(0xdd), "amount": "0x3b9aca00",
        });
        attributes["withdrawals"] = json!([withdrawal]);
    }
    if fork >= 3 {
        attributes["parentBeaconBlockRoot"] = json!(ROOT);
    }
    if fork >= 6 {
        attributes["slotNumber"] = json!(format!("{:#x}", timestamp / 12));
        attributes["targetGasLimit"] = json!("0x3938700");
    }
    attributes
}

impl Driven {
    pub(super) fn start(settings: &NodeConfig) -> Self {
        let node = Node::start(settings).expect("a node");
        let (client, engine) = (node.address(), node.engine_api_address().expect("an address"));
        Self::at(Host::Here(node.into()), [client, engine])
    }

    fn at(host: Host, addresses: [SocketAddr; 2]) -> Self {
        let [client, engine] = addresses.map(Client::new);
        Self { host, client, engine }
    }

    /// Starts a process of this program with a test that [publishes](Self::publish) its node, for the folder in a variable.
    pub(super) fn spawn(folder: &Path, test: &str, variable: &str) -> Self {
        let file = folder.join(ADDRESSES);
        let _ = std::fs::remove_file(&file);
        let program = std::env::current_exe().expect("a path");
        let mut child = Command::new(program)
            .args(["--exact", test])
            .env(variable, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        let begun = Instant::now();
        loop {
            if let Ok(text) = std::fs::read_to_string(&file) {
                let [client, engine] = [0, 1].map(|line| text.lines().nth(line).expect("an address"));
                return Self::at(Host::Process(child), [client, engine].map(|line| line.parse().expect("an address")));
            }
            assert_eq!(child.try_wait().expect("a child"), None, "the node has ended");
            assert!(begun.elapsed() < PATIENCE, "the node does not start");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Writes the addresses of a node of this process for its parent.
    pub(super) fn publish(&self, folder: &Path) {
        let text = format!("{}\n{}\n", self.client.address(), self.engine.address());
        std::fs::write(folder.join("new"), text).expect("written");
        std::fs::rename(folder.join("new"), folder.join(ADDRESSES)).expect("renamed");
    }

    /// Stops the node: with all that is due in this process, with a kill in another.
    pub(super) fn stop(self) {
        match self.host {
            Host::Here(node) => node.stop(),
            Host::Process(child) => end(child),
        }
    }

    /// Does a call, and kills the process of the node a moment after its begin. Whether the call is answered is open.
    pub(super) fn kill_in(&mut self, method: &str, params: &Value, moment: Duration) {
        let Self { host: Host::Process(child), engine, .. } = self else { panic!("no process") };
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(moment);
                child.kill().expect("it runs");
            });
            // An error means that the node died first.
            let _ = engine.post_with(&token(&SECRET, 0), request.as_bytes());
        });
        child.wait().expect("it has ended");
    }

    /// Status and body of a request with a line of its head.
    pub(super) fn raw(&self, line: &str, method: &str, params: &Value) -> (u16, String) {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.engine.post_with(line, request.to_string().as_bytes()).expect("an answer")
    }

    /// Address of the Engine API.
    pub(super) const fn engine_address(&self) -> SocketAddr {
        self.engine.address()
    }

    /// A WebSocket of the Engine API, by a handshake with a line of its head, or the status of its refusal.
    pub(super) fn socket(&self, line: &str) -> Result<Socket, u16> {
        Socket::connect_with(line, self.engine.address())
    }

    /// The whole answer to a request.
    pub(super) fn answer(&self, method: &str, params: &Value) -> Value {
        let (status, body) = self.raw(&token(&SECRET, 0), method, params);
        assert_eq!(status, 200, "{method}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{method}: {error}: {body}"))
    }

    /// The result of a request that succeeds.
    pub(super) fn get(&self, method: &str, params: &Value) -> Value {
        let mut answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{method}{params}: {answer}");
        answer["result"].take()
    }

    /// The code of a request that fails.
    pub(super) fn error(&self, method: &str, params: &Value) -> i64 {
        let answer = self.answer(method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}{params}: {answer}"))
    }

    /// Offers a payload.
    pub(super) fn offer(&self, payload: &Payload) -> (String, Option<B256>) {
        let (version, args) = payload.args();
        said(&self.get(&format!("engine_newPayloadV{version}"), &args))
    }

    /// Chooses a head, with safe and finalised block.
    pub(super) fn choose(&self, head: B256, safe: B256, finalised: B256) -> (String, Option<B256>) {
        let state = state(head, safe, finalised);
        let updated = self.get("engine_forkchoiceUpdatedV3", &json!([state, null]));
        assert!(updated["payloadId"].is_null(), "{updated}");
        said(&updated["payloadStatus"])
    }

    /// Chooses a head that must be valid.
    pub(super) fn head(&self, head: B256) {
        assert_eq!(self.choose(head, B256::ZERO, B256::ZERO), ("VALID".into(), Some(head)));
    }

    /// Has the node build a payload on a valid block, which becomes the head.
    pub(super) fn build(&self, fork: u8, parent: B256, attributes: &Value) -> Payload {
        let id = self.begin(fork, parent, attributes);
        self.fetch(fork, &id)
    }

    /// Has the node build a payload with this number of transactions at a time: on a busy machine one more attempt may be needed.
    pub(super) fn build_with(&self, fork: u8, parent: B256, timestamp: u64, txs: usize) -> Payload {
        let mut payloads =
            (0..64).map(|attempt| self.build(fork, parent, &attributes(fork, timestamp, 1_000 + attempt)));
        payloads
            .find(|payload| payload.txs().len() == txs)
            .unwrap_or_else(|| panic!("no payload has {txs} transactions"))
    }

    /// Begins to build a payload, and returns the name of the job.
    pub(super) fn begin(&self, fork: u8, parent: B256, attributes: &Value) -> Value {
        let version = [1, 2, 3, 3, 3, 4][usize::from(fork) - 1];
        let params = json!([state(parent, B256::ZERO, B256::ZERO), attributes]);
        let updated = self.get(&format!("engine_forkchoiceUpdatedV{version}"), &params);
        assert_eq!(said(&updated["payloadStatus"]), ("VALID".into(), Some(parent)));
        updated["payloadId"].clone()
    }

    /// Fetches a built payload.
    pub(super) fn fetch(&self, fork: u8, id: &Value) -> Payload {
        let mut built = self.get(&format!("engine_getPayloadV{fork}"), &json!([id]));
        let requests = built.get("executionRequests").cloned().unwrap_or_else(|| json!([]));
        let bundle = built.get("blobsBundle").cloned().unwrap_or_default();
        let body = if fork == 1 { built } else { built["executionPayload"].take() };
        let payload = Payload { body, requests, bundle, fork };
        assert_eq!(payload.block().header.hash_slow(), payload.hash());
        payload
    }

    /// Block that a tag names.
    pub(super) fn tagged(&self, tag: &str) -> Option<B256> {
        let answer = self.client.ask("eth_getBlockByNumber", json!([tag, false]));
        if let Some(error) = answer.get("error") {
            assert!(error["code"] == json!(-39001) && ["safe", "finalized"].contains(&tag), "{tag}: {answer}");
            return None;
        }
        read(&answer["result"].get("hash").cloned().unwrap_or_default())
    }

    /// Height of the block that a tag names.
    pub(super) fn number(&self, tag: &str) -> Option<u64> {
        let block = self.client.get("eth_getBlockByNumber", json!([tag, false]));
        block.get("number").map(quantity)
    }

    pub(super) fn genesis(&self) -> B256 {
        self.tagged("0x0").expect("a genesis")
    }

    pub(super) fn balance(&self, account: Address) -> U256 {
        read(&self.client.get("eth_getBalance", json!([account, "latest"])))
    }
}

fn end(mut child: Child) {
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
}

pub(super) fn state(head: B256, safe: B256, finalised: B256) -> Value {
    json!({ "headBlockHash": head, "safeBlockHash": safe, "finalizedBlockHash": finalised })
}
