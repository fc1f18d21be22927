//! Memory of traces: one limit over every tracer that there is, the parts of `muxTracer` included.

use crate::kit::{Client, config};
use alloy_primitives::{Address, hex};
use alloy_rpc_types_trace::geth::GethDebugBuiltInTracerType::{self as Tracer, *};
use phalanx_node::{Node, Production};
use serde_json::{Value, json};

/// Every tracer: the compiler asks for a new one.
const ALL: [Tracer; 8] =
    [FourByteTracer, CallTracer, FlatCallTracer, PreStateTracer, StateGasTracer, NoopTracer, MuxTracer, Erc7562Tracer];

/// True for tracers that hold nothing of an execution.
const fn is_empty(tracer: Tracer) -> bool {
    match tracer {
        NoopTracer | StateGasTracer => true,
        FourByteTracer | CallTracer | FlatCallTracer | PreStateTracer | MuxTracer | Erc7562Tracer => false,
    }
}

fn traced(client: &Client, code: &[u8], gas: u64, options: &Value) -> Value {
    let to = Address::repeat_byte(0xc0);
    let mut options = options.clone();
    options["stateOverrides"] = json!({to.to_string(): {"code": format!("0x{}", hex::encode(code))}});
    client.ask("debug_traceCall", json!([{"to": to, "gas": format!("{gas:#x}")}, "latest", options]))
}

fn is_too_large(answer: &Value) -> bool {
    let text = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(text.is_empty() || text.contains("the trace is too large"), "{text}");
    !text.is_empty()
}

/// Settings of a tracer, and of `muxTracer` with one part and with all.
fn settings(tracer: Tracer) -> Vec<Value> {
    let name = |tracer: Tracer| serde_json::to_value(tracer).expect("JSON").as_str().expect("a name").to_owned();
    let part = |tracer: Tracer| match tracer {
        CallTracer | FlatCallTracer | PreStateTracer => json!({}),
        _ => Value::Null,
    };
    if !matches!(tracer, MuxTracer) {
        return vec![json!({ "tracer": name(tracer) })];
    }
    let parts: Vec<Tracer> =
        ALL.into_iter().filter(|part| !is_empty(*part) && !matches!(part, MuxTracer | Erc7562Tracer)).collect();
    let mux = |parts: &[Tracer]| {
        let config: serde_json::Map<_, _> = parts.iter().map(|tracer| (name(*tracer), part(*tracer))).collect();
        json!({ "tracer": "muxTracer", "tracerConfig": config })
    };
    parts.iter().map(|part| mux(&[*part])).chain([mux(&parts)]).collect()
}

#[test]
fn one_limit_holds_for_every_tracer() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut limited = config(folder.path(), Production::Instant);
    limited.rpc.max_trace = 1 << 20;
    let node = Node::start(&limited).expect("a node");
    let client = Client::new(node.address());
    // A loop of calls with twenty kilobytes each: JUMPDEST, CALL of 0xdead, POP, PUSH0, JUMP.
    let calls = hex!("5b5f5f62004e205f5f61dead5af1505f56");
    // Two calls without data, and the end.
    let few = hex!("5f5f5f5f5f61dead5af15f5f5f5f5f61dead5af100");
    for tracer in ALL {
        for options in settings(tracer) {
            let large = traced(&client, &calls, 10_000_000, &options);
            assert_eq!(is_too_large(&large), !is_empty(tracer), "{options}: {large}");
            let small = traced(&client, &few, 200_000, &options);
            assert!(small.get("result").is_some(), "{options}: {small}");
        }
    }
    assert!(is_too_large(&traced(&client, &calls, 10_000_000, &json!({}))), "struct logs");
    node.stop();
}

#[test]
fn what_struct_logs_repeat_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut limited = config(folder.path(), Production::Instant);
    limited.rpc.max_trace = 64 << 20;
    let node = Node::start(&limited).expect("a node");
    let client = Client::new(node.address());
    // Reads one slot after the other: every step of them shows all slots before.
    let slots = hex!("5f5b805450600101600156");
    assert!(is_too_large(&traced(&client, &slots, 10_000_000, &json!({}))));
    assert!(!is_too_large(&traced(&client, &slots, 10_000_000, &json!({"disableStorage": true}))));
    assert!(!is_too_large(&traced(&client, &slots, 500_000, &json!({}))));
    // Takes a mebibyte of memory, and then loops: every step shows all of it.
    let memory = hex!("620fffe051505b5f50600656");
    assert!(is_too_large(&traced(&client, &memory, 2_300_000, &json!({"enableMemory": true}))));
    assert!(!is_too_large(&traced(&client, &memory, 2_300_000, &json!({}))));
    assert!(!is_too_large(&traced(&client, &memory, 2_300_000, &json!({"enableMemory": true, "limit": 10}))));
    node.stop();
}

#[test]
fn instructions_of_vm_traces_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut limited = config(folder.path(), Production::Instant);
    limited.rpc.namespaces.push("trace".into());
    limited.rpc.max_trace = 8 << 20;
    let node = Node::start(&limited).expect("a node");
    let client = Client::new(node.address());
    let to = Address::repeat_byte(0xc0);
    // JUMPDEST PUSH0 JUMP: it runs until its gas is used up.
    let code = json!({ to.to_string(): { "code": "0x5b5f56" } });
    let call =
        |gas: &str, kind: &str| client.ask("trace_call", json!([{ "to": to, "gas": gas }, [kind], "latest", code]));
    for (gas, kind, expected) in [
        ("0x989680", "vmTrace", true),
        ("0x989680", "trace", false),
        ("0x989680", "stateDiff", false),
        ("0x5dc0", "vmTrace", false),
    ] {
        let answer = call(gas, kind);
        assert_eq!(is_too_large(&answer), expected, "{kind} with {gas} gas");
    }
    node.stop();
}

#[test]
fn a_trace_ends_with_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut limited = config(folder.path(), Production::Instant);
    limited.rpc.max_run = std::time::Duration::ZERO;
    let node = Node::start(&limited).expect("a node");
    let client = Client::new(node.address());
    // JUMPDEST PUSH0 JUMP: it runs until its gas is used up.
    let answer = traced(&client, &hex!("5b5f56"), 10_000_000, &json!({"tracer": "noopTracer"}));
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("takes too long")), "{answer}");
    let short = traced(&client, &hex!("00"), 100_000, &json!({"tracer": "noopTracer"}));
    assert!(short.get("result").is_some(), "{short}");
    node.stop();
}
