//! Messages that the peer gives up, and messages that take turns (RFC 3758, RFC 8260).

use super::*;
use engine::Bytes;
use engine_sctp::numbers::{Fsn, Mid};
use engine_sctp::pdu::IDataHeader;
use engine_sctp::pdu::forward_tsn::{SkippedStream, push_forward_tsn};

const BEGIN: u8 = 2;
const END: u8 = 1;
const WHOLE: u8 = 3;
const UNORDERED: u8 = 4;

fn interleaving(config: SctpConfig) -> SctpConfig {
    SctpConfig {
        interleave: true,
        ..config
    }
}

/// What a delivery says: its stream, whether it is unordered, its bytes, and whether the message ends or is
/// given up.
type Seen = (u16, bool, usize, &'static str);

fn seen(delivery: &Delivery) -> Seen {
    let len = match &delivery.bytes {
        Bytes::Packet(range) => range.len(),
        Bytes::Reassembled(bytes) => bytes.len(),
    };
    let what = match (delivery.gap, delivery.end_of_message) {
        (true, true) => "given up",
        (false, true) => "end",
        (false, false) => "",
        (true, false) => "gap",
    };
    (delivery.note.stream, delivery.note.unordered, len, what)
}

impl Pair {
    /// A FORWARD-TSN of the server up to its chunk number `behind`, or an I-FORWARD-TSN.
    fn forward(&self, interleaved: bool, behind: u32, streams: &[(u16, bool, u32)]) -> Packet {
        let mut chunk = Vec::new();
        let streams = streams
            .iter()
            .map(|&(stream, unordered, number)| SkippedStream {
                stream: StreamId(stream),
                unordered,
                number,
            });
        let tsn = Tsn(self.server_tsn.0.wrapping_add(behind));
        push_forward_tsn(&mut chunk, interleaved, tsn, streams);
        self.packet(self.to_client, &chunk)
    }

    /// I-DATA of the server with a TSN so far behind its first.
    fn i_data(
        &self,
        behind: u32,
        stream: u16,
        (mid, fsn): (u32, u32),
        flags: u8,
        len: usize,
    ) -> Packet {
        let header = IDataHeader {
            flags,
            tsn: Tsn(self.server_tsn.0.wrapping_add(behind)),
            stream: StreamId(stream),
            mid: Mid(mid),
            ppid: 51,
            fsn: Fsn(fsn),
        };
        let mut chunk = header.emit(len).to_vec();
        chunk.resize((20 + len).next_multiple_of(4), 9);
        self.packet(self.to_client, &chunk)
    }

    /// What the client's user gets of these packets.
    fn deliveries(&mut self, packets: &[Packet]) -> Vec<Seen> {
        let mut all = Vec::new();
        for packet in packets {
            let (_, deliveries) = self.client.receive_data(packet);
            all.extend(deliveries.iter().map(seen));
        }
        all
    }

    /// The cumulative TSN that the client acknowledges, behind the server's first.
    fn acknowledged(&self, packets: &[Packet]) -> u32 {
        let mut chunks = packets.iter().flat_map(|packet| Chunks::new(packet));
        let sack = chunks
            .find(|chunk| chunk.kind == ChunkType::SACK)
            .expect("a SACK");
        let cumulative = engine_sctp::pdu::Sack::parse(sack.value)
            .expect("a SACK")
            .cumulative;
        cumulative.0.wrapping_sub(self.server_tsn.0)
    }
}

#[test]
fn forward_tsn_frees_what_waited_behind_a_message_given_up() {
    let mut pair = pair(Reach::Established);
    let behind = [pair.data(1, 4, 1, WHOLE, 10), pair.data(2, 5, 0, WHOLE, 20)];
    assert_eq!(pair.deliveries(&behind), [(5, false, 20, "end")]);
    let forward = pair.forward(false, 0, &[(4, false, 0)]);
    let (sent, deliveries) = pair.client.receive_data(&forward);
    assert_eq!(
        deliveries.iter().map(seen).collect::<Vec<_>>(),
        [(4, false, 10, "end")]
    );
    assert_eq!(
        pair.acknowledged(&sent),
        2,
        "acknowledged at once, with what came behind it"
    );
    let next = pair.data(3, 4, 2, WHOLE, 30);
    assert_eq!(pair.deliveries(&[next]), [(4, false, 30, "end")]);
}

#[test]
fn old_forward_tsn_is_acknowledged_and_changes_nothing() {
    let mut pair = pair(Reach::Established);
    let data = [pair.data(0, 4, 0, WHOLE, 10), pair.data(1, 4, 1, WHOLE, 10)];
    assert_eq!(pair.deliveries(&data).len(), 2);
    let forward = pair.forward(false, 0, &[(4, false, 9)]);
    let (sent, deliveries) = pair.client.receive_data(&forward);
    assert_eq!((pair.acknowledged(&sent), deliveries.len()), (1, 0));
    let next = pair.data(2, 4, 2, WHOLE, 10);
    assert_eq!(
        pair.deliveries(&[next]).len(),
        1,
        "its entry counts for nothing"
    );
}

#[test]
fn message_begun_at_the_user_is_given_up_with_its_rest() {
    for unordered in [0, UNORDERED] {
        let mut pair = pair(Reach::Established);
        let is_unordered = unordered != 0;
        // The fragment with TSN 1 is missing; that with TSN 2 waits.
        let fragments = [
            pair.data(0, 4, 0, BEGIN | unordered, 10),
            pair.data(2, 4, 0, END | unordered, 10),
            pair.data(3, 4, 1, WHOLE | unordered, 15),
        ];
        assert_eq!(pair.deliveries(&fragments), [(4, is_unordered, 10, "")]);
        let streams = match is_unordered {
            true => vec![],
            false => vec![(4, false, 0)],
        };
        let forward = pair.forward(false, 2, &streams);
        assert_eq!(
            pair.deliveries(&[forward]),
            [
                (4, is_unordered, 0, "given up"),
                (4, is_unordered, 15, "end")
            ]
        );
    }
}

#[test]
fn fragments_that_can_never_be_whole_give_their_room_back() {
    let mut pair = pair(Reach::Established);
    let fragments = [
        pair.data(1, 4, 0, 0, 4000),
        pair.data(2, 4, 0, END, 4000),
        pair.data(3, 5, 1, WHOLE, 10),
    ];
    let before = fragments.map(|fragment| pair.client.receive(&fragment));
    let window = |packets: &[Packet]| {
        let mut chunks = packets.iter().flat_map(|packet| Chunks::new(packet));
        let sack = chunks
            .find(|chunk| chunk.kind == ChunkType::SACK)
            .expect("a SACK");
        engine_sctp::pdu::Sack::parse(sack.value)
            .expect("a SACK")
            .rwnd
    };
    assert!(window(&before[2]) < 2000);
    let forward = pair.forward(false, 2, &[(4, false, 0)]);
    let (sent, deliveries) = pair.client.receive_data(&forward);
    assert!(
        deliveries.is_empty(),
        "of stream 5 a message is missing still"
    );
    assert!(window(&sent) > 9000);
}

#[test]
fn skipped_numbers_wrap_and_whole_messages_among_them_are_delivered() {
    let mut pair = pair(Reach::Established);
    // The stream stands at its message 65534.
    let forward = pair.forward(false, 0, &[(4, false, 30_000)]);
    pair.client.receive(&forward);
    let forward = pair.forward(false, 1, &[(4, false, 60_000)]);
    pair.client.receive(&forward);
    let forward = pair.forward(false, 2, &[(4, false, 65_533)]);
    pair.client.receive(&forward);
    // 65534 is missing, 65535 is here, 0 is missing, 1 is here, 2 is missing, 3 is here.
    let here = [
        pair.data(4, 4, 65_535, WHOLE, 11),
        pair.data(6, 4, 1, WHOLE, 12),
        pair.data(8, 4, 3, WHOLE, 13),
    ];
    assert_eq!(pair.deliveries(&here), []);
    let forward = pair.forward(false, 7, &[(4, false, 2)]);
    let expected = [11, 12, 13].map(|len| (4, false, len, "end"));
    assert_eq!(pair.deliveries(&[forward]), expected);
}

#[test]
fn late_rest_of_a_message_given_up_is_no_fault() {
    let mut pair = pair(Reach::Established);
    let forward = pair.forward(false, 1, &[(4, false, 0)]);
    pair.client.receive(&forward);
    let late = pair.data(2, 4, 0, END, 10);
    assert_eq!(pair.deliveries(&[late]), []);
    assert_eq!(pair.client.closed(), None);
}

#[test]
fn forward_tsn_that_was_not_agreed_on_is_an_unknown_chunk() {
    let mut pair = pair_with(Reach::Established, |config| SctpConfig {
        partial_reliability: false,
        ..config
    });
    let forward = pair.forward(false, 5, &[]);
    let (sent, _) = pair.client.receive_data(&forward);
    assert_eq!(kinds(&sent), [9], "reported, as its type asks");
    assert_eq!(pair.client.closed(), None);
}

#[test]
fn messages_of_two_streams_take_turns_and_arrive_apart() {
    let mut pair = pair_with(Reach::Established, interleaving);
    let fragments = [
        pair.i_data(0, 1, (0, 0), BEGIN, 10),
        pair.i_data(1, 2, (0, 0), BEGIN, 20),
        pair.i_data(2, 1, (0, 1), END, 11),
        pair.i_data(3, 2, (0, 1), END, 21),
    ];
    let (_, last) = pair.client.receive_data(&fragments[1]);
    assert_eq!(
        last.iter().map(seen).collect::<Vec<_>>(),
        [(2, false, 20, "")]
    );
    let rest = [
        fragments[0].clone(),
        fragments[3].clone(),
        fragments[2].clone(),
    ];
    assert_eq!(
        pair.deliveries(&rest),
        [
            (1, false, 10, ""),
            (2, false, 21, "end"),
            (1, false, 11, "end")
        ]
    );
}

#[test]
fn fragments_of_one_message_arrive_in_any_order_with_its_identifier() {
    let mut pair = pair_with(Reach::Established, interleaving);
    for packet in [
        pair.i_data(2, 1, (0, 2), END, 12),
        pair.i_data(1, 1, (0, 1), 0, 11),
    ] {
        assert_eq!(pair.deliveries(&[packet]), []);
    }
    let first = pair.i_data(0, 1, (0, 0), BEGIN, 10);
    let (_, deliveries) = pair.client.receive_data(&first);
    let tags: Vec<_> = deliveries
        .iter()
        .map(|delivery| delivery.note.tag)
        .collect();
    assert_eq!(tags, [Some(51); 3], "that of the first fragment");
}

#[test]
fn two_first_fragments_of_one_message_end_the_association() {
    let mut pair = pair_with(Reach::Established, interleaving);
    let double = [
        pair.i_data(1, 1, (1, 0), BEGIN, 10),
        pair.i_data(2, 1, (1, 0), BEGIN, 10),
    ];
    pair.deliveries(&double);
    assert_eq!(pair.client.closed(), Some(CloseReason::Aborted));
}

#[test]
fn data_where_i_data_was_agreed_on_ends_the_association() {
    let mut pair = pair_with(Reach::Established, interleaving);
    let data = pair.data(0, 1, 0, WHOLE, 10);
    assert_eq!(kinds(&pair.client.receive(&data)), [6]);
    assert_eq!(pair.client.closed(), Some(CloseReason::Aborted));
}

#[test]
fn i_forward_tsn_skips_ordered_and_unordered_messages_apart() {
    let mut pair = pair_with(Reach::Established, interleaving);
    let begun = [
        pair.i_data(0, 1, (0, 0), BEGIN, 10),
        pair.i_data(1, 1, (0, 0), BEGIN | UNORDERED, 20),
        // Chunk 2 is missing; message 1 of each waits.
        pair.i_data(3, 1, (1, 0), WHOLE, 11),
        pair.i_data(4, 1, (1, 0), WHOLE | UNORDERED, 21),
    ];
    assert_eq!(
        pair.deliveries(&begun),
        [(1, false, 10, ""), (1, true, 20, "")]
    );
    let forward = pair.forward(true, 2, &[(1, true, 0)]);
    assert_eq!(
        pair.deliveries(&[forward]),
        [(1, true, 0, "given up"), (1, true, 21, "end")]
    );
    let forward = pair.forward(true, 5, &[(1, false, 0)]);
    assert_eq!(
        pair.deliveries(&[forward]),
        [(1, false, 0, "given up"), (1, false, 11, "end")]
    );
    // Late fragments of what was given up.
    let late = [
        pair.i_data(6, 1, (0, 1), END, 12),
        pair.i_data(7, 1, (0, 1), END | UNORDERED, 22),
        pair.i_data(8, 1, (2, 0), WHOLE, 13),
    ];
    assert_eq!(pair.deliveries(&late), [(1, false, 13, "end")]);
    assert_eq!(pair.client.closed(), None);
}
