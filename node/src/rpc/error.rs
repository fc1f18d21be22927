//! Errors of JSON-RPC: geth's codes and texts where libraries match them.

use super::args::BadArgument;
use crate::{chain::StateUnread, engine_api::Fault, intake::NoFate, store::StoreError, upstream::UpstreamError};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{Panic, Revert, SolError as _};
use jsonrpsee::types::{
    ErrorObjectOwned,
    error::{INTERNAL_ERROR_CODE, INVALID_PARAMS_CODE},
};
use phalanx::{
    RecoverError, SendError,
    chain::TxRuleError,
    pool::Refusal,
    revm::context_interface::result::{ExecutionResult, HaltReason, InvalidTransaction},
    simulate::SimulateError,
};
use serde_json::{Value, json};

/// Code of most of geth's errors.
const SERVER: i32 = -32000;
/// Code of a call that reverts, whose data is the error's data.
const REVERTED: i32 = 3;
/// Code of blocks that are pruned (EIP-4444).
const PRUNED: i32 = 4444;
/// Code of a request that a limit of the node stops for now (EIP-1474).
const LIMIT: i32 = -32005;
/// Code of a safe or finalised block before the first (execution-apis, `BlockTag`).
const UNKNOWN_BLOCK: i32 = -39001;
/// Data of the refusal of transactions for which the queue has no room: other limits have the same code, and no data.
const QUEUE_FULL: &str = "queueFull";
/// Code of a synchronous transaction whose receipt does not come in time (EIP-7966).
const NO_RECEIPT: i32 = 4;

/// Error of a method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct RpcError {
    code: i32,
    message: String,
    data: Option<Value>,
}

impl RpcError {
    /// The server's state does not allow an answer.
    pub(super) fn server(message: impl Into<String>) -> Self {
        Self { code: SERVER, message: message.into(), data: None }
    }

    /// The arguments are not those of the method.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self { code: INVALID_PARAMS_CODE, message: message.into(), data: None }
    }

    /// A limit of the node stops the request for now.
    pub(super) fn limit(message: impl Into<String>) -> Self {
        Self::of(LIMIT, message)
    }

    /// An error with a code of its own, without data.
    pub(super) fn of(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// A fault of the node in the form of the Engine API: the reason is in the data.
    pub(super) fn explained(code: i32, message: &str, err: String) -> Self {
        Self { code, message: message.into(), data: Some(json!({ "err": err })) }
    }

    /// A fault of the node.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self { code: INTERNAL_ERROR_CODE, message: message.into(), data: None }
    }

    /// Another node's error, with its code.
    pub(super) fn refused_elsewhere(code: i64, message: String, data: Option<&str>) -> Self {
        let code = i32::try_from(code).unwrap_or(SERVER);
        // Tools take it for bytes.
        let data = data.and_then(|data| data.parse::<Bytes>().ok());
        Self { code, message, data: data.map(|data| json!(data)) }
    }

    /// No block is safe, or finalised, yet.
    pub(super) fn unknown_block() -> Self {
        Self::of(UNKNOWN_BLOCK, "Unknown block")
    }

    /// The block is pruned.
    pub(super) fn pruned() -> Self {
        Self { code: PRUNED, message: "pruned history unavailable".into(), data: None }
    }

    /// The transaction waits, and its receipt has not come.
    pub(super) fn no_receipt(hash: &B256) -> Self {
        let message = "The transaction was added to the mempool but wasn't processed in time".into();
        Self { code: NO_RECEIPT, message, data: Some(json!(hash)) }
    }

    /// Data of a call that reverts.
    pub(super) fn reverted(output: &Bytes) -> Self {
        let reason = Revert::abi_decode(output).ok().map(|revert| revert.reason);
        let reason = reason.or_else(|| {
            let Panic { code } = Panic::abi_decode(output).ok()?;
            let known = u64::try_from(code).ok().and_then(panicked).map(str::to_owned);
            Some(known.unwrap_or_else(|| format!("unknown panic code: {code:#x}")))
        });
        let message = match reason {
            Some(reason) => format!("execution reverted: {reason}"),
            None => "execution reverted".into(),
        };
        Self { code: REVERTED, message, data: Some(json!(output)) }
    }
}

