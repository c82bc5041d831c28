//! The file protocol: offer, resume point, status, and how they are encoded.

use super::group_terms::{GroupTerms, TERMS_LEN};
use super::tree::TreeRequest;
use super::{OFFER_TIMEOUT, PEER_TIMEOUT};
use crate::push::PushedStream;
use crate::xtp::group::JoinSecret;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Octets of a SHA-256.
pub(super) const SHA256_LEN: usize = 32;

/// Octets of the identifier that a group transfer's stream begins with.
pub(super) const ID_LEN: usize = 16;

/// The first octets of every offer: protocol and version.
const MAGIC: [u8; 8] = *b"towcp\0\0\x02";

/// The first octets of an offer with terms for its group.
const TERMS_MAGIC: [u8; 8] = *b"towcp\0\0\x04";

/// The first octets of every request for a tree.
pub(super) const TREE_MAGIC: [u8; 8] = *b"towcp\0\0\x03";

/// Longest name, octets.
const NAME_MAX: usize = 1024;

/// Longest reason of a refusal, octets.
const REASON_MAX: usize = 512;

/// A SHA-256 digest.
pub(super) type Sha256 = [u8; SHA256_LEN];

/// What the end that connects says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// It has a file.
    File(Offer),
    /// It has a tree, or asks for one.
    Tree(TreeRequest),
}

impl Opening {
    pub(super) fn receive(circuit: &mut PushedStream) -> io::Result<Opening> {
        let end = Instant::now() + OFFER_TIMEOUT;
        Opening::read(|room| circuit.recv(room, until(end)))
    }

    /// Reads an opening by calls of `receive`.
    fn read(mut receive: impl ReceiveSome) -> io::Result<Opening> {
        match read_array::<8>(&mut receive)? {
            MAGIC => Offer::read(&mut receive).map(Opening::File),
            TERMS_MAGIC => {
                let mut offer = Offer::read(&mut receive)?;
                offer.terms = GroupTerms::decode(read_array::<TERMS_LEN>(&mut receive)?)?;
                Ok(Opening::File(offer))
            }
            TREE_MAGIC => TreeRequest::read(&mut receive).map(Opening::Tree),
            _ => Err(invalid_data(
                "the peer does not use this file protocol, or a newer version of it",
            )),
        }
    }
}

/// The sender's offer: which file, and how it will be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) id: [u8; ID_LEN],
    /// The multicast group its content will be sent to; None for this circuit.
    pub(super) group: Option<SocketAddr>,
    /// How the group's content comes. The usual ones are not sent, so that earlier versions understand an offer.
    pub(super) terms: GroupTerms,
}

impl Offer {
    pub(super) fn send(&self, circuit: &mut PushedStream) -> io::Result<()> {
        send_and_flush(circuit, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let has_terms = self.terms != GroupTerms::default();
        let mut octets = if has_terms { TERMS_MAGIC } else { MAGIC }.to_vec();
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
        if has_terms {
            octets.extend(self.terms.encode());
        }
        octets
    }

    /// Reads an offer behind its first eight octets by calls of `receive`.
    fn read(mut receive: impl ReceiveSome) -> io::Result<Offer> {
        let id = read_array(&mut receive)?;
        let size = u64::from_be_bytes(read_array(&mut receive)?);
        let address = IpAddr::from(read_array::<16>(&mut receive)?).to_canonical();
        let port = u16::from_be_bytes(read_array(&mut receive)?);
        let group = (port != 0).then(|| SocketAddr::new(address, port));
        let name = read_text(&mut receive, NAME_MAX)?;
        Ok(Offer {
            name,
            size,
            id,
            group,
            terms: GroupTerms::default(),
        })
    }
}

/// The receiver's reply: length and digest of its partial file, and how the sender of a group knows
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResumePoint {
    pub(super) len: u64,
    pub(super) sha256: Sha256,
    pub(super) join_secret: JoinSecret,
}

impl ResumePoint {
    pub(super) fn send(&self, circuit: &mut PushedStream) -> io::Result<()> {
        let (len, secret) = (self.len.to_be_bytes(), self.join_secret.octets());
        let octets = [&[0], &len[..], &self.sha256, secret].concat();
        send_and_flush(circuit, &octets)
    }

