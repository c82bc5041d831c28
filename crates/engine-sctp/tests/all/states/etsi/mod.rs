//! The test purposes of ETSI TS 102 369 (V1.1.1), each by its number: `as_v_1_1_1` is SCTP_AS_V_1_1_1.
//!
//! The specification has 121 of them. What the tester sends is forged here; the end under test is
//! `Pair::client` where it opens the association, and [`Answerer`] where its peer does. Purposes that
//! are not tests, and why:
//!
//! | purposes | why not |
//! | --- | --- |
//! | AS_I_1_4 | an endpoint's limit of associations is its host's matter; `flood_of_inits_leaves_no_state` tries what the purpose is about |
//! | AS_V_1_11_1, AS_V_1_11_2, AS_I_1_15, D_V_8_10, FH_I_5_1_2, RT_I_11_3 | several addresses of a peer: one path is used today |
//! | D_V_8_13, D_V_8_14, D_V_8_15 | messages longer than the receive buffer: the part is delivered, so the purposes do not apply, as the suites say of every stack with sockets |

mod answers;
mod data;
mod faults;
mod setup;
mod termination;

use super::*;

/// The tag and first TSN of a forged peer, and its port.
const PEER_TAG: Tag = Tag(0x0101_0101);
const PEER_TSN: Tsn = Tsn(1);
const PEER_PORT: Port = Port(6000);

/// Flags of a message in one chunk.
const WHOLE: u8 = 3;

/// An end under test that a forged peer has opened an association with.
struct Answerer {
    end: End,
    /// The tag of packets to it.
    tag: Tag,
    /// Its first TSN.
    tsn: Tsn,
}

/// A packet of the forged peer to an end that listens.
fn to_listener(tag: Tag, chunks: &[u8]) -> Packet {
    let header = CommonHeader {
        source: PEER_PORT,
        destination: Port(5000),
        tag,
    };
    let mut packet = [&header.emit()[..], chunks].concat();
    complete_checksum(&mut packet);
    packet
}

fn chunk_of(kind: ChunkType, flags: u8, value: &[u8]) -> Vec<u8> {
    let mut chunk = Vec::new();
    push_chunk(&mut chunk, kind, flags, value);
    chunk
}

/// The value of an INIT or INIT-ACK with these streams and parameters.
fn init_value(tag: Tag, streams: (u16, u16), parameters: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    value.extend(tag.0.to_be_bytes());
    value.extend(1500_u32.to_be_bytes());
    value.extend(streams.0.to_be_bytes());
    value.extend(streams.1.to_be_bytes());
    value.extend(PEER_TSN.0.to_be_bytes());
    value.extend_from_slice(parameters);
    value
}

/// An INIT of the forged peer.
fn init(tag: Tag, streams: (u16, u16), parameters: &[u8]) -> Packet {
    let value = init_value(tag, streams, parameters);
    to_listener(Tag::NONE, &chunk_of(ChunkType::INIT, 0, &value))
}

/// A chunk of DATA of the forged peer, the number `behind` behind its first.
fn data_chunk(behind: u32, stream: u16, ssn: u16, flags: u8, len: usize) -> Vec<u8> {
    let header = DataHeader {
        flags,
        tsn: Tsn(PEER_TSN.0 + behind),
        stream: StreamId(stream),
        ssn: Ssn(ssn),
        ppid: 0,
    };
    let mut chunk = header.emit(len).to_vec();
    chunk.resize((16 + len).next_multiple_of(4), 9);
    chunk
}

/// A parameter.
fn parameter(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut octets = kind.to_be_bytes().to_vec();
    octets.extend((4 + value.len() as u16).to_be_bytes());
    octets.extend_from_slice(value);
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

/// A listener that has seen nothing.
fn listener() -> End {
    End::new(SERVER, 2)
}

/// The COOKIE-ECHO chunk that answers an INIT-ACK.
fn cookie_echo(init_ack: &[u8]) -> Vec<u8> {
    let cookie = init_of(init_ack).parameters.cookie.expect("a cookie");
    chunk_of(ChunkType::COOKIE_ECHO, 0, &cookie)
}

impl Answerer {
    /// An end whose association is open.
    fn established() -> Answerer {
        let mut end = listener();
        let answers = end.receive(&init(PEER_TAG, (10, 10), &[]));
        assert_eq!(kinds(&answers), [2]);
        let (tag, tsn) = (init_of(&answers[0]).tag, init_of(&answers[0]).initial_tsn);
        let echo = cookie_echo(&answers[0]);
        let mut answerer = Answerer { end, tag, tsn };
        assert_eq!(kinds(&answerer.receive(&echo)), [11]);
        let events = answerer.end.events();
        let [Event::Accepted(id, _)] = events[..] else {
            panic!("{events:?}");
        };
        answerer.end.id = id;
        answerer
    }

    /// Receives chunks in one packet; what it sends.
    fn receive(&mut self, chunks: &[u8]) -> Vec<Packet> {
        self.end.receive(&to_listener(self.tag, chunks))
    }

    /// One chunk with a value.
    fn receive_chunk(&mut self, kind: ChunkType, flags: u8, value: &[u8]) -> Vec<Packet> {
        self.receive(&chunk_of(kind, flags, value))
    }

    /// SHUTDOWN that acknowledges `count` chunks.
    fn shutdown(&mut self, count: u32) -> Vec<Packet> {
        let cumulative = self.tsn.0.wrapping_add(count).wrapping_sub(1);
        self.receive_chunk(ChunkType::SHUTDOWN, 0, &cumulative.to_be_bytes())
    }

    /// SACK of `count` chunks.
    fn sack_chunk(&self, count: u32) -> Vec<u8> {
        let mut chunk = Vec::new();
        let cumulative = Tsn(self.tsn.0.wrapping_add(count).wrapping_sub(1));
        push_sack(
            &mut chunk,
            1000,
            (cumulative, 10_000),
            core::iter::empty(),
            &[],
        );
        chunk
    }
}

/// An INIT-ACK of the forged peer to the client of a pair.
fn init_ack(pair: &Pair, tag: Tag, streams: (u16, u16), parameters: &[u8]) -> Packet {
    let value = init_value(tag, streams, parameters);
    pair.chunk(ChunkType::INIT_ACK, 0, &value)
}

/// A cookie that nobody reads.
fn cookie_parameter() -> Vec<u8> {
    parameter(7, &[1, 2, 3, 4])
}

/// A client that was answered with an INIT-ACK.
fn echoed(streams: (u16, u16), parameters: &[u8]) -> (Pair, Vec<Packet>) {
    let mut pair = pair(Reach::CookieWait);
    let parameters = [&cookie_parameter()[..], parameters].concat();
    let packet = init_ack(&pair, PEER_TAG, streams, &parameters);
    let answers = pair.client.receive(&packet);
    (pair, answers)
}

/// Sends one message of `len` bytes, as the user's first.
fn submit(end: &mut End, len: u64) -> Vec<Packet> {
    let id = end.id;
    submit_message(&mut end.engine, id, len, &Note::default());
    end.packets()
}
