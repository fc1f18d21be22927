//! Flags of what a node serves: JSON-RPC, the binary ingress, metrics and its log.

use clap::{Args, ValueEnum};
use phalanx_lab::{config::heading, error::Usage};
use phalanx_node::{IngressAddress, RpcConfig};
use std::{net::SocketAddr, num::ParseIntError, str::FromStr};
use tracing_subscriber::EnvFilter;

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(super) struct ServiceArgs {
    /// Address of JSON-RPC, HTTP and WebSocket
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8545", help_heading = heading::SERVICE)]
    rpc: SocketAddr,
    /// Namespaces of JSON-RPC [default: eth,net,web3,txpool,phalanx; with --dev all others too]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = namespace, help_heading = heading::SERVICE)]
    rpc_api: Option<Vec<String>>,
    /// Origins of web pages that may call, * for all [default: none; * with --dev]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = origin, help_heading = heading::SERVICE)]
    rpc_cors: Option<Vec<String>>,
    /// Names of this host that requests may have, * for all [default: localhost on a loopback address, else all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = heading::SERVICE)]
    rpc_hosts: Option<Vec<String>>,
    /// Maximum gas of a call, an estimate or a trace
    #[arg(long, value_name = "GAS", default_value_t = RpcConfig::default().gas_cap, value_parser = one_or_more::<u64>, help_heading = heading::SERVICE)]
    rpc_gas_cap: u64,
    /// Maximum number of blocks of a log query
    #[arg(long, value_name = "N", default_value_t = RpcConfig::default().max_range, value_parser = one_or_more::<u64>, help_heading = heading::SERVICE)]
    rpc_max_range: u64,
    /// Maximum number of logs of an answer
    #[arg(long, value_name = "N", default_value_t = RpcConfig::default().max_logs, value_parser = one_or_more::<usize>, help_heading = heading::SERVICE)]
    rpc_max_logs: usize,
    /// Maximum number of requests in a batch
    #[arg(long, value_name = "N", default_value_t = RpcConfig::default().max_batch, value_parser = one_or_more::<u32>, help_heading = heading::SERVICE)]
    rpc_max_batch: u32,
    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value_t = RpcConfig::default().max_connections, value_parser = one_or_more::<u32>, help_heading = heading::SERVICE)]
    rpc_max_connections: u32,
    /// Maximum number of calls, traces and log queries at once
    #[arg(long, value_name = "N", default_value_t = RpcConfig::default().max_calls, value_parser = one_or_more::<usize>, help_heading = heading::SERVICE)]
    rpc_max_calls: usize,
    /// Addresses of the binary ingress, for clients that send many transactions: IP:PORT, or unix:PATH
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = heading::SERVICE)]
    pub(super) ingress: Vec<IngressAddress>,
    /// Address of /metrics and /health
    #[arg(long, value_name = "ADDRESS", help_heading = heading::SERVICE)]
    pub(super) metrics: Option<SocketAddr>,
    /// Log filter: a level, or targets with levels
    #[arg(long, value_name = "FILTER", default_value = "info", help_heading = heading::SERVICE)]
    log: String,
    /// Form of the log
    #[arg(long, value_enum, default_value = "text", help_heading = heading::SERVICE)]
    log_format: LogFormat,
}

impl ServiceArgs {
    /// Settings of JSON-RPC: `more` are the namespaces beside the usual ones, `cors` the origins, unless flags name others.
    pub(super) fn rpc(&self, more: &[&str], cors: &[&str]) -> RpcConfig {
        let mut rpc = RpcConfig {
            address: self.rpc,
            gas_cap: self.rpc_gas_cap,
            max_range: self.rpc_max_range,
            max_logs: self.rpc_max_logs,
            max_batch: self.rpc_max_batch,
            max_connections: self.rpc_max_connections,
            max_calls: self.rpc_max_calls,
            cors: cors.iter().copied().map(Into::into).collect(),
            ..RpcConfig::default()
        };
        rpc.namespaces.extend(more.iter().copied().map(Into::into));
        if let Some(namespaces) = &self.rpc_api {
            rpc.namespaces.clone_from(namespaces);
        }
        if let Some(origins) = &self.rpc_cors {
            rpc.cors = origins.iter().filter(|origin| !origin.is_empty()).cloned().collect();
        }
        if let Some(hosts) = &self.rpc_hosts {
            rpc.hosts.clone_from(hosts);
        }
        rpc
    }