    pub(super) fn receive(circuit: &mut PushedStream, limit: Duration) -> io::Result<ResumePoint> {
        recv_status(circuit, limit)?;
        Ok(ResumePoint {
            len: u64::from_be_bytes(recv_array(circuit, PEER_TIMEOUT)?),
            sha256: recv_array(circuit, PEER_TIMEOUT)?,
            join_secret: JoinSecret::new(recv_array(circuit, PEER_TIMEOUT)?),
        })
    }
}

/// Sends success, or a refusal with its reason.
pub(super) fn send_status(circuit: &mut PushedStream, refusal: Option<&str>) -> io::Result<()> {
    let Some(reason) = refusal else {
        return send_and_flush(circuit, &[0]);
    };
    let reason = &reason.as_bytes()[..reason.floor_char_boundary(REASON_MAX)];
    let len = (reason.len() as u16).to_be_bytes();
    send_and_flush(circuit, &[&[1], &len[..], reason].concat())
}

/// Receives a status; a refusal is an error.
pub(super) fn recv_status(circuit: &mut PushedStream, limit: Duration) -> io::Result<()> {
    match recv_array(circuit, limit)? {
        [0] => Ok(()),
        [1] => {
            let end = Instant::now() + PEER_TIMEOUT;
            let mut receive = |room: &mut [u8]| circuit.recv(room, until(end));
            Err(io::Error::other(read_text(&mut receive, REASON_MAX)?))
        }
        _ => Err(invalid_data("the peer's status is invalid")),
    }
}

/// Sends octets without coalescing.
pub(super) fn send_and_flush(circuit: &mut PushedStream, octets: &[u8]) -> io::Result<()> {
    circuit.send(octets, PEER_TIMEOUT)?;
    circuit.flush()
}

/// Receives the next octets; waits up to `limit` for all of them.
pub(super) fn recv_array<const N: usize>(
    circuit: &mut PushedStream,
    limit: Duration,
) -> io::Result<[u8; N]> {
    let end = Instant::now() + limit;
    read_array(&mut |room: &mut [u8]| circuit.recv(room, until(end)))
}

/// A call that fills a part of its room with the next octets; None at the end of them.
pub(super) trait ReceiveSome: FnMut(&mut [u8]) -> io::Result<Option<usize>> {}

impl<F: FnMut(&mut [u8]) -> io::Result<Option<usize>>> ReceiveSome for F {}

pub(super) fn read_array<const N: usize>(receive: &mut impl ReceiveSome) -> io::Result<[u8; N]> {
    let mut octets = [0; N];
    recv_exact(&mut octets, receive)?;
    Ok(octets)
}

fn until(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

/// Fills `octets` by repeated calls of `receive`.
pub(super) fn recv_exact(
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

fn read_text(receive: &mut impl ReceiveSome, most: usize) -> io::Result<String> {
    let len = usize::from(u16::from_be_bytes(read_array(receive)?));
    if len > most {
        return Err(invalid_data("the peer's text exceeds the maximum length"));
    }
    let mut octets = vec![0; len];
    recv_exact(&mut octets, receive)?;
    Ok(printable(&octets))
}

/// A peer's text for a terminal: no control sequences.
pub(super) fn printable(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).replace(is_unprintable, "?")
}

/// Characters that move the cursor, change the direction of writing or hide others.
pub(super) fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

pub(super) fn invalid_data(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    /// Reads an offer from octets that come one to seven at a time.
    fn read(mut octets: &[u8]) -> io::Result<Offer> {
        let opening = Opening::read(|room: &mut [u8]| {
            let len = room.len().min(octets.len()).min(1 + octets.len() % 7);
            let (part, rest) = octets.split_at(len);
            room[..len].copy_from_slice(part);
            octets = rest;
            Ok((len > 0).then_some(len))
        })?;
        match opening {
            Opening::File(offer) => Ok(offer),
            // A changed version.
            Opening::Tree(_) => Err(invalid_data("a tree")),
        }
    }

    fn offer(name: &str, group: Option<&str>) -> Offer {
        Offer {
            name: name.to_owned(),
            size: 1 << 40,
            id: [7; ID_LEN],
            group: group.map(|group| group.parse().expect("an address")),
            terms: GroupTerms::default(),
        }
    }

    #[test]
    fn offers_round_trip() {
        for group in [None, Some("239.1.2.3:5000"), Some("[ff05::7]:9")] {
            let offer = offer("f\u{fc}nf bytes", group);
            assert_eq!(read(&offer.encode()).expect("it is whole"), offer);
        }
        let mut with_terms = offer("file", Some("239.1.2.3:5000"));
        with_terms.terms.slot = Duration::from_millis(2);
        with_terms.terms.answer_to_group = true;
        assert_eq!(read(&with_terms.encode()).expect("whole"), with_terms);
        let long = offer(&"n".repeat(2000), None);
        assert_eq!(
            read(&long.encode()).expect("it is cut").name.len(),
            NAME_MAX
        );
    }

    #[test]
    fn mutated_offers_are_read_or_refused() {
        let good = offer("\u{202e}name", Some("239.1.2.3:5000")).encode();
        let (mut accepted, mut refused) = (0, 0);
        for seed in 0..50_000 {
            let mut random = SplitMix64::new(seed);
            let mut octets = good.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(octets.len() as u64) as usize;
                octets[at] = random.next_u64() as u8;
            }
            octets.truncate(1 + random.below(2 * good.len() as u64) as usize);
            match read(&octets) {
                Ok(offer) => {
                    accepted += 1;
                    assert!(!offer.name.contains(is_unprintable), "{:?}", offer.name);
                }
                Err(error) => {
                    refused += 1;
                    let known = [ErrorKind::InvalidData, ErrorKind::UnexpectedEof];
                    assert!(known.contains(&error.kind()), "{error}");
                }
            }
        }
        assert!(accepted > 1000 && refused > 1000, "{accepted}, {refused}");
    }
}
