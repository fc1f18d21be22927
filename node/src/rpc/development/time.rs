//! Time and fees of the blocks to come.

use super::common::{add, next, number, short};
use crate::rpc::{
    api::Api,
    args::{self, Args},
    error::RpcError,
    registry::Registry,
};
use alloy_primitives::B256;

/// Latest time that may be set, in seconds: headers of blocks count milliseconds in 64 bits too.
const LATEST: u64 = 1 << 50;

pub(super) fn register(registry: &mut Registry) {
    add(registry, &["evm_increaseTime", "anvil_increaseTime"], 1, |api, args| {
        let (next, by) = (next(api)?, args.required(0, short)?);
        let time = checked(next.clock().saturating_add(by))?;
        next.set_clock(time);
        Ok(next.said().ahead)
    });
    add(registry, &["evm_setNextBlockTimestamp", "anvil_setNextBlockTimestamp"], 1, |api, args| {
        let time = args.required(0, short)?;
        check_after(api, time)?;
        next(api)?.say(|said| said.time = Some(time));
        Ok(true)
    });
    add(registry, &["anvil_setTime", "evm_setTime"], 1, |api, args| {
        let (next, time) = (next(api)?, args.required(0, short)?);
        next.set_clock(checked(time)?);
        Ok(next.said().ahead)
    });
    add(registry, &["anvil_setBlockTimestampInterval"], 1, |api, args| {
        let step = checked(args.required(0, short)?)?;
        next(api)?.say(|said| said.step = Some(step));
        Ok(true)
    });
    add(registry, &["anvil_removeBlockTimestampInterval"], 0, |api, _| {
        let mut was = false;
        next(api)?.say(|said| was = said.step.take().is_some());
        Ok(was)
    });
    add(registry, &["anvil_setNextBlockBaseFeePerGas", "hardhat_setNextBlockBaseFeePerGas"], 1, |api, args| {
        let fee = args.required(0, short)?;
        next(api)?.say(|said| said.base_fee = Some(fee));
        Ok(true)
    });
    add(registry, &["anvil_setMinGasPrice", "hardhat_setMinGasPrice"], 1, |_, _| {
        Err::<bool, _>(RpcError::invalid("the method is not supported when EIP-1559 is active"))
    });
    add(registry, &["evm_setBlockGasLimit", "anvil_setBlockGasLimit"], 1, set_gas_limit);
    add(registry, &["anvil_setCoinbase", "hardhat_setCoinbase"], 1, |api, args| {
        let beneficiary = args.required(0, args::address)?;
        next(api)?.say(|said| said.beneficiary = beneficiary);
        Ok(true)
    });
    add(registry, &["anvil_setPrevRandao", "hardhat_setPrevRandao"], 1, |api, args| {
        let randao: B256 = args.required(0, number)?.into();
        next(api)?.say(|said| said.prevrandao = Some(randao));
        Ok(true)
    });
}

fn checked(time: u64) -> Result<u64, RpcError> {
    if time > LATEST { Err(RpcError::invalid(format!("the time {time} is above {LATEST} s"))) } else { Ok(time) }
}

/// Checks that a time is after the newest block's.
pub(super) fn check_after(api: &Api, time: u64) -> Result<(), RpcError> {
    let newest = api.chain.head().header.timestamp;
    if checked(time)? <= newest {
        let why = format!("Timestamp {time} is lower than or equal to previous block's timestamp {newest}");
        return Err(RpcError::invalid(why));
    }
    Ok(())
}

fn set_gas_limit(api: &Api, args: &Args) -> Result<bool, RpcError> {
    let (limit, least) = (args.required(0, short)?, api.chain.spec.parameters().min_gas_limit);
    if !(least..=i64::MAX as u64).contains(&limit) {
        return Err(RpcError::invalid(format!("a block's gas limit is from {least} to 2^63 - 1")));
    }
    next(api)?.say(|said| said.gas_limit = Some(limit));
    Ok(true)
}