    pub(super) fn start_log(&self) -> anyhow::Result<()> {
        let filter = EnvFilter::try_new(&self.log).map_err(|error| Usage(format!("--log {}: {error}", self.log)))?;
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        let started = match self.log_format {
            LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
            LogFormat::Json => builder.json().try_init(),
        };
        started.map_err(|error| anyhow::anyhow!("starting the log: {error}"))
    }
}

/// Address of JSON-RPC over HTTP or HTTPS.
pub(super) fn server(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let is_sound = |host: &str| {
        let port = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let name = port.map_or(host, |(name, _)| name);
        !name.is_empty()
            && !name.contains('@')
            && port.is_none_or(|(_, port)| port.parse::<u16>().is_ok_and(|of| of != 0))
    };
    let found = host.filter(|host| is_sound(host)).map(|_| text.to_owned());
    found.ok_or_else(|| "http://HOST:PORT or https://HOST is expected".into())
}

/// A namespace of JSON-RPC.
fn namespace(text: &str) -> Result<String, String> {
    let known = phalanx_node::NAMESPACES;
    known.contains(&text).then(|| text.to_owned()).ok_or_else(|| format!("the namespaces are {}", known.join(", ")))
}

/// Origin of web pages, as browsers name it: scheme, host and port, and nothing behind them. Nothing at all is no origin.
fn origin(text: &str) -> Result<String, String> {
    let is_sound = |(scheme, rest): (&str, &str)| {
        let is_scheme =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.');
        let is_host = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'@' | b'?' | b'#' | b'*' | b'"');
        let begins = scheme.starts_with(|first: char| first.is_ascii_lowercase());
        begins && scheme.bytes().all(is_scheme) && !rest.is_empty() && rest.bytes().all(is_host)
    };
    if text.is_empty() || text == "*" || text.split_once("://").is_some_and(is_sound) {
        return Ok(text.to_owned());
    }
    Err("* or an origin as https://HOST or http://HOST:PORT is expected, without a path".into())
}

/// A number above zero.
pub(super) fn one_or_more<N: FromStr<Err = ParseIntError> + Default + PartialEq>(text: &str) -> Result<N, String> {
    let number = text.parse::<N>().map_err(|error| error.to_string())?;
    if number == N::default() { Err("a number from 1 is expected".into()) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_a_scheme_and_a_host() {
        for sound in ["http://10.0.0.1:8545", "http://[::1]:8545/", "http://[::1]", "https://node.example/key?x=1:2"] {
            assert_eq!(server(sound), Ok(sound.into()));
        }
        for wrong in
            ["", "10.0.0.1:8545", "ws://a:1", "http://", "https:///x", "http://a:0", "http://a:b", "http://u@a:1"]
        {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn namespaces_origins_and_limits_that_mean_nothing_are_refused() {
        for known in ["eth", "net", "web3", "txpool", "debug", "phalanx"] {
            assert_eq!(namespace(known), Ok(known.into()));
        }
        for wrong in ["", "wallet", "ETH", "eth_", "*"] {
            assert!(namespace(wrong).is_err_and(|why| why.contains("txpool")), "{wrong}");
        }
        for sound in ["", "*", "https://a.example", "http://localhost:3000", "http://[::1]:8", "chrome-extension://abc"]
        {
            assert_eq!(origin(sound), Ok(sound.into()));
        }
        for wrong in
            ["not an origin", "a.example", "https://", "https://a/", "https://a/b", "https://*.a", "//a", "null"]
        {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
        assert_eq!(one_or_more::<usize>("7"), Ok(7));
        for wrong in ["0", "", "-1", "x", "4294967296"] {
            assert!(one_or_more::<u32>(wrong).is_err(), "{wrong}");
        }
    }
}
