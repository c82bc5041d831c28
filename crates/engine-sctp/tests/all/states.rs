//! The table of states and chunks (RFC 9260 sections 4 to 9): what an association answers to each chunk
//! in each of its states.

use crate::support::submit_message;
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Batch, Close, CloseReason, Deliveries,
    Event, Instant, Note, Path, Protocol, Received, Secret, Store,
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

/// A packet that an endpoint sent.
pub type Packet = Vec<u8>;

const CLIENT: Address = Address::Station(1);
const SERVER: Address = Address::Station(2);

impl End {
    fn new(address: Address, seed: u64) -> End {
        let config = SctpConfig {
            seed,
            secret: Secret::from_seed(seed),
            receive_buffer: 10_000,
            heartbeat_interval: core::time::Duration::ZERO,
            ..SctpConfig::default()
        };
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
        let from = if self.address == CLIENT {
            SERVER
        } else {
            CLIENT
        };
        let mut deliveries = Deliveries::default();
        let received = Received::new(Path::to(from), packet);
        self.engine
            .handle_packet(self.now, received, &mut deliveries);
        self.packets()
    }

    /// Everything that is to be sent now. User bytes are all 7.
    pub fn packets(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        let mut batch = Batch::new(16);
        loop {
            batch.clear();
            self.engine.poll_transmit(self.now, &mut batch);
            if batch.is_empty() {
                return packets;
            }
            for packet in batch.packets() {
                let mut octets = Vec::new();
                batch.write(packet, &mut octets, |_: Store, range, out| {
                    out.extend(range.clone().map(|_| 7));
                });
                packets.push(octets);
            }
        }
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
    let (mut client, mut server) = (End::new(CLIENT, 1), End::new(SERVER, 2));
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
        server: End::new(SERVER, 2),
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

#[test]
fn data_are_taken_where_the_table_says() {
    for state in ALL {
        let mut pair = pair(state);
        let answers = kinds(&pair.client.receive(&pair.data(0, 0, 0, 3, 8)));
        let expected: &[u8] = match state {
            Reach::Established | Reach::ShutdownPending => &[3],
            Reach::ShutdownSent => &[3, 7],
            _ => &[],
        };
        assert_eq!(answers, expected, "{state:?}");
    }
}

#[test]
fn shutdown_moves_every_state_as_the_table_says() {
    for state in ALL {
        let mut pair = pair(state);
        let cumulative = pair.client_tsn.0.wrapping_sub(1).to_be_bytes();
        let answers = kinds(
            &pair
                .client
                .receive(&pair.chunk(ChunkType::SHUTDOWN, 0, &cumulative)),
        );
        let expected: &[u8] = match state {
            Reach::Established | Reach::ShutdownSent => &[8],
            _ => &[],
        };
        assert_eq!(answers, expected, "{state:?}");
        let finished = pair
            .client
            .events()
            .contains(&Event::Finished(pair.client.id));
        let tells = matches!(
            state,
            Reach::Established | Reach::ShutdownPending | Reach::ShutdownSent
        );
        // In the state before, the event came on the way there.
        assert_eq!(
            finished,
            tells || state == Reach::ShutdownReceived,
            "{state:?}"
        );
    }
}

#[test]
fn shutdown_ack_ends_the_states_that_wait_for_it() {
    for state in ALL {
        let mut pair = pair(state);
        let answers = pair
            .client
            .receive(&pair.chunk(ChunkType::SHUTDOWN_ACK, 0, &[]));
        let closed = pair.client.closed();
        match state {
            Reach::ShutdownSent | Reach::ShutdownAckSent => {
                assert_eq!(kinds(&answers), [14], "{state:?}");
                assert_eq!(tag_of(&answers[0]), pair.to_server);
                assert_eq!(closed, Some(CloseReason::Graceful));
            }
            Reach::CookieWait | Reach::CookieEchoed => {
                assert_eq!(kinds(&answers), [14], "{state:?}");
                assert_eq!(answers[0][13], 1, "flag T");
                assert_eq!(closed, None);
            }
            _ => assert_eq!((kinds(&answers).len(), closed), (0, None), "{state:?}"),
        }
    }
}

#[test]
fn shutdown_complete_ends_one_state_alone() {
    for state in ALL {
        let mut pair = pair(state);
        assert!(
            pair.client
                .receive(&pair.chunk(ChunkType::SHUTDOWN_COMPLETE, 0, &[]))
                .is_empty()
        );
        let expected = (state == Reach::ShutdownAckSent).then_some(CloseReason::Graceful);
        assert_eq!(pair.client.closed(), expected, "{state:?}");
    }
}

#[test]
fn abort_ends_every_state_if_its_tag_is_right() {
    for state in ALL {
        let refused = matches!(state, Reach::CookieWait | Reach::CookieEchoed);
        let reason = if refused {
            CloseReason::Refused
        } else {
            CloseReason::Aborted
        };
        let mut one = pair(state);
        assert!(
            one.client
                .receive(&one.chunk(ChunkType::ABORT, 0, &[]))
                .is_empty()
        );
        assert_eq!(one.client.closed(), Some(reason), "{state:?}");
        let mut chunk = Vec::new();
        push_chunk(&mut chunk, ChunkType::ABORT, 1, &[]);
        // Flag T: the peer's own tag, which the client knows from the cookie on.
        let mut other = pair(state);
        let reflected = other.packet(other.to_server, &chunk);
        other.client.receive(&reflected);
        let expected = (state != Reach::CookieWait).then_some(reason);
        assert_eq!(other.client.closed(), expected, "{state:?}");
        let mut third = pair(state);
        for tag in [
            third.to_client,
            Tag(third.to_client.0 ^ 1),
            Tag(third.to_server.0 ^ 1),
        ] {
            let forged = third.packet(tag, &chunk);
            assert!(third.client.receive(&forged).is_empty());
        }
        assert_eq!(third.client.closed(), None, "{state:?}: a spoofed ABORT");
    }
}

#[test]
fn cookie_ack_and_init_ack_out_of_place_change_nothing() {
    for state in ALL {
        let mut pair = pair(state);
        let answers = pair
            .client
            .receive(&pair.chunk(ChunkType::COOKIE_ACK, 0, &[]));
        let connected = pair
            .client
            .events()
            .contains(&Event::Connected(pair.client.id));
        assert_eq!(connected, state == Reach::CookieEchoed, "{state:?}");
        assert!(answers.is_empty());
        if state != Reach::CookieWait {
            let init_ack = pair.chunk(ChunkType::INIT_ACK, 0, &[1; 40]);
            assert!(pair.client.receive(&init_ack).is_empty(), "{state:?}");
            assert_eq!(pair.client.closed(), None);
        }
    }
}

#[test]
fn heartbeat_is_answered_with_its_contents() {
    for state in ALL {
        let mut pair = pair(state);
        let info = [0, 1, 0, 8, 1, 2, 3, 4];
        let answers = pair
            .client
            .receive(&pair.chunk(ChunkType::HEARTBEAT, 0, &info));
        let silent = matches!(state, Reach::CookieWait | Reach::ShutdownAckSent);
        assert_eq!(
            kinds(&answers),
            if silent { vec![] } else { vec![5] },
            "{state:?}"
        );
        if !silent {
            assert_eq!(answers[0][16..], info);
        }
    }
}

#[test]
fn last_sack_leads_from_pending_states_to_the_next() {
    let mut one = pair(Reach::ShutdownPending);
    assert_eq!(kinds(&one.client.receive(&one.sack(1, 10_000, &[]))), [7]);
    let mut other = pair(Reach::ShutdownReceived);
    assert_eq!(
        kinds(&other.client.receive(&other.sack(1, 10_000, &[]))),
        [8]
    );
}

#[test]
fn init_to_an_association_answers_without_changing_it() {
    for state in ALL {
        let mut pair = pair(state);
        let init = Init {
            tag: Tag(77),
            rwnd: 10_000,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn(5),
            parameters: Default::default(),
        };
        let mut chunk = Vec::new();
        init.push(&mut chunk, ChunkType::INIT);
        let answers = pair.client.receive(&pair.packet(Tag::NONE, &chunk));
        if state == Reach::ShutdownAckSent {
            assert_eq!(kinds(&answers), [8]);
            continue;
        }
        assert_eq!(kinds(&answers), [2], "{state:?}");
        assert_eq!(tag_of(&answers[0]), Tag(77));
        let keeps_tag = matches!(state, Reach::CookieWait | Reach::CookieEchoed);
        let own = init_of(&answers[0]);
        assert_eq!(own.tag == pair.to_client, keeps_tag, "{state:?}");
        assert_eq!(own.initial_tsn == pair.client_tsn, keeps_tag);
        assert_eq!(pair.client.closed(), None);
    }
}

#[test]
fn init_with_an_address_that_is_new_is_aborted() {
    let mut pair = pair(Reach::Established);
    let mut init = init_of(&pair_init());
    init.parameters.addresses = vec!["192.0.2.1".parse().expect("an address")];
    let mut chunk = Vec::new();
    init.push(&mut chunk, ChunkType::INIT);
    let answers = pair.client.receive(&pair.packet(Tag::NONE, &chunk));
    assert_eq!(kinds(&answers), [6]);
    let abort = Chunks::new(&answers[0]).next().expect("an ABORT");
    let cause = causes(abort.value).next().expect("a cause");
    assert_eq!(cause.code, CauseCode::RESTART_WITH_NEW_ADDRESSES);
    assert_eq!(pair.client.closed(), None);
}

/// The INIT of a client.
fn pair_init() -> Packet {
    pair(Reach::CookieWait).waiting.remove(0)
}

#[test]
fn packets_out_of_the_blue_are_answered_as_the_rules_say() {
    let mut pair = pair(Reach::CookieWait);
    let cases: [(ChunkType, &[u8]); 8] = [
        (ChunkType::ABORT, &[]),
        (ChunkType::SHUTDOWN_COMPLETE, &[]),
        (ChunkType::COOKIE_ACK, &[]),
        (ChunkType::SHUTDOWN_ACK, &[14]),
        (ChunkType::DATA, &[6]),
        (ChunkType::SACK, &[6]),
        (ChunkType::HEARTBEAT, &[6]),
        (ChunkType::SHUTDOWN, &[6]),
    ];
    for (kind, expected) in cases {
        let mut chunk = Vec::new();
        push_chunk(&mut chunk, kind, 0, &[0; 16]);
        let answers = pair.client.receive(&pair.packet(Tag(0x5555_5555), &chunk));
        assert_eq!(kinds(&answers), expected, "{kind:?}");
        if let [answer] = &answers[..] {
            assert_eq!(
                (tag_of(answer), answer[13]),
                (Tag(0x5555_5555), 1),
                "reflected"
            );
        }
    }
    let mut both = Vec::new();
    push_chunk(&mut both, ChunkType::SACK, 0, &[0; 12]);
    push_chunk(&mut both, ChunkType::ABORT, 0, &[]);
    let packet = pair.packet(Tag(0x5555_5555), &both);
    assert!(
        pair.client.receive(&packet).is_empty(),
        "never an ABORT to an ABORT"
    );
}

#[test]
fn server_that_does_not_listen_refuses() {
    let mut pair = pair(Reach::CookieWait);
    pair.server.engine.listen(false);
    let answers = pair.server.receive(&pair.waiting[0]);
    assert_eq!(kinds(&answers), [6]);
    assert!(pair.client.receive(&answers[0]).is_empty());
    assert_eq!(pair.client.closed(), Some(CloseReason::Refused));
}

#[test]
fn duplicate_cookie_is_acknowledged_again() {
    let mut pair = pair(Reach::CookieEchoed);
    let cookie = pair.waiting[0].clone();
    assert_eq!(kinds(&pair.server.receive(&cookie)), [11]);
    assert_eq!(kinds(&pair.server.receive(&cookie)), [11]);
    assert_eq!(pair.server.engine.associations_len(), 1);
    // Even when it came so late that it opens nothing any more.
    pair.server.now = Instant::from_nanos(100_000_000_000);
    assert_eq!(kinds(&pair.server.receive(&cookie)), [11]);
}

#[test]
fn stale_cookie_is_refused_and_asked_for_again() {
    let mut pair = pair(Reach::CookieEchoed);
    pair.server.now = Instant::from_nanos(62_000_000_000);
    pair.client.now = pair.server.now;
    let answers = pair.server.receive(&pair.waiting[0]);
    assert_eq!(kinds(&answers), [9]);
    let again = pair.client.receive(&answers[0]);
    assert_eq!(kinds(&again), [1]);
    assert!(init_of(&again[0]).parameters.preservative_ms >= 1000);
    let init_acks = pair.server.receive(&again[0]);
    let cookie = pair.client.receive(&init_acks[0]);
    let cookie_acks = pair.server.receive(&cookie[0]);
    assert_eq!(kinds(&cookie_acks), [11]);
    pair.client.receive(&cookie_acks[0]);
    assert_eq!(pair.client.events(), [Event::Connected(pair.client.id)]);
}

#[test]
fn restarted_peer_ends_the_old_association_and_opens_a_new_one() {
    let mut old = pair(Reach::Established);
    let first = old.server.id;
    // The same ports and address, another tag: the client forgot everything.
    let mut fresh = End::new(CLIENT, 1);
    let config = SctpConfig {
        seed: 99,
        local_port: Some(old.client_port),
        secret: Secret::from_seed(99),
        ..SctpConfig::default()
    };
    fresh.engine = Sctp::new(config);
    let now = fresh.now;
    fresh.engine.connect(now, &[SERVER]).expect("room");
    let init = fresh.packets();
    let init_acks = old.server.receive(&init[0]);
    assert_eq!(kinds(&init_acks), [2]);
    assert!(
        old.server.events().is_empty(),
        "an INIT alone changes nothing"
    );
    let cookie = fresh.receive(&init_acks[0]);
    assert_eq!(kinds(&old.server.receive(&cookie[0])), [11]);
    let events = old.server.events();
    assert_eq!(events[0], Event::Closed(first, CloseReason::Aborted));
    assert!(matches!(events[1], Event::Accepted(id, CLIENT) if id != first));
    assert_eq!(old.server.engine.associations_len(), 1);
}

#[test]
fn ends_that_open_at_the_same_time_get_one_association() {
    let mut ends =
        [CLIENT, SERVER].map(|address| End::new(address, if address == CLIENT { 1 } else { 2 }));
    for (index, end) in ends.iter_mut().enumerate() {
        end.engine = Sctp::new(SctpConfig {
            seed: index as u64,
            secret: Secret::from_seed(index as u64),
            local_port: Some(Port(5000)),
            heartbeat_interval: core::time::Duration::ZERO,
            ..SctpConfig::default()
        });
        let (to, now) = ([SERVER, CLIENT][index], end.now);
        end.id = end.engine.connect(now, &[to]).expect("room");
    }
    let mut waiting = [ends[0].packets(), ends[1].packets()];
    for _ in 0..8 {
        let sent = std::mem::take(&mut waiting);
        for (index, packets) in sent.iter().enumerate() {
            for packet in packets {
                let answers = ends[1 - index].receive(packet);
                waiting[1 - index].extend(answers);
            }
        }
    }
    for end in &mut ends {
        assert_eq!(end.events(), [Event::Connected(end.id)]);
        assert_eq!(end.engine.associations_len(), 1);
    }
}

#[test]
fn init_is_repeated_until_the_limit() {
    let mut pair = pair(Reach::CookieWait);
    let mut waits = Vec::new();
    let closed = loop {
        let before = pair.client.now;
        let packets = pair.client.time_out();
        waits.push(pair.client.now.since(before).as_secs());
        if let Some(reason) = pair.client.closed() {
            break reason;
        }
        assert_eq!(kinds(&packets), [1]);
    };
    assert_eq!(closed, CloseReason::TimedOut);
    assert_eq!(
        waits,
        [1, 2, 4, 8, 16, 32, 60, 60, 60],
        "the first, and eight repeats"
    );
}

#[test]
fn sack_of_what_was_never_sent_aborts() {
    for sack in [(1, vec![]), (0, vec![(2, 9)])] {
        let mut pair = pair(Reach::Established);
        let packet = pair.sack(sack.0, 5000, &sack.1);
        assert_eq!(kinds(&pair.client.receive(&packet)), [6]);
        assert_eq!(pair.client.closed(), Some(CloseReason::Aborted));
    }
}

#[test]
fn three_reports_of_a_gap_retransmit_once() {
    let mut pair = pair(Reach::Established);
    let id = pair.client.id;
    for count in 1..=3 {
        submit_message(&mut pair.client.engine, id, 1000 * count, &Note::default());
    }
    assert_eq!(kinds(&pair.client.packets()), [0, 0, 0]);
    let sacks: Vec<Packet> = (2..=3)
        .map(|end| pair.sack(0, 100_000, &[(2, end)]))
        .collect();
    assert_eq!(
        kinds(&pair.client.receive(&sacks[0])),
        [0u8; 0],
        "one report"
    );
    assert_eq!(kinds(&pair.client.receive(&sacks[1])), [0u8; 0], "two");
    assert_eq!(
        kinds(&pair.client.receive(&sacks[1])),
        [0u8; 0],
        "nothing newly acknowledged"
    );
    submit_message(&mut pair.client.engine, id, 4000, &Note::default());
    assert_eq!(kinds(&pair.client.packets()), [0]);
    let third = pair.sack(0, 100_000, &[(2, 4)]);
    assert_eq!(
        kinds(&pair.client.receive(&third)),
        [0],
        "three: the lost one again"
    );
    assert_eq!(pair.client.engine.counters().retransmissions, 1);
    assert_eq!(
        kinds(&pair.client.receive(&third)),
        [0u8; 0],
        "and no second time"
    );
    pair.client.events();
    let all = pair.sack(4, 100_000, &[]);
    pair.client.receive(&all);
    assert_eq!(pair.client.events(), [Event::Released(id, 0..4000)]);
}

#[test]
fn chunk_reported_and_taken_back_is_sent_again_after_the_timeout() {
    let mut pair = pair(Reach::Established);
    let id = pair.client.id;
    for count in 1..=2 {
        submit_message(&mut pair.client.engine, id, 1000 * count, &Note::default());
    }
    pair.client.packets();
    let gap = pair.sack(0, 100_000, &[(2, 2)]);
    pair.client.receive(&gap);
    let reneged = pair.sack(0, 100_000, &[]);
    pair.client.receive(&reneged);
    assert_eq!(
        kinds(&pair.client.time_out()),
        [0],
        "one packet after a timeout"
    );
    let first = pair.sack(1, 100_000, &[]);
    assert_eq!(
        kinds(&pair.client.receive(&first)),
        [0],
        "and the other one"
    );
}

#[test]
fn window_of_zero_is_probed_with_one_chunk() {
    let mut pair = pair(Reach::Established);
    let id = pair.client.id;
    submit_message(&mut pair.client.engine, id, 1000, &Note::default());
    pair.client.packets();
    let shut = pair.sack(1, 0, &[]);
    pair.client.receive(&shut);
    for count in 2..=5 {
        submit_message(&mut pair.client.engine, id, 1000 * count, &Note::default());
    }
    assert!(pair.client.packets().is_empty(), "the window is shut");
    assert_eq!(kinds(&pair.client.time_out()), [0], "one probe");
    // It is dropped, and the peer says so for as long as it likes.
    for _ in 0..30 {
        pair.client.receive(&shut);
        assert_eq!(kinds(&pair.client.time_out()), [0]);
        assert_eq!(pair.client.closed(), None, "a shut window is no failure");
    }
    let open = pair.sack(2, 100_000, &[]);
    let packets = pair.client.receive(&open);
    // Each probe that was not acknowledged in time left a congestion window of one packet.
    assert_eq!(kinds(&packets), [0, 0]);
}

#[test]
fn receiver_that_is_full_takes_what_is_missing_and_drops_the_highest() {
    let mut pair = pair(Reach::Established);
    // Nine chunks behind a gap fill the buffer of 10,000; each counts some octets besides its bytes.
    for behind in 1..=10 {
        let data = pair.data(behind, 0, behind as u16, 3, 1000);
        pair.client.receive(&data);
    }
    let discards = pair.client.engine.discards();
    assert!(
        discards.count(DiscardReason::Window) > 0,
        "one beyond all is refused"
    );
    let missing = pair.data(0, 0, 0, 3, 1000);
    let from = Received::new(Path::to(SERVER), &missing);
    let mut deliveries = Deliveries::default();
    let now = pair.client.now;
    pair.client.engine.handle_packet(now, from, &mut deliveries);
    let bytes: usize = deliveries.bytes.len();
    assert!(
        bytes >= 8,
        "the one that was missing, and those behind it: {bytes}"
    );
}

#[test]
fn chunk_that_continues_nothing_aborts() {
    let mut one = pair(Reach::Established);
    let orphan = one.data(0, 0, 0, 0, 10);
    assert_eq!(kinds(&one.client.receive(&orphan)), [6]);
    let mut other = pair(Reach::Established);
    let begun = other.data(0, 0, 0, 2, 10);
    let begun_again = other.data(1, 0, 1, 2, 10);
    other.client.receive(&begun);
    assert_eq!(kinds(&other.client.receive(&begun_again)), [6]);
}

#[test]
fn data_without_bytes_or_for_a_foreign_stream_is_reported() {
    let mut one = pair(Reach::Established);
    let empty = one.data(0, 0, 0, 3, 0);
    let answers = one.client.receive(&empty);
    assert_eq!(kinds(&answers), [6]);
    let mut other = pair(Reach::Established);
    let foreign = other.data(0, 60_000, 0, 3, 4);
    assert_eq!(kinds(&other.client.receive(&foreign)), [3, 9]);
}

#[test]
fn unknown_chunks_are_skipped_or_end_the_packet() {
    let mut pair = pair(Reach::Established);
    let (mut skip, mut stop) = (Vec::new(), Vec::new());
    push_chunk(&mut skip, ChunkType(0xbf), 0, &[1; 4]);
    push_chunk(&mut skip, ChunkType(0xff), 0, &[2; 4]);
    push_chunk(&mut skip, ChunkType::HEARTBEAT, 0, &[0, 1, 0, 4]);
    push_chunk(&mut stop, ChunkType(0x7f), 0, &[3; 4]);
    push_chunk(&mut stop, ChunkType::HEARTBEAT, 0, &[0, 1, 0, 4]);
    let packet = pair.packet(pair.to_client, &skip);
    assert_eq!(kinds(&pair.client.receive(&packet)), [9, 5]);
    let packet = pair.packet(pair.to_client, &stop);
    assert_eq!(kinds(&pair.client.receive(&packet)), [9]);
}

#[test]
fn user_abort_reaches_the_peer() {
    let mut pair = pair(Reach::Established);
    let (id, now) = (pair.client.id, pair.client.now);
    pair.client.engine.abort(now, id);
    assert_eq!(pair.client.closed(), Some(CloseReason::Aborted));
    let packets = pair.client.packets();
    assert_eq!(kinds(&packets), [6]);
    pair.server.receive(&packets[0]);
    assert_eq!(pair.server.closed(), Some(CloseReason::Aborted));
    assert_eq!(pair.server.engine.associations_len(), 0);
}
