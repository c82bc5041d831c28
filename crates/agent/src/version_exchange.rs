//! Version exchange: sixteen octets each way before authentication.
//!
//! The agent sends first, as the TCP handshake has validated the peer's address: its protocol
//! version and whether it requires keys. The caller answers with its kind: a client, or another
//! agent with a token. Nothing else is read before authentication.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Octets of a version message.
pub const LEN: usize = 16;

/// Timeout of the exchange.
pub const TIMEOUT: Duration = Duration::from_secs(5);

const AGENT: &[u8; 14] = b"towpath agent\0";
const CLIENT: &[u8; LEN] = b"towpath client\0\0";
const PEER_AGENT: &[u8; LEN] = b"towpath greeting";

/// Whether an agent requires keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMode {
    /// No keys; on the loopback only.
    NoKeys,
    /// TLS with keys follows.
    Keys,
}

/// Kind of the connecting peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerKind {
    /// A client.
    Client,
    /// Another agent.
    Agent,
}

/// Encodes the agent's message.
pub fn encode_agent(mode: AuthMode) -> [u8; LEN] {
    let mut octets = [0; LEN];
    octets[..AGENT.len()].copy_from_slice(AGENT);
    octets[14] = control::PROTOCOL_VERSION as u8;
    octets[15] = match mode {
        AuthMode::NoKeys => 0,
        AuthMode::Keys => 1,
    };
    octets
}

/// Encodes the caller's message.
pub fn encode_caller(caller: CallerKind) -> [u8; LEN] {
    match caller {
        CallerKind::Client => *CLIENT,
        CallerKind::Agent => *PEER_AGENT,
    }
}

/// Parses an agent's message.
///
/// # Errors
///
/// A sentence if the peer is no agent, or one of another version.
pub fn parse_agent(octets: &[u8; LEN]) -> Result<AuthMode, String> {
    if &octets[..AGENT.len()] != AGENT {
        return Err("what answers there is no towpath agent".into());
    }
    let (ours, theirs) = (control::PROTOCOL_VERSION, u32::from(octets[14]));
    if ours != theirs {
        return Err(format!(
            "the agent speaks version {theirs} of the protocol and this program version {ours}; \
             use the same towpath on both"
        ));
    }
    match octets[15] {
        0 => Ok(AuthMode::NoKeys),
        1 => Ok(AuthMode::Keys),
        _ => Err("what answers there is no towpath agent".into()),
    }
}

/// Parses a caller's message; None if malformed.
pub fn parse_caller(octets: &[u8; LEN]) -> Option<CallerKind> {
    match octets {
        CLIENT => Some(CallerKind::Client),
        PEER_AGENT => Some(CallerKind::Agent),
        _ => None,
    }
}

/// Fills the buffer until `end`.
///
/// # Errors
///
/// `TimedOut`, `UnexpectedEof`, or a system error.
pub fn read_exact_until(socket: &mut TcpStream, buffer: &mut [u8], end: Instant) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut buffer[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => filled += len,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes to a new connection, whose send buffer has room.
pub fn write_all(socket: &mut TcpStream, octets: &[u8]) -> io::Result<()> {
    socket.set_write_timeout(Some(TIMEOUT))?;
    socket.write_all(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_exchange_distinguishes_peers() {
        assert_eq!(
            parse_agent(&encode_agent(AuthMode::NoKeys)),
            Ok(AuthMode::NoKeys)
        );
        assert_eq!(
            parse_agent(&encode_agent(AuthMode::Keys)),
            Ok(AuthMode::Keys)
        );
        let mut other = encode_agent(AuthMode::Keys);
        other[14] = 77;
        let why = parse_agent(&other).expect_err("another version");
        assert!(why.contains("version 77"), "{why}");
        parse_agent(b"HTTP/1.1 200 OK\n").expect_err("a web server");
        for kind in [CallerKind::Client, CallerKind::Agent] {
            assert_eq!(parse_caller(&encode_caller(kind)), Some(kind));
        }
        assert_eq!(parse_caller(b"GET / HTTP/1.1\r\n"), None);
    }
}
