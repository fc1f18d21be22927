//! Flags of a chain for development, and its genesis.

use super::{
    remote::{DEV_GENESIS, RemoteArgs},
    service::one_or_more,
};
use clap::{Args, ValueEnum};
use phalanx::{
    RootKind,
    alloy::{genesis::Genesis, primitives::U256},
};
use phalanx_lab::{
    config::{choice, heading},
    error::Usage,
};
use phalanx_node::{
    DEV_BALANCE, DEV_CHAIN, DEV_MNEMONIC, DevAccount, Remote, dev_accounts, dev_genesis, into_development, set_root,
};
use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// Hard fork of a chain for development, from its first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fork {
    /// The next one of Ethereum, whose prices may still change
    Amsterdam,
    /// The newest
    Osaka,
    /// The one before, without a maximum of a transaction's gas (EIP-7825)
    Prague,
}

#[derive(Debug, Args)]
pub(super) struct DevelopmentArgs {
    /// Chain id of the chain for development [default: 1337, that of the other chain with --fork-url]
    #[arg(long, value_name = "ID", help_heading = heading::DEVELOPMENT)]
    chain_id: Option<u64>,
    /// Number of funded accounts of the chain for development, at most 10000
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = heading::DEVELOPMENT)]
    accounts: usize,
    /// Words that the keys of the accounts for development follow from
    #[arg(long, value_name = "WORDS", default_value = DEV_MNEMONIC, help_heading = heading::DEVELOPMENT)]
    mnemonic: String,
    /// Balance of each account for development, in ether
    #[arg(long, value_name = "ETHER", default_value_t = 10_000, help_heading = heading::DEVELOPMENT)]
    balance: u64,
    #[command(flatten)]
    pub(super) remote: RemoteArgs,
    /// Hard fork of the chain for development
    #[arg(long, value_enum, default_value = "osaka", help_heading = heading::DEVELOPMENT)]
    fork: Fork,
    /// Maximum length of a contract's code on the chain for development, in bytes, with twice as much for initcode [default: 24576]
    #[arg(long, value_name = "BYTES", value_parser = one_or_more::<u64>, help_heading = heading::DEVELOPMENT)]
    code_size_limit: Option<u64>,
    /// Root that the blocks of the chain for development report; a genesis file has it as phalanxRoot
    #[arg(long, value_parser = choice::<RootKind>(), default_value = "twigs", help_heading = heading::DEVELOPMENT)]
    root: RootKind,
}

impl DevelopmentArgs {
    /// Balance of each account for development, in ether.
    pub(super) const fn balance(&self) -> u64 {
        self.balance
    }

    /// The funded accounts, whose keys follow from the words.
    pub(super) fn accounts(&self) -> Result<Vec<DevAccount>, Usage> {
        dev_accounts(&self.mnemonic, self.accounts).map_err(|error| Usage(error.to_string()))
    }

    /// Genesis at no time of its own: that of a chain whose blocks others make.
    pub(super) fn genesis(&self, accounts: &[DevAccount], remote: Option<&Remote>) -> Genesis {
        let ether = DEV_BALANCE / U256::from(10_000);
        let chain_id = self.chain_id.or_else(|| remote.map(Remote::chain_id)).unwrap_or(DEV_CHAIN);
        let mut genesis = dev_genesis(chain_id, accounts, ether.saturating_mul(U256::from(self.balance)));
        match self.fork {
            Fork::Amsterdam => genesis.config.amsterdam_time = Some(0),
            Fork::Osaka => {}
            Fork::Prague => genesis.config.osaka_time = None,
        }
        if let Some(limit) = self.code_size_limit {
            genesis.config.extra_fields.insert("phalanxCodeLimit".into(), limit.into());
        }
        if self.root != RootKind::default() {
            set_root(&mut genesis, self.root);
        }
        genesis
    }
}

/// Gives the genesis of a chain that this node makes its time. That of a chain in a folder keeps what a file there has.
pub(super) fn begin(
    mut genesis: Genesis,
    gas_limit: Option<u64>,
    folder: &Path,
    remote: Option<&Remote>,
) -> anyhow::Result<Genesis> {
    let path = folder.join(DEV_GENESIS);
    let wrong = |error: &dyn core::fmt::Display| Usage(format!("{}: {error}", path.display()));
    if path.exists() {
        let text = fs::read_to_string(&path).map_err(|error| wrong(&error))?;
        let held: Genesis = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        if let Some(remote) = remote {
            remote.check(&held)?;
            // The accounts of the other chain were read at the first start.
            return Ok(held);
        }
        into_development(&mut genesis, held.timestamp);
        // Only the first block has the gas limit of the genesis. The node refuses a chain that differs in anything else.
        genesis.gas_limit = held.gas_limit;
        return Ok(genesis);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    into_development(&mut genesis, now);
    if let Some(remote) = remote {
        remote.put_above(&mut genesis)?;
    } else {
        genesis.gas_limit = gas_limit.unwrap_or(genesis.gas_limit);
    }
    fs::create_dir_all(folder).map_err(|error| wrong(&error))?;
    fs::write(&path, serde_json::to_string_pretty(&genesis)?).map_err(|error| wrong(&error))?;
    Ok(genesis)
}
