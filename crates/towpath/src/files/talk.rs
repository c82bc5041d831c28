//! What sender and receiver say to each other, as octets.

use super::PATIENCE;
use crate::xtp::Circuit;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Octets of a SHA-256.
pub(super) const SUM_LEN: usize = 32;

/// Octets of the number a transfer to a group has, by which its stream is known.
pub(super) const ID_LEN: usize = 16;

/// The first octets of every conversation: what it is, and its version.
const MAGIC: [u8; 8] = *b"towcp\0\0\x01";

/// Octets of a name that are read.
const NAME_MAX: usize = 1024;

/// Octets of a reason that are read.
const REASON_MAX: usize = 512;

/// A SHA-256.
pub(super) type Sum = [u8; SUM_LEN];

/// What comes, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) id: [u8; ID_LEN],
    /// The group its bytes will be sent to; None for this circuit.
    pub(super) group: Option<SocketAddr>,
}

impl Hello {
    pub(super) fn send(&self, circuit: &mut Circuit) -> io::Result<()> {
        let mut octets = MAGIC.to_vec();
        octets.extend(self.id);
        octets.extend(self.size.to_be_bytes());
        let (address, port) = self.group.map_or(([0; 16], 0), |group| {
            let address = match group.ip() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            (address.octets(), group.port())
        });
        octets.extend(address);
        octets.extend(port.to_be_bytes());
        let name = &self.name.as_bytes()[..self.name.floor_char_boundary(NAME_MAX)];
        octets.extend((name.len() as u16).to_be_bytes());
        octets.extend(name);
        say(circuit, &octets)
    }

    pub(super) fn receive(circuit: &mut Circuit) -> io::Result<Hello> {
        if array::<8>(circuit, PATIENCE)? != MAGIC {
            return Err(wrong(
                "the peer does not speak of files, or a newer version of it",
            ));
        }
        let id = array(circuit, PATIENCE)?;
        let size = u64::from_be_bytes(array(circuit, PATIENCE)?);
        let address = IpAddr::from(array::<16>(circuit, PATIENCE)?).to_canonical();
        let port = u16::from_be_bytes(array(circuit, PATIENCE)?);
        let group = (port != 0).then(|| SocketAddr::new(address, port));
        let name = text(circuit, NAME_MAX)?;
        Ok(Hello {
            name,
            size,
            id,
            group,
        })
    }
}

/// What the receiver has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Have {
    pub(super) len: u64,
    pub(super) sum: Sum,
}

impl Have {
    pub(super) fn send(&self, circuit: &mut Circuit) -> io::Result<()> {
        let octets = [&[0], &self.len.to_be_bytes()[..], &self.sum].concat();
        say(circuit, &octets)
    }

    pub(super) fn receive(circuit: &mut Circuit, limit: Duration) -> io::Result<Have> {
        agreed(circuit, limit)?;
        Ok(Have {
            len: u64::from_be_bytes(array(circuit, PATIENCE)?),
            sum: array(circuit, PATIENCE)?,
        })
    }
}

/// Says yes, or no and why.
pub(super) fn answer(circuit: &mut Circuit, refusal: Option<&str>) -> io::Result<()> {
    let Some(reason) = refusal else {
        return say(circuit, &[0]);
    };
    let reason = &reason.as_bytes()[..reason.floor_char_boundary(REASON_MAX)];
    let len = (reason.len() as u16).to_be_bytes();
    say(circuit, &[&[1], &len[..], reason].concat())
}

/// Hears yes; no is an error.
pub(super) fn agreed(circuit: &mut Circuit, limit: Duration) -> io::Result<()> {
    match array(circuit, limit)? {
        [0] => Ok(()),
        [1] => Err(io::Error::other(text(circuit, REASON_MAX)?)),
        _ => Err(wrong("the peer's answer makes no sense")),
    }
}

/// Sends octets that are to leave now.
pub(super) fn say(circuit: &mut Circuit, octets: &[u8]) -> io::Result<()> {
    circuit.send(octets, PATIENCE)?;
    circuit.flush()
}

/// The next octets, each waited for up to `limit`.
pub(super) fn array<const N: usize>(circuit: &mut Circuit, limit: Duration) -> io::Result<[u8; N]> {
    let mut octets = [0; N];
    fill(&mut octets, |room| circuit.recv(room, limit))?;
    Ok(octets)
}

/// Fills `octets` from a source that gives what it has.
pub(super) fn fill(
    octets: &mut [u8],
    mut receive: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
) -> io::Result<()> {
    let mut at = 0;
    while at < octets.len() {
        match receive(&mut octets[at..])? {
            Some(len) => at += len,
            None => return Err(ErrorKind::UnexpectedEof.into()),
        }
    }
    Ok(())
}

fn text(circuit: &mut Circuit, most: usize) -> io::Result<String> {
    let len = usize::from(u16::from_be_bytes(array(circuit, PATIENCE)?));
    if len > most {
        return Err(wrong("the peer says more than it may"));
    }
    let mut octets = vec![0; len];
    fill(&mut octets, |room| circuit.recv(room, PATIENCE))?;
    let text = String::from_utf8_lossy(&octets);
    // It is shown to people, whose terminal it must not command.
    Ok(text.replace(char::is_control, "?"))
}

fn wrong(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}