impl From<RpcError> for ErrorObjectOwned {
    fn from(error: RpcError) -> Self {
        Self::owned(error.code, error.message, error.data)
    }
}

impl From<Fault> for RpcError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Server(why) => Self::explained(Fault::SERVER, "Server error", why),
            other => Self::of(other.code(), other.to_string()),
        }
    }
}

impl From<BadArgument> for RpcError {
    fn from(error: BadArgument) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> Self {
        Self::internal(error.to_string())
    }
}

impl From<UpstreamError> for RpcError {
    fn from(error: UpstreamError) -> Self {
        match error {
            // Libraries match its code and text.
            UpstreamError::Refused { code, message, data } => Self { code, message, data },
            UpstreamError::Away(_) | UpstreamError::TooLong { .. } | UpstreamError::Busy => {
                Self::server(error.to_string())
            }
        }
    }
}

impl From<StateUnread> for RpcError {
    fn from(error: StateUnread) -> Self {
        Self::server(error.to_string())
    }
}

/// Text of a panic of Solidity, as geth has it (`accounts/abi/abi.go`).
const fn panicked(code: u64) -> Option<&'static str> {
    Some(match code {
        0x00 => "generic panic",
        0x01 => "assert(false)",
        0x11 => "arithmetic underflow or overflow",
        0x12 => "division or modulo by zero",
        0x21 => "enum overflow",
        0x22 => "invalid encoded storage byte array accessed",
        0x31 => "out-of-bounds array access; popping on an empty array",
        0x32 => "out-of-bounds access of an array or bytesN",
        0x41 => "out of memory",
        0x51 => "uninitialized function",
        _ => return None,
    })
}

/// Text of a halt, as geth has it.
pub(super) fn halt(reason: &HaltReason) -> String {
    match reason {
        HaltReason::OutOfGas(_) => "out of gas".into(),
        HaltReason::InvalidFEOpcode => "invalid opcode: INVALID".into(),
        HaltReason::OpcodeNotFound | HaltReason::NotActivated => "invalid opcode".into(),
        HaltReason::OutOfOffset => "return data out of bounds".into(),
        HaltReason::CreateCollision => "contract address collision".into(),
        HaltReason::CreateContractSizeLimit => "max code size exceeded".into(),
        HaltReason::CreateInitCodeSizeLimit => "max initcode size exceeded".into(),
        HaltReason::CreateContractStartingWithEF => "invalid code: must not begin with 0xef".into(),
        HaltReason::StateChangeDuringStaticCall | HaltReason::CallNotAllowedInsideStatic => "write protection".into(),
        HaltReason::CallTooDeep => "max call depth exceeded".into(),
        HaltReason::OutOfFunds => "insufficient balance for transfer".into(),
        HaltReason::NonceOverflow => "nonce uint64 overflow".into(),
        other => other.to_string(),
    }
}

/// Output of a call, or the error that geth answers.
pub(super) fn output(result: ExecutionResult) -> Result<Bytes, RpcError> {
    match result {
        ExecutionResult::Success { output, .. } => Ok(output.into_data()),
        ExecutionResult::Revert { output, .. } => Err(RpcError::reverted(&output)),
        ExecutionResult::Halt { reason, .. } => Err(RpcError::server(halt(&reason))),
    }
}

/// Error of a simulation of a call from `sender`.
pub(super) fn simulated<E: core::fmt::Display>(sender: Address, error: &SimulateError<E>) -> RpcError {
    match error {
        SimulateError::Invalid(reason) => RpcError::server(invalid(sender, reason)),
        SimulateError::State(error) => RpcError::server(error.to_string()),
        SimulateError::Reverted { output } => RpcError::reverted(output),
        SimulateError::Halted { reason } => RpcError::server(halt(reason)),
        SimulateError::GasAllowance { allowance } => {
            RpcError::server(format!("gas required exceeds allowance ({allowance})"))
        }
        SimulateError::Evm(why) => RpcError::server(why.clone()),
        other => RpcError::internal(other.to_string()),
    }
}

