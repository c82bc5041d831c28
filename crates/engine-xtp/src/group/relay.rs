//! A relay: it receives a group's packets and repeats them to hosts that multicast does not reach.
//!
//! Each such member has a *stand-in* at the relay, an address of its own. To the sender the
//! stand-in is the member: it joins, answers and is reported. To the member it is the sender. So
//! the relay forwards packets unchanged and keeps no bytes; members acknowledge by themselves. The
//! key in a control packet names the stream, and so the sender it is for (0009, A relay).
//!
//! Control packets sent to the group are not forwarded, so there is no damping behind a relay.
//! Slotting works as without one.

use crate::pdu::{Header, Options, RTN, Reject, Rejects};
use core::time::Duration;
use engine::{Address, Instant};
use std::collections::BTreeMap;

/// Options of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The members behind the relay; the index is that of the stand-in.
    pub members: Vec<Address>,
    /// Streams at most; packets of others are dropped. About 100 bytes each.
    ///
    /// 1024, as many as keys in an endpoint's quarantine.
    pub streams_max: usize,
    /// A stream without a packet for this long is forgotten.
    ///
    /// Two minutes: an idle sender sends a status request every five seconds.
    pub idle_timeout: Duration,
}

impl Default for RelayConfig {
    fn default() -> Self {
        RelayConfig {
            members: Vec::new(),
            streams_max: 1024,
            idle_timeout: Duration::from_secs(120),
        }
    }
}

/// The relay's address at which a packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalAddress {
    /// The group's address.
    Group,
    /// A stand-in, by the member's index in [`RelayConfig::members`].
    StandIn(usize),
}

#[derive(Clone, Copy, Debug)]
struct RelayedStream {
    sender: Address,
    last_received_at: Instant,
}

/// Decides where packets are forwarded; it keeps none.
#[derive(Debug)]
pub struct Relay {
    config: RelayConfig,
    /// Streams by the sender's key.
    streams: BTreeMap<u64, RelayedStream>,
    rejects: Rejects,
    packets_repeated: u64,
    answers_returned: u64,
}

impl Relay {
    /// A relay that knows no streams yet.
    pub fn new(config: RelayConfig) -> Relay {
        Relay {
            config,
            streams: BTreeMap::new(),
            rejects: Rejects::default(),
            packets_repeated: 0,
            answers_returned: 0,
        }
    }

    /// Forwards a packet: calls `send` with the stand-in to send from and the destination, once for
    /// each copy.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        heard: ArrivalAddress,
        from: Address,
        packet: &[u8],
        mut send: impl FnMut(usize, Address),
    ) {
        let done = match heard {
            ArrivalAddress::Group => self.repeat_to_members(now, from, packet, &mut send),
            ArrivalAddress::StandIn(place) => self.forward_unicast(place, from, packet, &mut send),
        };
        if let Err(reason) = done {
            self.rejects.record(reason);
        }
    }

    /// Repeats a sender's packet to all members.
    fn repeat_to_members(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        send: &mut impl FnMut(usize, Address),
    ) -> Result<(), Reject> {
        let header = parse_multicast(packet)?;
        // Receivers' control packets to the group are not repeated.
        if header.key == 0 || header.key & RTN != 0 {
            return Err(Reject::UnknownKey);
        }
        match self.streams.get_mut(&header.key) {
            Some(stream) if stream.sender == from => stream.last_received_at = now,
            Some(_) => return Err(Reject::ForeignSource),
            None => self.add_stream(now, header.key, from)?,
        }
        for (place, member) in self.config.members.iter().enumerate() {
            send(place, *member);
        }
        self.packets_repeated += self.config.members.len() as u64;
        Ok(())
    }

    fn add_stream(&mut self, now: Instant, key: u64, sender: Address) -> Result<(), Reject> {
        if self.streams.len() >= self.config.streams_max {
            let idle = self.config.idle_timeout;
            self.streams
                .retain(|_, stream| now.since(stream.last_received_at) < idle);
        }
        if self.streams.len() >= self.config.streams_max {
            return Err(Reject::NoRoom);
        }
        let heard = now;
        self.streams.insert(
            key,
            RelayedStream {
                sender,
                last_received_at: heard,
            },
        );
        Ok(())
    }

    /// Forwards a member's control packet to its sender, and a sender's packet to the member.
    fn forward_unicast(
        &mut self,
        place: usize,
        from: Address,
        packet: &[u8],
        send: &mut impl FnMut(usize, Address),
    ) -> Result<(), Reject> {
        let header = parse_multicast(packet)?;
        let member = *self.config.members.get(place).ok_or(Reject::State)?;
        let stream = self.streams.get(&(header.key & !RTN));
        if from == member {
            let stream = stream.filter(|_| header.key & RTN != 0);
            send(place, stream.ok_or(Reject::UnknownKey)?.sender);
            self.answers_returned += 1;
            return Ok(());
        }
        // A unicast packet to the member carries the member's key, which the relay does not know.
        if !self.streams.values().any(|stream| stream.sender == from) {
            return Err(Reject::ForeignSource);
        }
        send(place, member);
        self.packets_repeated += 1;
        Ok(())
    }

    /// Packets repeated to members, and control packets returned to senders.
    pub fn forwarded_counts(&self) -> (u64, u64) {
        (self.packets_repeated, self.answers_returned)
    }

    /// The number of streams it knows.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Dropped packets, by reason.
    pub fn rejects(&self) -> Rejects {
        self.rejects
    }
}

/// Parses the header of a multicast packet.
fn parse_multicast(packet: &[u8]) -> Result<Header, Reject> {
    let header = Header::parse(packet)?;
    match header.options.has(Options::MULTI) {
        true => Ok(header),
        false => Err(Reject::Multicast),
    }
}
