//! State that all streams of a multicast endpoint share, and helpers to build packets.

use super::config::{Config, Member, Reliability};
use super::members::SenderKeys;
use crate::codec::{Codec, HeaderContext};
use crate::endpoint_state::plain_header;
use crate::numbers::{Key, SyncNumber};
use crate::pdu::{
    AddressSegment, Body, Endpoints, Header, Options, Packet, Rejects, Service, TrafficSpec,
    UNLIMITED,
};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use engine::{Address, AssociationId, Counters, Event, KeyedStream, Purpose};
use std::collections::VecDeque;

/// Control packets queued at most; more are dropped, and the next status request repeats them.
const CONTROL_QUEUE_MAX: usize = 4096;

/// Member events queued at most; the oldest are dropped. The member report has them too.
const MEMBER_EVENTS_MAX: usize = 1024;

/// The service codes of groups (XTP 4.0 s. 4, traffic specifier).
const UNACKNOWLEDGED: Service = Service::Other(5);
const RELIABLE: Service = Service::Other(6);

#[derive(Debug)]
pub(super) struct GroupEndpointState {
    pub(super) config: Config,
    pub(super) codec: Codec,
    /// The WTIMER bounds in the form that the RTT estimator takes.
    pub(super) wtimer_config: crate::Config,
    pub(super) events: VecDeque<Event>,
    /// Member events for the user.
    pub(super) member_events: VecDeque<(AssociationId, Member)>,
    /// Control packets to send, with their destination.
    pub(super) control_queue: VecDeque<((AssociationId, Address), Vec<u8>)>,
    pub(super) counters: Counters,
    pub(super) rejects: Rejects,
    /// Keys of the streams that this endpoint sends, and those it granted to their members.
    pub(super) sender_keys: SenderKeys,
    keys: KeyedStream,
    pub(super) rng: KeyedStream,
    pub(super) listening: bool,
    /// Status control packets sent as a receiver.
    pub(super) control_sent: u64,
    pub(super) refused_joins: u64,
}

impl GroupEndpointState {
    pub(super) fn new(config: Config, codec: Codec) -> GroupEndpointState {
        GroupEndpointState {
            wtimer_config: crate::Config {
                wtimer_initial: config.wtimer_initial,
                wtimer_min: config.wtimer_min,
                wtimer_max: config.wtimer_max,
                ..crate::Config::default()
            },
            sender_keys: SenderKeys::new(),
            keys: KeyedStream::new(&config.secret, Purpose::Keys, config.seed),
            rng: KeyedStream::new(&config.secret, Purpose::Visible, config.seed),
            config,
            codec,
            events: VecDeque::new(),
            member_events: VecDeque::new(),
            control_queue: VecDeque::new(),
            counters: Counters::default(),
            rejects: Rejects::default(),
            listening: false,
            control_sent: 0,
            refused_joins: 0,
        }
    }

    /// A key that cannot be guessed: 63 random bits (31 in 3.x), never zero, and not one of a sender's.
    pub(super) fn random_key(&mut self) -> Key {
        let unused = if self.codec.has_long_keys() { 1 } else { 33 };
        loop {
            match Key::stated(self.keys.next_u64() >> unused) {
                Some(key) if !self.sender_keys.contains_key(&key) => return key,
                _ => {}
            }
        }
    }

    /// A key for stream `id` or for a member of its group.
    pub(super) fn grant_key(&mut self, id: AssociationId) -> Key {
        let key = self.random_key();
        self.sender_keys.insert(key, id);
        key
    }

    /// User bytes in a full DATA packet.
    pub(super) fn payload_max(&self) -> u64 {
        self.config.version.payload_max(self.config.packet_len)
    }

    /// Queues a control packet for one address.
    pub(super) fn queue_control(&mut self, to: (AssociationId, Address), packet: Vec<u8>) {
        if self.control_queue.len() < CONTROL_QUEUE_MAX {
            self.control_queue.push_back((to, packet));
        }
    }

