//! A relay: it receives a group's packets and repeats them to hosts that multicast does not reach.
//!
//! Each such member has a *stand-in* at the relay, an address of its own. To the sender the
//! stand-in is the member: it joins, answers and is reported. To the member it is the sender. So
//! the relay forwards packets unchanged and keeps no bytes; members acknowledge by themselves. The
//! key in a control packet names the sender it is for (0009, A relay): it is the stream's, or one
//! that the sender granted to this member, in a TCNTL that passed here.
//!
//! Slotting works as without one. For damping a relay repeats answers, to the members that did not give them: those heard in
//! the group, and those of its members. Receivers in the group hear each other, and not the members behind a relay.

use super::source_share::{SHARES, SourceShares, longest_silent};
use crate::numbers::Key;
use crate::pdu::{Body, Format, HEADER_LEN, Header, Options, RTN, Reject, Rejects};
use core::time::Duration;
use engine::{Address, Instant};
use std::collections::BTreeMap;

/// Options of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The members behind the relay; the index is that of the stand-in.
    pub members: Vec<Address>,
    /// Streams at most, shared by address (0018, Room). About 100 bytes each, and 60 for each member
    /// that joined.
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

/// The keys of a member, as its JCNTL and the sender's TCNTL named them.
#[derive(Clone, Copy, Debug, Default)]
struct MemberKeys {
    /// The member's own key in its last JCNTL.
    joining: Option<Key>,
    /// The key that the sender granted for that JCNTL.
    granted: Option<Key>,
    /// The granted key that the member used last. Another replaces it once it is used: a forged
    /// JCNTL gets a grant as well, but its author does not see that.
    used: Option<Key>,
}

#[derive(Clone, Debug)]
struct RelayedStream {
    sender: Address,
    last_received_at: Instant,
    /// The sender returned the key of a member's JCNTL.
    is_validated: bool,
    /// The members that joined, by stand-in.
    members: BTreeMap<usize, MemberKeys>,
}

/// Decides where packets are forwarded; it keeps none.
#[derive(Debug)]
pub struct Relay {
    config: RelayConfig,
    /// Answers are repeated to the members.
    damping: bool,
    /// Streams by the sender's key.
    streams: BTreeMap<Key, RelayedStream>,
    /// The same streams by the source prefix of their senders.
    shares: SourceShares<Key>,
    /// Streams by stand-in and the key that the sender granted to its member.
    streams_by_grant: BTreeMap<(usize, Key), Key>,
    rejects: Rejects,
    packets_repeated: u64,
    answers_returned: u64,
}