fn invalid(sender: Address, reason: &InvalidTransaction) -> String {
    match reason {
        InvalidTransaction::LackOfFundForMaxFee { fee, balance } => {
            format!("insufficient funds for gas * price + value: address {sender} have {balance} want {fee}")
        }
        InvalidTransaction::GasPriceLessThanBasefee => {
            format!("max fee per gas less than block base fee: address {sender}")
        }
        InvalidTransaction::PriorityFeeGreaterThanMaxFee => {
            format!("max priority fee per gas higher than max fee per gas: address {sender}")
        }
        InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
            format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}")
        }
        InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => {
            format!("insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}")
        }
        InvalidTransaction::CreateInitCodeSizeLimit => "max initcode size exceeded".into(),
        other => other.to_string(),
    }
}

/// Error of transactions without a fate.
pub(super) fn unoffered(why: NoFate) -> RpcError {
    match why {
        NoFate::Full => RpcError { data: Some(json!(QUEUE_FULL)), ..RpcError::limit(why.to_string()) },
        NoFate::Panicked => RpcError::internal(why.to_string()),
    }
}

/// Error of a transaction that did not reach the pool's rules.
pub(super) fn unsent(error: &SendError) -> RpcError {
    match error {
        SendError::Recover(why) => RpcError::server(match why {
            RecoverError::Signature => "invalid sender".into(),
            RecoverError::Rule(rule) => broken(rule),
            other => other.to_string(),
        }),
        SendError::Blobs => RpcError::server("transaction type not supported"),
        other => RpcError::server(other.to_string()),
    }
}

/// Text of a broken rule that needs no state: geth's, which libraries match, and the numbers.
fn broken(rule: &TxRuleError) -> String {
    let geths = match rule {
        TxRuleError::Type { .. } => "transaction type not supported",
        TxRuleError::HighS => "invalid sender: invalid transaction v, r, s values",
        TxRuleError::ChainId { .. } => "invalid sender: invalid chain id for signer",
        TxRuleError::BlobCount { blobs: 0 } => "blobless blob transaction",
        TxRuleError::BlobCount { .. } => "too many blobs in transaction",
        TxRuleError::NoAuthorizations => "set code tx must have at least one authorization tuple",
        TxRuleError::GasLimit { .. } => "transaction gas limit too high",
        TxRuleError::Initcode { .. } => "max initcode size exceeded",
        TxRuleError::TipAboveFee { .. } => "max priority fee per gas higher than max fee per gas",
        TxRuleError::Unprotected => "only replay-protected (EIP-155) transactions allowed over RPC",
        _ => return rule.to_string(),
    };
    format!("{geths}: {rule}")
}

