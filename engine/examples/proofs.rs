//! Proofs of an account, a slot and a transaction, made by a node and checked by a client.
//!
//! `docs/how-to/serve-and-check-proofs.md` quotes the regions between `[name]` and `[/name]`.
//!
//! Run it: `cargo run --release -p phalanx --example proofs`

use phalanx::{
    Engine, GenesisAccount, ProofMismatch, Service, ServiceConfig,
    api::{ExecutionEngine as _, Proof, ProofQuery, Prove as _},
    merkle::Params,
    revm::primitives::{Address, B256, Bytes, U256},
    verify_account, verify_slot,
};
use std::error::Error;

const TOKEN: Address = Address::repeat_byte(0x70);
const SLOT: B256 = B256::with_last_byte(3);

// [serve]
/// Opens a service on an engine that has a genesis. Proofs are made on any thread, beside execution.
fn serve() -> Result<Service, phalanx::Error> {
    let mut engine = Engine::builder().with_threads(2).build()?;
    engine.genesis([GenesisAccount {
        address: TOKEN,
        nonce: 1,
        code: Some(Bytes::from_static(&[0x00])), // STOP
        storage: vec![(U256::from(3), U256::from(500))],
        ..Default::default()
    }])?;
    Service::open(engine, ServiceConfig::default())
}
// [/serve]

// [check]
/// The client: it knows the parameters of the chain, and a state root that consensus vouches for.
fn check(root: B256, account: &Proof, slot: &Proof, absent: &Proof) -> Result<(), ProofMismatch> {
    let params = Params::default(); // hash function and shape, fixed at genesis
    let token = verify_account(&params, root, TOKEN, &account.bytes)?.expect("the contract exists");
    assert_eq!(token.nonce, 1);
    assert_eq!(verify_slot(&params, root, TOKEN, SLOT, &slot.bytes)?, B256::from(U256::from(500)));
    assert_eq!(verify_account(&params, root, Address::ZERO, &absent.bytes)?, None); // a proof of absence
    Ok(())
}
// [/check]

fn main() -> Result<(), Box<dyn Error>> {
    let service = serve()?;
    // [prove]
    let root = service.status().committed.state_root;
    let account = service.prove(ProofQuery::Account(TOKEN))?;
    let slot = service.prove(ProofQuery::Slot(TOKEN, SLOT))?;
    let absent = service.prove(ProofQuery::Account(Address::ZERO))?;
    // [/prove]
    check(root, &account, &slot, &absent)?;

    // [forge]
    let mut forged = slot.bytes.to_vec();
    *forged.last_mut().expect("a proof has bytes") ^= 1;
    assert_eq!(verify_slot(&Params::default(), root, TOKEN, SLOT, &forged), Err(ProofMismatch));
    // [/forge]
    println!("proofs of {}, {} and {} bytes", account.bytes.len(), slot.bytes.len(), absent.bytes.len());
    Ok(())
}
