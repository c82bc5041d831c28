//! What is said before anybody is known: sixteen octets each way, of one form.
//!
//! The agent speaks first, to an address that TCP has just seen to be real, and says which version it
//! speaks and whether it asks for keys. The other says what it is: a client, or another agent that
//! brings a token. Nothing else is read before keys are proved.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Octets of a preface.
pub(crate) const LEN: usize = 16;

/// How long the other end may take for it.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

const AGENT: &[u8; 14] = b"towpath agent\0";
const CLIENT: &[u8; LEN] = b"towpath client\0\0";
const GREETING: &[u8; LEN] = b"towpath greeting";

/// Whether an agent asks for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It listens on the loopback alone, and asks for none.
    Open,
    /// TLS follows.
    Keys,
}

/// Who connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A measuring client.
    Client,
    /// Another agent.
    Agent,
}

/// The agent's.
pub(crate) fn agent(mode: Mode) -> [u8; LEN] {
    let mut octets = [0; LEN];
    octets[..AGENT.len()].copy_from_slice(AGENT);
    octets[14] = control::PROTOCOL_VERSION as u8;
    octets[15] = match mode {
        Mode::Open => 0,
        Mode::Keys => 1,
    };
    octets
}

/// The caller's.
pub(crate) fn caller(caller: Caller) -> [u8; LEN] {
    match caller {
        Caller::Client => *CLIENT,
        Caller::Agent => *GREETING,
    }
}

/// What an agent's preface says.
///
/// # Errors
///
/// A sentence when it is no agent, or one of another version.
pub(crate) fn read_agent(octets: &[u8; LEN]) -> Result<Mode, String> {
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
        0 => Ok(Mode::Open),
        1 => Ok(Mode::Keys),
        _ => Err("what answers there is no towpath agent".into()),
    }
}

/// What a caller's preface says; None for a stranger's.
pub(crate) fn read_caller(octets: &[u8; LEN]) -> Option<Caller> {
    match octets {
        CLIENT => Some(Caller::Client),
        GREETING => Some(Caller::Agent),
        _ => None,
    }
}

/// Reads as many octets as the buffer has, until `end`.
///
/// # Errors
///
/// `TimedOut`, `UnexpectedEof`, or the system's.
pub(crate) fn read(socket: &mut TcpStream, buffer: &mut [u8], end: Instant) -> io::Result<()> {
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

/// Writes octets that a new connection's buffer has room for.
///
/// # Errors
///
/// The system's.
pub(crate) fn write(socket: &mut TcpStream, octets: &[u8]) -> io::Result<()> {
    socket.set_write_timeout(Some(LIMIT))?;
    socket.write_all(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefaces_are_told_apart() {
        assert_eq!(read_agent(&agent(Mode::Open)), Ok(Mode::Open));
        assert_eq!(read_agent(&agent(Mode::Keys)), Ok(Mode::Keys));
        let mut other = agent(Mode::Keys);
        other[14] = 77;
        let why = read_agent(&other).expect_err("another version");
        assert!(why.contains("version 77"), "{why}");
        read_agent(b"HTTP/1.1 200 OK\n").expect_err("a web server");
        for who in [Caller::Client, Caller::Agent] {
            assert_eq!(read_caller(&caller(who)), Some(who));
        }
        assert_eq!(read_caller(b"GET / HTTP/1.1\r\n"), None);
    }
}