/// Error of a transaction that the pool refuses.
pub(super) fn refused(refusal: &Refusal) -> RpcError {
    RpcError::server(match refusal {
        Refusal::Known => "already known".into(),
        Refusal::NonceUsed { nonce, next } => format!("nonce too low: next nonce {next}, tx nonce {nonce}"),
        Refusal::NonceTooFar { nonce, next, .. } => format!("nonce too high: next nonce {next}, tx nonce {nonce}"),
        Refusal::Funds { cost, balance } => {
            let short = cost.saturating_sub(*balance);
            format!("insufficient funds for gas * price + value: balance {balance}, tx cost {cost}, overshot {short}")
        }
        Refusal::CostOverflow => format!("insufficient funds for gas * price + value: tx cost above {}", U256::MAX),
        Refusal::TooLong { .. } => format!("oversized data: {refusal}"),
        Refusal::AuthorityPending { .. } => format!("authority already reserved: {refusal}"),
        Refusal::TooMuchGas { .. } => format!("exceeds block gas limit: {refusal}"),
        Refusal::TooLittleGas { gas_limit, least } => {
            format!("intrinsic gas too low: gas {gas_limit}, minimum needed {least}")
        }
        Refusal::Underpriced { .. } => format!("transaction underpriced: {refusal}"),
        Refusal::TipAboveCap { .. } => format!("max priority fee per gas higher than max fee per gas: {refusal}"),
        Refusal::ReplacementUnderpriced { .. } | Refusal::InFlight { .. } => {
            format!("replacement transaction underpriced: {refusal}")
        }
        Refusal::SenderIsContract => format!("sender not an eoa: {refusal}"),
        Refusal::OneOfDelegated { .. } => {
            format!("in-flight transaction limit reached for delegated accounts: {refusal}")
        }
        Refusal::Full => format!("txpool is full: {refusal}"),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::{alloy::consensus::TxType, revm::primitives::hardfork::SpecId};

    fn written(error: RpcError) -> Value {
        json!(ErrorObjectOwned::from(error))
    }

    #[test]
    fn server_errors_of_the_engine_api_have_their_reason_in_the_data_and_others_have_none() {
        let expected = json!({ "code": -32000, "message": "Server error", "data": { "err": "the disk is full" } });
        assert_eq!(written(Fault::Server("the disk is full".into()).into()), expected);
        assert_eq!(written(Fault::UnknownPayload.into()), json!({ "code": -38001, "message": "Unknown payload" }));
    }

    #[test]
    fn a_full_queue_is_told_from_other_limits() {
        let full = written(unoffered(NoFate::Full));
        assert_eq!((&full["code"], &full["data"]), (&json!(LIMIT), &json!("queueFull")));
        assert!(full["message"].as_str().is_some_and(|text| text.contains("too many transactions wait")), "{full}");
        let other = written(RpcError::limit("another limit"));
        assert_eq!((&other["code"], other.get("data")), (&json!(LIMIT), None));
        assert_eq!(written(unoffered(NoFate::Panicked))["code"], json!(INTERNAL_ERROR_CODE));
        // A follower passes it on as it comes.
        let data = Some(full["data"].clone());
        let passed = UpstreamError::Refused { code: LIMIT, message: "x".into(), data };
        assert_eq!(written(passed.into())["data"], json!("queueFull"));
    }

    #[test]
    fn panics_have_the_texts_of_geth() {
        let said = |code: u64| {
            let output = Panic { code: U256::from(code) }.abi_encode();
            RpcError::reverted(&output.into()).to_string()
        };
        assert_eq!(said(0x01), "execution reverted: assert(false)");
        assert_eq!(said(0x32), "execution reverted: out-of-bounds access of an array or bytesN");
        assert_eq!(said(0x99), "execution reverted: unknown panic code: 0x99");
    }

    #[test]
    fn libraries_find_the_texts_of_geth_wherever_a_transaction_is_refused() {
        // Texts that viem and ethers match without regard to case.
        for (rule, text) in [
            (TxRuleError::TipAboveFee { tip: 2, fee: 1 }, "max priority fee per gas higher than max fee per gas"),
            (TxRuleError::GasLimit { gas_limit: 9, max: 8 }, "transaction gas limit too high"),
            (TxRuleError::Initcode { len: 9, max: 8 }, "max initcode size exceeded"),
            (TxRuleError::ChainId { expected: Some(1), got: 2 }, "invalid chain id for signer"),
            (TxRuleError::Type { tx_type: TxType::Eip7702, spec: SpecId::LONDON }, "transaction type not supported"),
            (TxRuleError::HighS, "invalid sender"),
        ] {
            let numbers = rule.to_string();
            let said = unsent(&SendError::Recover(RecoverError::Rule(rule))).to_string();
            assert!(said.contains(text), "{said}");
            assert!(said.ends_with(&numbers), "{said}");
        }
        let long = refused(&Refusal::TooLong { len: 200_000, max: 131_072 }).to_string();
        assert_eq!(long, "oversized data: 200000 bytes are more than 131072");
    }
}