    /// Queues the answer to a packet of `received_len` octets from an address that need not be its
    /// sender's: it is dropped if it is longer (0018, Amplification).
    pub(super) fn queue_reply(&mut self, to: Address, packet: Vec<u8>, received_len: usize) {
        if packet.len() <= received_len {
            self.queue_control((AssociationId(0), to), packet);
        }
    }

    pub(super) fn push_member_event(&mut self, association: AssociationId, member: Member) {
        if self.member_events.len() == MEMBER_EVENTS_MAX {
            self.member_events.pop_front();
        }
        self.member_events.push_back((association, member));
    }

    /// The address segment for the group or the sender at `to`.
    pub(super) fn address_segment(&self, to: Address) -> AddressSegment<'static> {
        let v4 = |dst_host: Ipv4Addr, dst_port: u16| {
            AddressSegment::V4(Endpoints {
                dst_host,
                src_host: Ipv4Addr::UNSPECIFIED,
                dst_port,
                src_port: 0,
            })
        };
        match to {
            Address::Station(station) => v4(Ipv4Addr::from(station), self.config.port),
            Address::Ether(_) => AddressSegment::Null([0; 4]),
            Address::Socket(socket) => match socket.ip() {
                IpAddr::V4(host) => v4(host, socket.port()),
                IpAddr::V6(dst_host) => AddressSegment::V6(Endpoints {
                    dst_host,
                    src_host: Ipv6Addr::UNSPECIFIED,
                    dst_port: socket.port(),
                    src_port: 0,
                }),
            },
        }
    }

    /// The traffic specifier of this endpoint.
    pub(super) fn traffic(&self) -> TrafficSpec {
        let service = match self.config.reliability {
            Reliability::None => UNACKNOWLEDGED,
            _ => RELIABLE,
        };
        let (rate, burst) = self.config.rate.map_or((UNLIMITED, UNLIMITED), |limit| {
            (limit.rate_bytes_per_s, limit.burst_bytes)
        });
        TrafficSpec::Limits {
            service,
            maxdata: self.payload_max() as u32,
            inrate: rate,
            inburst: burst,
            outrate: rate,
            outburst: burst,
        }
    }

    /// The octets of a packet without user bytes, with its checks.
    pub(super) fn control_octets(
        &self,
        key: u64,
        options: Options,
        body: &Body<'_>,
        numbers: Numbers,
    ) -> Vec<u8> {
        let header = Header {
            options,
            sync: numbers.sync,
            seq: numbers.seq,
            ..plain_header(key, body.format())
        };
        let mut octets = Vec::with_capacity(64);
        let packet = Packet {
            header,
            body: *body,
        };
        let context = self.header_context(numbers.sync, numbers.dseq);
        self.codec.emit(&packet, &context, &mut octets);
        octets
    }

    /// What 3.x has in the header besides: a group has no keys to exchange, and its numbers begin at 0.
    pub(super) fn header_context(&self, sync: SyncNumber, dseq: u64) -> HeaderContext {
        HeaderContext {
            dseq,
            returned_sync: sync,
            accepted_rate: self.config.rate,
            ..HeaderContext::default()
        }
    }

    /// The longest delay of a control packet by slotting.
    pub(super) fn slot_max(&self) -> Duration {
        self.config.slot
    }
}

/// Whether `service` is a multicast service, or none is specified.
pub(super) fn is_group_service(service: Service) -> bool {
    matches!(service, UNACKNOWLEDGED | RELIABLE | Service::Unspecified)
}

/// Numbers in the header of a control packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    sync: SyncNumber,
    seq: u64,
    dseq: u64,
}

impl Numbers {
    /// Those of a sender, which sends byte `seq` next.
    pub(super) fn of_sender(sync: SyncNumber, seq: u64) -> Numbers {
        Numbers { sync, seq, dseq: 0 }
    }

    /// Those of a receiver, whose user consumed everything below `dseq`.
    pub(super) fn of_receiver(sync: SyncNumber, dseq: u64) -> Numbers {
        Numbers { sync, seq: 0, dseq }
    }
}
