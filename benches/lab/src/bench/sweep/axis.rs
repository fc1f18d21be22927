//! The setting that a sweep varies, and its values.

use crate::config::{RunConfig, count};
use std::str::FromStr;

/// A setting and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub(super) name: &'static str,
    pub(super) values: Vec<f64>,
}

/// Settings that a sweep may vary, with true for a share and false for a count.
const AXES: [(&str, bool); 10] = [
    ("accounts", false),
    ("alpha", true),
    ("block-gas", false),
    ("block-txs", false),
    ("gamma", false),
    ("hot-pool-share", true),
    ("pools", false),
    ("seed", false),
    ("threads", false),
    ("txs", false),
];

/// Names of the settings, for the help.
pub const AXIS_HELP: &str = "Setting to vary, and its values: accounts, alpha, block-gas, block-txs, gamma, hot-pool-share, pools, seed, threads \
                             or txs, as flags of `bench run`";

impl FromStr for Axis {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (name, values) = word.split_once('=').ok_or("expected NAME=a,b,c")?;
        let name = name.trim_start_matches("--").replace('_', "-");
        let Some((name, is_share)) = AXES.into_iter().find(|(axis, _)| *axis == name) else {
            let known: Vec<&str> = AXES.iter().map(|(name, _)| *name).collect();
            return Err(format!("{name} is none of {}", known.join(", ")));
        };
        let value = |value: &str| match value.trim() {
            "" => Err(format!("{name} has an empty value")),
            value if is_share => value.parse::<f64>().map_err(|_| format!("{name}: {value} is no number")),
            // Beyond 2^53 neighbours are the same number.
            value => match count(value).map_err(|why| format!("{name} takes whole numbers: {why}"))? {
                whole if whole <= 1 << 53 => Ok(whole as f64),
                whole => Err(format!("{name}: {whole} is more than 2^53")),
            },
        };
        let values = values.split(',').map(value).collect::<Result<Vec<f64>, String>>()?;
        if let Some(value) = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
            return Err(format!("{name} has the value {} twice", value.1));
        }
        Ok(Self { name, values })
    }
}

impl Axis {
    /// Sets this setting of `config` to `value`.
    pub(super) fn set(&self, config: &mut RunConfig, value: f64) {
        let (whole, load) = (value as u64, &mut config.load);
        match self.name {
            "accounts" => load.accounts = whole,
            "alpha" => load.alpha = value,
            "block-gas" => config.block_gas = whole,
            "block-txs" => load.block_txs = whole as usize,
            "gamma" => load.gamma = whole,
            "hot-pool-share" => load.hot_pool_share = value,
            "pools" => load.pools = u32::try_from(whole).unwrap_or(u32::MAX),
            "seed" => load.seed = whole,
            "threads" => config.threads = Some(whole as usize),
            _ => load.txs = whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_settings_with_numbers() {
        let axis: Axis = "block_txs=100,2000".parse().unwrap();
        assert_eq!(axis, Axis { name: "block-txs", values: vec![100.0, 2000.0] });
        assert_eq!("--alpha=0,0.5".parse::<Axis>().unwrap().values, [0.0, 0.5]);
        for wrong in [
            "alpha",
            "alpha=",
            "alpha=x",
            "hasher=1",
            "txs=1.5",
            "txs=-1",
            "threads=1,,2",
            "threads=1,x",
            "txs=2^60",
            "txs=1,1",
        ] {
            assert!(wrong.parse::<Axis>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_axis_sets_its_own_setting_and_is_in_the_help() {
        let mut seen = Vec::new();
        for (name, is_share) in AXES {
            assert!(AXIS_HELP.contains(name), "{name}");
            let axis: Axis = format!("{name}={}", if is_share { "0.5" } else { "7k" }).parse().unwrap();
            let mut config = RunConfig::default();
            axis.set(&mut config, axis.values[0]);
            assert!(config != RunConfig::default() && !seen.contains(&config), "{name}");
            seen.push(config);
        }
    }
}
