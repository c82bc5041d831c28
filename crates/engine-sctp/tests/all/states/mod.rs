//! The table of states and chunks (RFC 9260 sections 4 to 9): what an association answers to each chunk
//! in each of its states.

mod attacks;
mod data;
mod etsi;
mod partial;
mod reconfig;
mod table;

use crate::support::submit_message;
use engine::test_kit::take_packets;
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Close, CloseReason, Deliveries,
    Delivery, Event, Instant, Note, Path, Protocol, Received, Secret,
};
use engine_sctp::numbers::{Port, Ssn, StreamId, Tag, Tsn};
use engine_sctp::pdu::cause::{CauseCode, causes};
use engine_sctp::pdu::chunk::push_chunk;
use engine_sctp::pdu::header::complete_checksum;
use engine_sctp::pdu::sack::push_sack;
use engine_sctp::pdu::{ChunkType, Chunks, CommonHeader, DataHeader, Init};
use engine_sctp::{DiscardReason, Sctp, SctpConfig};

/// One endpoint, its clock, and what is known of its association.
pub struct End {
    pub engine: Sctp,
    address: Address,
    pub now: Instant,
    pub id: AssociationId,
}

/// How a test changes the configuration of both ends.
type Adjust = fn(SctpConfig) -> SctpConfig;

/// A packet that an endpoint sent.
pub type Packet = Vec<u8>;

const CLIENT: Address = Address::Station(1);
const SERVER: Address = Address::Station(2);

impl End {
    fn new(address: Address, seed: u64) -> End {
        End::with(address, seed, |config| config)
    }

    fn with(address: Address, seed: u64, adjust: Adjust) -> End {
        let config = adjust(SctpConfig {
            seed,
            secret: Secret::from_seed(seed),
            receive_buffer: 10_000,
            heartbeat_interval: core::time::Duration::ZERO,
            ..SctpConfig::default()
        });
        let mut engine = Sctp::new(config);
        engine.listen(address == SERVER);
        End {
            engine,
            address,
            now: Instant::from_nanos(1_000_000_000),
            id: AssociationId(0),
        }
    }

    /// Hands a packet over, and returns what is sent then.
    pub fn receive(&mut self, packet: &[u8]) -> Vec<Packet> {
        self.receive_data(packet).0
    }

    /// Hands a packet over, and returns what is sent then and what goes to the user.
    pub fn receive_data(&mut self, packet: &[u8]) -> (Vec<Packet>, Vec<Delivery>) {
        let from = if self.address == CLIENT {
            SERVER
        } else {
            CLIENT
        };
        let mut deliveries = Deliveries::default();
        let received = Received::new(Path::to(from), packet);
        self.engine
            .handle_packet(self.now, received, &mut deliveries);
        (self.packets(), deliveries.bytes)
    }

    /// Everything that is to be sent now. User bytes are all 7.
    pub fn packets(&mut self) -> Vec<Packet> {
        let sent = take_packets(&mut self.engine, self.now, 16, |_, range, out| {
            out.extend(range.clone().map(|_| 7));
        });
        sent.into_iter().map(|(_, octets)| octets).collect()
    }

    pub fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.engine.poll_event()).collect()
    }

    /// Waits for the next timer; what is sent then.
    fn time_out(&mut self) -> Vec<Packet> {
        self.now = self.engine.poll_timeout().expect("a timer runs");
        self.engine.handle_timeout(self.now);
        self.packets()
    }

    fn closed(&mut self) -> Option<CloseReason> {
        self.events().into_iter().find_map(|event| match event {
            Event::Closed(_, reason) => Some(reason),
            _ => None,
        })
    }
}

/// The types of all chunks of all packets.
pub fn kinds(packets: &[Packet]) -> Vec<u8> {
    let chunks = packets.iter().flat_map(|packet| Chunks::new(packet));
    chunks.map(|chunk| chunk.kind.0).collect()
}

fn tag_of(packet: &[u8]) -> Tag {
    CommonHeader::parse(packet).expect("a header").tag
}

/// A client in each state of its way, its server, and the last packets of the client.
struct Pair {
    client: End,
    server: End,
    /// The tags of packets to the client and to the server.
    to_client: Tag,
    to_server: Tag,
    client_port: Port,
    /// The server's first TSN, and the client's.
    server_tsn: Tsn,
    client_tsn: Tsn,
    /// Packets of the client that were not handed over.
    waiting: Vec<Packet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    CookieWait,
    CookieEchoed,
    Established,
    ShutdownPending,
    ShutdownSent,
    ShutdownReceived,
    ShutdownAckSent,
}

const ALL: [Reach; 7] = [
    Reach::CookieWait,
    Reach::CookieEchoed,
    Reach::Established,
    Reach::ShutdownPending,
    Reach::ShutdownSent,
    Reach::ShutdownReceived,
    Reach::ShutdownAckSent,
];

fn init_of(packet: &[u8]) -> Init {
    let chunk = Chunks::new(packet).next().expect("a chunk");
    Init::parse(chunk.value).expect("an INIT")
}