impl Relay {
    /// A relay that knows no streams yet.
    pub fn new(config: RelayConfig) -> Relay {
        Relay {
            shares: SourceShares::new(config.streams_max),
            config,
            damping: false,
            streams: BTreeMap::new(),
            streams_by_grant: BTreeMap::new(),
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
        if header.key & RTN != 0 {
            return self.repeat_answer(None, &header, send);
        }
        let key = Key::stated(header.key).ok_or(Reject::UnknownKey)?;
        match self.streams.get_mut(&key) {
            Some(stream) if stream.sender == from => stream.last_received_at = now,
            Some(_) => return Err(Reject::ForeignSource),
            None => self.add_stream(now, key, from)?,
        }
        for (place, member) in self.config.members.iter().enumerate() {
            send(place, *member);
        }
        self.packets_repeated += self.config.members.len() as u64;
        Ok(())
    }

    /// Repeats an answer to a status request to the members that did not give it (0009, Slotting). Only answers with the
    /// stream's own key: damping is for groups that count no members.
    fn repeat_answer(
        &mut self,
        author: Option<usize>,
        header: &Header,
        send: &mut impl FnMut(usize, Address),
    ) -> Result<(), Reject> {
        let is_answer = header.format == Format::Cntl && !header.options.has(Options::END);
        let is_known = self.streams.contains_key(&Key::in_field(header.key));
        if !(self.damping && is_answer && is_known) {
            return Err(Reject::UnknownKey);
        }
        let members = self.config.members.iter().enumerate();
        for (place, member) in members.filter(|(place, _)| Some(*place) != author) {
            send(place, *member);
            self.packets_repeated += 1;
        }
        Ok(())
    }

    fn add_stream(&mut self, now: Instant, key: Key, sender: Address) -> Result<(), Reject> {
        self.make_room(now, sender)?;
        self.shares.insert(sender, key);
        let stream = RelayedStream {
            sender,
            last_received_at: now,
            is_validated: false,
            members: BTreeMap::new(),
        };
        self.streams.insert(key, stream);
        Ok(())
    }

    /// Makes room for a stream of `sender`. In a full share, or a full relay, streams of unvalidated
    /// senders give way, those that were silent longest first (0018, Room).
    fn make_room(&mut self, now: Instant, sender: Address) -> Result<(), Reject> {
        if let Some(share) = self.shares.full_share(sender) {
            let unvalidated = share
                .iter()
                .filter_map(|&key| self.unvalidated_heard_at(key));
            let given_up = longest_silent(unvalidated, 1);
            self.forget(&given_up)?;
        }
        if self.streams.len() < self.config.streams_max {
            return Ok(());
        }
        let is_idle =
            |stream: &RelayedStream| now.since(stream.last_received_at) >= self.config.idle_timeout;
        let idle = self.streams.iter().filter(|(_, stream)| is_idle(stream));
        let mut given_up: Vec<Key> = idle.map(|(&key, _)| key).collect();
        if given_up.is_empty() {
            let count = (self.config.streams_max / SHARES).max(1);
            let all = self.streams.keys();
            given_up = longest_silent(all.filter_map(|&key| self.unvalidated_heard_at(key)), count);
        }
        self.forget(&given_up)
    }

    fn unvalidated_heard_at(&self, key: Key) -> Option<(Instant, Key)> {
        let stream = self
            .streams
            .get(&key)
            .filter(|stream| !stream.is_validated)?;
        Some((stream.last_received_at, key))
    }

    fn forget(&mut self, keys: &[Key]) -> Result<(), Reject> {
        for key in keys {
            if let Some(stream) = self.streams.remove(key) {
                self.shares.remove(stream.sender, *key);
                for (place, member) in stream.members {
                    for grant in member.granted.into_iter().chain(member.used) {
                        self.streams_by_grant.remove(&(place, grant));
                    }
                }
            }
        }
        match keys.is_empty() {
            true => Err(Reject::NoRoom),
            false => Ok(()),
        }
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
        if from == member {
            send(place, self.handle_answer(place, &header, packet)?);
            self.answers_returned += 1;
            // What is no answer for others was returned, and is no reject.
            let _ = self.repeat_answer(Some(place), &header, send);
            return Ok(());
        }
        // A unicast packet to the member carries the member's key.
        if !self.streams.values().any(|stream| stream.sender == from) {
            return Err(Reject::ForeignSource);
        }
        if header.format == Format::Tcntl {
            self.handle_grant(place, from, &header, packet);
        }
        send(place, member);
        self.packets_repeated += 1;
        Ok(())
    }

    /// Notes the keys in a control packet of the member behind `place`; returns the sender it is
    /// for.
    fn handle_answer(
        &mut self,
        place: usize,
        header: &Header,
        packet: &[u8],
    ) -> Result<Address, Reject> {
        let key = Key::in_field(header.key);
        let by_grant = self.streams_by_grant.get(&(place, key)).copied();
        let stream = self.streams.get_mut(&by_grant.unwrap_or(key));
        let stream = stream
            .filter(|_| header.key & RTN != 0)
            .ok_or(Reject::UnknownKey)?;
        if header.format == Format::Jcntl
            && let Some(Body::Jcntl { xkey, .. }) = Body::parse(header, &packet[HEADER_LEN..])
        {
            let keys = stream.members.entry(place).or_default();
            let joining = Key::stated(xkey);
            if keys.joining != joining {
                keys.joining = joining;
                let unused = keys
                    .granted
                    .take()
                    .filter(|grant| keys.used != Some(*grant));
                if let Some(grant) = unused {
                    self.streams_by_grant.remove(&(place, grant));
                }
            }
        } else if by_grant.is_some()
            && let Some(keys) = stream.members.get_mut(&place)
            && keys.used != Some(key)
            && let Some(replaced) = keys.used.replace(key)
        {
            self.streams_by_grant.remove(&(place, replaced));
        }
        Ok(stream.sender)
    }

    /// Notes the key that `sender` granted to the member behind `place`, and that it hears us.
    fn handle_grant(&mut self, place: usize, sender: Address, header: &Header, packet: &[u8]) {
        let Some(Body::Tcntl { xkey, .. }) = Body::parse(header, &packet[HEADER_LEN..]) else {
            return;
        };
        for (&key, stream) in &mut self.streams {
            let keys = stream.members.get_mut(&place);
            let keys = keys.filter(|keys| keys.joining.map(Key::returned) == Some(header.key));
            let Some(keys) = keys.filter(|_| stream.sender == sender) else {
                continue;
            };
            stream.is_validated = true;
            // Without a member list, answers carry the stream's own key.
            let is_new = |key: &Key| !self.streams_by_grant.contains_key(&(place, *key));
            let Some(granted) = Key::stated(xkey).filter(is_new) else {
                continue;
            };
            let replaced = keys.granted.replace(granted);
            if let Some(replaced) = replaced.filter(|grant| keys.used != Some(*grant)) {
                self.streams_by_grant.remove(&(place, replaced));
            }
            self.streams_by_grant.insert((place, granted), key);
        }
    }

    /// Repeats answers to status requests to the members from now on, so that they suppress their own
    /// ([`Config::damping`](super::Config::damping)). Members that suppress none would get them for nothing.
    pub fn enable_damping(&mut self) {
        self.damping = true;
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
