//! An agent's address as the user gives it: a host name or IP address, and a port.

use crate::DEFAULT_PORT;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::str::FromStr;

/// An agent's address as the user gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentAddress {
    /// Host name or IP address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl FromStr for AgentAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<AgentAddress, String> {
        let odd = || {
            format!("'{text}' is no host; give a name or an address, with :PORT or [ADDRESS]:PORT")
        };
        if let Some((address, port)) = parse_literal(text).filter(|(_, port)| *port > 0) {
            let address = address.map_err(|why| format!("{text} {why}"))?;
            return Ok(AgentAddress {
                host: address.to_string(),
                port,
            });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| odd())?),
            None => (text, DEFAULT_PORT),
        };
        let fine = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if host.is_empty() || host.len() > 253 || !host.chars().all(fine) || port == 0 {
            return Err(odd());
        }
        Ok(AgentAddress {
            host: host.to_owned(),
            port,
        })
    }
}

/// Parses an IP address and port, or says why a race cannot use it; None for a host name.
fn parse_literal(text: &str) -> Option<(Result<IpAddr, &'static str>, u16)> {
    let (bare, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (bare, port) = rest.split_once(']')?;
            let port = match port {
                "" => DEFAULT_PORT,
                port => port.strip_prefix(':')?.parse().ok()?,
            };
            (bare, port)
        }
        None => match text.parse::<SocketAddrV4>() {
            Ok(address) => return Some((Ok((*address.ip()).into()), address.port())),
            Err(_) => (text, DEFAULT_PORT),
        },
    };
    let (bare, interface) = match bare.split_once('%') {
        Some((bare, interface)) => (bare, Some(interface)),
        None => (bare, None),
    };
    let address: IpAddr = bare.parse().ok()?;
    let address = match interface {
        _ if is_link_local(address) => Err(LINK_LOCAL),
        Some(_) => Err("has an interface, which only a link-local address has; leave it out"),
        None => Ok(address),
    };
    Some((address, port))
}

/// Why a race cannot use a link-local address.
const LINK_LOCAL: &str = "is link-local: it needs an interface, and workers get addresses \
     only; give another address of that host, or its name";

/// Whether an address depends on the interface (RFC 4007).
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            DEFAULT_PORT => f.write_str(&self.host),
            port if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            port => write!(f, "{}:{port}", self.host),
        }
    }
}

impl AgentAddress {
    /// Resolves the host's addresses of one family.
    ///
    /// # Errors
    ///
    /// When it has none, or only link-local ones.
    pub fn resolve(&self, ipv6: bool) -> io::Result<Vec<SocketAddr>> {
        let all = (self.host.as_str(), self.port).to_socket_addrs()?;
        let (local, mut all): (Vec<_>, Vec<_>) = all.partition(|one| is_link_local(one.ip()));
        if let (Some(only), true) = (local.first(), all.is_empty()) {
            let what = format!("its address {} {LINK_LOCAL}", only.ip());
            return Err(io::Error::other(what));
        }
        let literal = self.host.parse::<IpAddr>().is_ok();
        all.retain(|address| literal || address.is_ipv6() == ipv6);
        all.truncate(8);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_address_spellings_parse() {
        let is = |text: &str, host: &str, port: u16| {
            let target: AgentAddress = text.parse().unwrap_or_else(|why| panic!("{why}"));
            assert_eq!((target.host.as_str(), target.port), (host, port));
        };
        is("lab", "lab", DEFAULT_PORT);
        is("lab.example.org:99", "lab.example.org", 99);
        is("192.0.2.1", "192.0.2.1", DEFAULT_PORT);
        is("192.0.2.1:5", "192.0.2.1", 5);
        is("2001:db8::1", "2001:db8::1", DEFAULT_PORT);
        is("[2001:db8::1]", "2001:db8::1", DEFAULT_PORT);
        is("[2001:db8::1]:8", "2001:db8::1", 8);
        let shown = |text: &str| text.parse::<AgentAddress>().expect("a host").to_string();
        for text in [
            "lab",
            "lab:9",
            "2001:db8::1",
            "[2001:db8::1]:8",
            "192.0.2.1:5",
        ] {
            assert_eq!(shown(text), text);
        }
        for wrong in [
            "",
            "a b",
            "lab:",
            "lab:x",
            "lab:0",
            "http://lab",
            "lab:70000",
            "[2001:db8::1]8",
            "[2001:db8::1]:x",
            "[2001:db8::1]:0",
            "192.0.2.1:0",
            "192.0.2.1%eth0:5",
        ] {
            assert!(wrong.parse::<AgentAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn link_local_address_rejected_with_reason() {
        let why = |text: &str| text.parse::<AgentAddress>().expect_err(text);
        for local in ["fe80::1", "fe80::1%eth0", "[fe80::1%2]:7470", "[febf::1]"] {
            let why = why(local);
            assert!(why.starts_with(&format!("{local} is link-local")), "{why}");
            assert!(why.contains("give another address"), "{why}");
        }
        assert!(why("2001:db8::1%eth0").contains("leave it out"));
    }
}