/// A pair whose client is in `state`.
fn pair(state: Reach) -> Pair {
    pair_with(state, |config| config)
}

/// The same with another configuration of both ends.
fn pair_with(state: Reach, adjust: Adjust) -> Pair {
    let (mut client, mut server) = (End::with(CLIENT, 1, adjust), End::with(SERVER, 2, adjust));
    let now = client.now;
    client.id = client.engine.connect(now, &[SERVER]).expect("room");
    let inits = client.packets();
    let init = init_of(&inits[0]);
    let client_port = CommonHeader::parse(&inits[0]).expect("a header").source;
    let mut pair = Pair {
        to_client: init.tag,
        to_server: Tag::NONE,
        client_port,
        client_tsn: init.initial_tsn,
        server_tsn: Tsn(0),
        waiting: inits.clone(),
        client,
        server: End::with(SERVER, 2, adjust),
    };
    if state == Reach::CookieWait {
        return pair;
    }
    let answers = server.receive(&inits[0]);
    assert_eq!(kinds(&answers), [2]);
    assert_eq!(
        server.engine.associations_len(),
        0,
        "no state before the cookie"
    );
    let init_ack = init_of(&answers[0]);
    (pair.to_server, pair.server_tsn) = (init_ack.tag, init_ack.initial_tsn);
    pair.waiting = pair.client.receive(&answers[0]);
    assert_eq!(kinds(&pair.waiting), [10]);
    if state == Reach::CookieEchoed {
        pair.server = server;
        return pair;
    }
    let answers = server.receive(&pair.waiting[0]);
    assert_eq!(kinds(&answers), [11]);
    server.id = server
        .events()
        .iter()
        .find_map(|event| match event {
            Event::Accepted(id, _) => Some(*id),
            _ => None,
        })
        .expect("it was accepted");
    pair.waiting = pair.client.receive(&answers[0]);
    assert_eq!(pair.client.events(), [Event::Connected(pair.client.id)]);
    pair.server = server;
    pair.go_on(state);
    pair
}

impl Pair {
    fn go_on(&mut self, state: Reach) {
        let (id, now) = (self.client.id, self.client.now);
        let shutdown = 0xffff_ffff_u32.wrapping_add(self.client_tsn.0);
        let shutdown = self.chunk(ChunkType::SHUTDOWN, 0, &shutdown.to_be_bytes());
        match state {
            Reach::ShutdownPending | Reach::ShutdownReceived => {
                submit_message(&mut self.client.engine, id, 5, &Note::default());
                self.waiting = self.client.packets();
                assert_eq!(kinds(&self.waiting), [0]);
                match state {
                    Reach::ShutdownPending => self.client.engine.close(now, id, Close::Graceful),
                    _ => assert_eq!(kinds(&self.client.receive(&shutdown)), [0u8; 0]),
                }
            }
            Reach::ShutdownSent => {
                self.client.engine.close(now, id, Close::Graceful);
                assert_eq!(kinds(&self.client.packets()), [7]);
            }
            Reach::ShutdownAckSent => {
                assert_eq!(kinds(&self.client.receive(&shutdown)), [8]);
                assert_eq!(self.client.events(), [Event::Finished(id)]);
            }
            _ => {}
        }
    }

    /// A packet of the server to the client with chunks.
    fn packet(&self, tag: Tag, chunks: &[u8]) -> Packet {
        let header = CommonHeader {
            source: Port(5000),
            destination: self.client_port,
            tag,
        };
        let mut packet = [&header.emit()[..], chunks].concat();
        complete_checksum(&mut packet);
        packet
    }

    fn chunk(&self, kind: ChunkType, flags: u8, value: &[u8]) -> Packet {
        let mut chunk = Vec::new();
        push_chunk(&mut chunk, kind, flags, value);
        self.packet(self.to_client, &chunk)
    }

    /// DATA of the server with a TSN so far behind its first.
    fn data(&self, behind: u32, stream: u16, ssn: u16, flags: u8, len: usize) -> Packet {
        let header = DataHeader {
            flags,
            tsn: Tsn(self.server_tsn.0.wrapping_add(behind)),
            stream: StreamId(stream),
            ssn: Ssn(ssn),
            ppid: 0,
        };
        let mut chunk = header.emit(len).to_vec();
        chunk.resize((16 + len).next_multiple_of(4), 9);
        self.packet(self.to_client, &chunk)
    }

    /// A SACK of the server for so many chunks of the client.
    fn sack(&self, count: u32, rwnd: u32, gaps: &[(u16, u16)]) -> Packet {
        let mut chunk = Vec::new();
        let cumulative = Tsn(self.client_tsn.0.wrapping_add(count).wrapping_sub(1));
        let blocks = gaps.iter().map(|&(start, end)| start..=end);
        push_sack(&mut chunk, 1000, (cumulative, rwnd), blocks, &[]);
        self.packet(self.to_client, &chunk)
    }
}
