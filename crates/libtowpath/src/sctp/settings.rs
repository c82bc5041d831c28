//! What a program set on a socket.

use super::octets::Octets;
use library::sctp::{EndpointConfig, Reliability};
use std::net::SocketAddr;
use std::time::Duration;

/// Numbers that setsockopt(2) takes for an association of the future, those of now, or both (RFC 6458
/// section 7).
pub(crate) const FUTURE_ASSOC: i32 = 0;
pub(crate) const CURRENT_ASSOC: i32 = 1;
pub(crate) const ALL_ASSOC: i32 = 2;

/// Flags of a message (RFC 6458 section 5.3.4).
pub(crate) const SCTP_UNORDERED: u16 = 1;
pub(crate) const SCTP_ADDR_OVER: u16 = 1 << 1;
pub(crate) const SCTP_ABORT: u16 = 1 << 2;
pub(crate) const SCTP_SENDALL: u16 = 1 << 6;
pub(crate) const SCTP_EOF: u16 = 0x200;

/// Policies of messages that may be given up (RFC 6458 section 5.3.7, RFC 7496).
pub(crate) const PR_NONE: u16 = 0;
const PR_TTL: u16 = 0x10;
const PR_RTX: u16 = 0x20;
const PR_PRIO: u16 = 0x30;

/// struct sctp_sndinfo: what a program says of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SendInfo {
    pub(crate) stream: u16,
    pub(crate) flags: u16,
    /// In the octet order of the network, as the program gave it.
    pub(crate) ppid: u32,
    pub(crate) context: u32,
    pub(crate) assoc: i32,
}

impl SendInfo {
    /// struct sctp_sndinfo.
    pub(crate) fn octets(&self) -> Octets {
        Octets::default()
            .u16(self.stream)
            .u16(self.flags)
            .u32(self.ppid)
            .u32(self.context)
            .i32(self.assoc)
    }
}

/// The reliability that a policy and its value stand for; None for an unknown policy.
pub(crate) fn reliability(policy: u16, value: u32) -> Option<Reliability> {
    match policy {
        PR_NONE => Some(Reliability::Full),
        PR_TTL => Some(Reliability::Lifetime(Duration::from_millis(value.into()))),
        PR_RTX => Some(Reliability::Retransmissions(value)),
        PR_PRIO => Some(Reliability::Priority(
            u16::try_from(value).unwrap_or(u16::MAX),
        )),
        _ => None,
    }
}

/// The reliability that a time to live in milliseconds stands for; 0 for no end.
pub(crate) fn of_time_to_live(millis: u32) -> Reliability {
    match millis {
        0 => Reliability::Full,
        millis => Reliability::Lifetime(Duration::from_millis(millis.into())),
    }
}

/// The policy and the value that stand for a reliability.
pub(crate) fn policy(reliability: Reliability) -> (u16, u32) {
    match reliability {
        Reliability::Full => (PR_NONE, 0),
        Reliability::Lifetime(time) => (PR_TTL, super::octets::millis(time)),
        Reliability::Retransmissions(count) => (PR_RTX, count),
        Reliability::Priority(value) => (PR_PRIO, value.into()),
    }
}

/// Settings that matter while associations live.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Notifications that are wanted: bit n for type SCTP_DATA_IO_EVENT + n.
    pub(crate) events: u32,
    /// SCTP_RECVRCVINFO: recvmsg(2) gives struct sctp_rcvinfo.
    pub(crate) gives_rcvinfo: bool,
    /// SCTP_RECVNXTINFO: recvmsg(2) tells of the next message.
    pub(crate) gives_nxtinfo: bool,
    /// What messages without a struct sctp_sndinfo have.
    pub(crate) default_info: SendInfo,
    /// What messages without a struct sctp_prinfo have.
    pub(crate) default_reliability: Reliability,
    /// SCTP_NODELAY: messages do not wait for others.
    pub(crate) no_delay: bool,
    /// SCTP_PARTIAL_DELIVERY_POINT: parts are given of messages of so many octets; None for as many as the receive
    /// buffer has.
    pub(crate) partial_point: Option<u32>,
    /// SCTP_FRAGMENT_INTERLEAVE.
    pub(crate) interleave: FragmentInterleave,
    /// SCTP_CONTEXT: comes with messages that are received.
    pub(crate) receive_context: u32,
}

/// What a program may receive between the parts of a message (RFC 6458 section 8.1.20).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FragmentInterleave {
    /// Nothing.
    Nothing,
    /// Messages of other associations: one whose message does not end holds up no others.
    #[default]
    Associations,
    /// Those of other streams too.
    Streams,
}

impl FragmentInterleave {
    /// Of its number in C.
    pub(crate) fn from_number(number: i32) -> Option<FragmentInterleave> {
        use FragmentInterleave::{Associations, Nothing, Streams};
        let known = [Nothing, Associations, Streams];
        known.get(usize::try_from(number).ok()?).copied()
    }
}

/// Settings of the endpoint, which it has from its beginning on.
#[derive(Clone, Debug)]
pub(crate) struct EndpointSettings {
    pub(crate) config: EndpointConfig,
    pub(crate) medium: Medium,
}

/// What carries SCTP's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// UDP (RFC 6951): the port that a listener receives on, and that of peers.
    Udp { own_port: u16, peer_port: u16 },
    /// UDP, with SCTP's ports as UDP's, so that many listeners run on one host.
    UdpSamePort,
    /// IP's protocol 132.
    RawIp,
}

/// UDP port of SCTP (IANA).
const UDP_PORT: u16 = 9899;

impl Medium {
    /// The medium that a word stands for: `udp`, `udp:PORT`, `udp:same` or `rawip`.
    pub(crate) fn from_word(word: &str) -> Option<Medium> {
        let udp = |port| Medium::Udp {
            own_port: port,
            peer_port: port,
        };
        match word {
            "udp" => Some(udp(UDP_PORT)),
            "udp:same" => Some(Medium::UdpSamePort),
            "rawip" => Some(Medium::RawIp),
            _ => word.strip_prefix("udp:")?.parse().ok().map(udp),
        }
    }

    /// Its word.
    pub(crate) fn word(self) -> String {
        match self {
            Medium::Udp { own_port, .. } => format!("udp:{own_port}"),
            Medium::UdpSamePort => "udp:same".to_owned(),
            Medium::RawIp => "rawip".to_owned(),
        }
    }

    /// Where a peer with this address, whose port is SCTP's, gets packets.
    pub(crate) fn destination(self, peer: SocketAddr) -> SocketAddr {
        let port = match self {
            Medium::Udp { peer_port, .. } => peer_port,
            Medium::UdpSamePort => peer.port(),
            Medium::RawIp => 0,
        };
        SocketAddr::new(peer.ip(), port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_media_are_read_as_they_are_written() {
        for word in ["udp:9899", "udp:0", "udp:same", "rawip"] {
            let medium = Medium::from_word(word).expect("a word");
            assert_eq!(medium.word(), word);
        }
        assert_eq!(Medium::from_word("udp"), Medium::from_word("udp:9899"));
        for word in ["", "udp:", "udp:65536", "kernel", "rawip:1"] {
            assert_eq!(Medium::from_word(word), None, "{word}");
        }
    }
}
