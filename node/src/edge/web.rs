//! Web pages that may call: by the `Origin` that a browser names, and by the `Host` that it has looked up.
//!
//! A browser lets every page open a WebSocket to any address, and send requests to a name that resolves to the loopback address.
//! Only the server can refuse both. A program sends no `Origin`.

use hyper::{Uri, header::HeaderValue};
use std::net::{IpAddr, SocketAddr};

/// Rules for web pages.
#[derive(Clone, Debug)]
pub(crate) struct Web {
    /// Origins that may call; `None` for all.
    origins: Option<Vec<String>>,
    /// Names of this host; `None` if any is taken. Addresses always are: no page makes a browser confuse them.
    hosts: Option<Vec<String>>,
}

impl Web {
    /// Rules of a server that is bound to an address. Names other than `localhost` are refused where that is a loopback
    /// address, or where names are given.
    ///
    /// # Errors
    /// The origin or name that is none.
    pub(crate) fn new(origins: &[String], hosts: &[String], bound: SocketAddr) -> Result<Self, String> {
        let origins = names(origins);
        let is_all = origins.contains(&"*".to_owned());
        if let Some(wrong) = origins.iter().find(|origin| *origin != "*" && !is_origin(origin)) {
            return Err(format!("{wrong} is no origin of web pages, as http://localhost:3000 is one"));
        }
        let origins = (!is_all).then_some(origins);
        let mut hosts = names(hosts);
        if let Some(wrong) = hosts.iter().find(|host| *host != "*" && name(host) != Some(host)) {
            return Err(format!("{wrong} is no name of a host, without a port"));
        }
        let is_open = hosts.contains(&"*".to_owned()) || hosts.is_empty() && !bound.ip().is_loopback();
        hosts.push("localhost".into());
        Ok(Self { origins, hosts: (!is_open).then_some(hosts) })
    }

    /// Origins that may call; `None` for all.
    pub(crate) fn origins(&self) -> Option<&[String]> {
        self.origins.as_deref()
    }

    /// True if a page of this origin may call. Without an origin it is no page.
    pub(crate) fn permits(&self, origin: Option<&HeaderValue>) -> bool {
        let (Some(origin), Some(permitted)) = (origin, &self.origins) else { return true };
        permitted.iter().any(|permitted| permitted.as_bytes() == origin.as_bytes())
    }

    /// True if a request that names this host is meant for this server.
    pub(crate) fn is_host(&self, host: Option<&HeaderValue>) -> bool {
        let (Some(host), Some(hosts)) = (host, &self.hosts) else { return true };
        let Some(name) = host.to_str().ok().and_then(name) else { return false };
        name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
            || hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Names of a setting, without empty ones.
fn names(list: &[String]) -> Vec<String> {
    list.iter().map(|item| item.trim().to_ascii_lowercase()).filter(|item| !item.is_empty()).collect()
}

/// True for a scheme and a host, and a port perhaps: what browsers send.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return text == "null" };
    !scheme.is_empty() && !host.contains(['/', '?', '#', '@']) && text.parse::<Uri>().is_ok()
}

/// A host without its port.
fn name(host: &str) -> Option<&str> {
    let end = if host.starts_with('[') { host.find(']')? + 1 } else { host.find(':').unwrap_or(host.len()) };
    let (name, port) = host.split_at(end);
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (!name.is_empty() && is_port && !name.contains(['/', '@', ' ', '*'])).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web(origins: &[&str], hosts: &[&str], bound: &str) -> Result<Web, String> {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Web::new(&owned(origins), &owned(hosts), bound.parse().expect("an address"))
    }

    fn permits(web: &Web, origin: &str) -> bool {
        web.permits(Some(&origin.parse().expect("a value")))
    }

    fn is_host(web: &Web, host: &str) -> bool {
        web.is_host(Some(&host.parse().expect("a value")))
    }

    #[test]
    fn origins_are_the_named_ones() {
        let some = web(&["http://good.example", "https://b.example:8443"], &[], "127.0.0.1:1").expect("sound");
        assert!(some.permits(None), "a program");
        assert!(permits(&some, "http://good.example") && permits(&some, "https://b.example:8443"));
        for other in ["https://good.example", "http://good.example:81", "http://evil.example", "null", "b.example:8443"]
        {
            assert!(!permits(&some, other), "{other}");
        }
        let none = web(&[""], &[], "127.0.0.1:1").expect("sound");
        assert!(none.permits(None) && !permits(&none, "http://good.example"));
        let all = web(&["http://a", "*"], &[], "127.0.0.1:1").expect("sound");
        assert!(permits(&all, "null") && permits(&all, "http://b"));
        for wrong in ["not an origin", "good.example", "http://", "http://a/", "http://a/b", "://a"] {
            assert!(web(&[wrong], &[], "127.0.0.1:1").is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_loopback_server_takes_no_foreign_name() {
        for bound in ["127.0.0.1:8545", "[::1]:8545", "127.0.0.5:1"] {
            let web = web(&[], &[], bound).expect("sound");
            assert!(web.is_host(None), "no browser");
            for host in
                ["localhost", "LocalHost:8545", "127.0.0.1", "127.0.0.1:8545", "[::1]:8545", "[::1]", "10.0.0.1:1"]
            {
                assert!(is_host(&web, host), "{host} at {bound}");
            }
            for host in [
                "evil.example",
                "evil.example:8545",
                "localhost.evil.example",
                "localhost:x",
                "",
                "[::1",
                "a@localhost",
            ] {
                assert!(!is_host(&web, host), "{host} at {bound}");
            }
        }
    }

    #[test]
    fn names_are_added_or_all_are_taken() {
        let open = web(&[], &[], "0.0.0.0:8545").expect("sound");
        assert!(is_host(&open, "node.example"));
        let named = web(&[], &["Node.example"], "0.0.0.0:8545").expect("sound");
        assert!(is_host(&named, "node.EXAMPLE:8545") && is_host(&named, "localhost"));
        assert!(!is_host(&named, "evil.example"));
        let all = web(&[], &["*"], "127.0.0.1:8545").expect("sound");
        assert!(is_host(&all, "evil.example"));
        for wrong in ["a:8545", "http://a", "a b", "a*"] {
            assert!(web(&[], &[wrong], "127.0.0.1:1").is_err(), "{wrong}");
        }
    }
}
