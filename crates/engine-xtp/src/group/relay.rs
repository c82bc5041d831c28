//! A relay: it hears a group and repeats its packets to hosts that multicast does not reach.
//!
//! Each of those members has a *stand-in* at the relay, an address of its own. To the sender the
//! stand-in is the member: it joins, answers, is counted and named in reports. To the member it is the
//! sender. So the relay passes packets on as they are, and neither keeps bytes nor promises any:
//! what a member has, the member says itself. Who an answer is for, its key tells.
//!
//! Answers to the whole group are not passed on, so there is no damping behind a relay; slots do what
//! they always do.

use crate::pdu::{Header, Options, RTN, Reject, Rejects};
use core::time::Duration;
use engine::{Address, Instant};
use std::collections::BTreeMap;

/// What a relay does.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Who has the packets repeated, and answers through a stand-in, in this order.
    pub members: Vec<Address>,
    /// Streams at most; packets of others are dropped. About 100 bytes each.
    ///
    /// 1024, as an endpoint of groups remembers streams that ended.
    pub streams_max: usize,
    /// A stream that was not heard for so long is forgotten.
    ///
    /// Two minutes: a sender with nothing to send asks every five seconds.
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

/// By which address of the relay a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalAddress {
    /// The group's.
    Group,
    /// That of the stand-in of a member, by its place in [`RelayConfig::members`].
    StandIn(usize),
}

#[derive(Clone, Copy, Debug)]
struct RelayedStream {
    sender: Address,
    last_received_at: Instant,
}

/// Where packets go; it does nothing else with them.
#[derive(Debug)]
pub struct Relay {
    config: RelayConfig,
    /// By the sender's key.
    streams: BTreeMap<u64, RelayedStream>,
    rejects: Rejects,
    packets_repeated: u64,
    answers_returned: u64,
}

impl Relay {
    /// One that has heard nothing yet.
    pub fn new(config: RelayConfig) -> Relay {
        Relay {
            config,
            streams: BTreeMap::new(),
            rejects: Rejects::default(),
            packets_repeated: 0,
            answers_returned: 0,
        }
    }

    /// Says where a packet goes that came `from` somewhere: calls `send` with the stand-in that sends
    /// it and whom it is sent to, once for each.
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

    /// A sender's packet goes to all members.
    fn repeat_to_members(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        send: &mut impl FnMut(usize, Address),
    ) -> Result<(), Reject> {
        let header = parse_multicast(packet)?;
        // What receivers answer to the group is not for members.
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

    /// A member's answer goes to the sender it is for, a sender's word to the member.
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
        // To a member alone: with the member's key, which the relay does not know, or its own.
        if !self.streams.values().any(|stream| stream.sender == from) {
            return Err(Reject::ForeignSource);
        }
        send(place, member);
        self.packets_repeated += 1;
        Ok(())
    }

    /// Packets sent to members, and answers returned to senders.
    pub fn forwarded_counts(&self) -> (u64, u64) {
        (self.packets_repeated, self.answers_returned)
    }

    /// Streams it knows.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Packets dropped so far, by reason.
    pub fn rejects(&self) -> Rejects {
        self.rejects
    }
}

/// The header of a packet of a group.
fn parse_multicast(packet: &[u8]) -> Result<Header, Reject> {
    let header = Header::parse(packet)?;
    match header.options.has(Options::MULTI) {
        true => Ok(header),
        false => Err(Reject::Multicast),
    }
}
