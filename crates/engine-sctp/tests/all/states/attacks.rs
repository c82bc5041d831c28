//! Attacks by a peer that knows the tag: each costs bounded memory and work (RFC 5062, RFC 9260 section
//! 12).

use super::*;
use engine::SplitMix64;
use engine_sctp::pdu::Sack;

/// The client of an open association, its server's user bytes 7, as [`Pair`] makes them.
fn open() -> Pair {
    pair_with(Reach::Established, |config| config)
}

/// The congestion window of the client.
fn window(pair: &Pair) -> u64 {
    pair.client.engine.paths(pair.client.id)[0].congestion_window
}

/// The window that the last SACK among `packets` announces.
fn announced(packets: &[Packet]) -> Option<u32> {
    let chunks = packets.iter().flat_map(|packet| Chunks::new(packet));
    let sacks = chunks.filter(|chunk| chunk.kind == ChunkType::SACK);
    sacks
        .last()
        .map(|chunk| Sack::parse(chunk.value).expect("well formed").rwnd)
}

#[test]
fn repeated_sacks_do_not_grow_the_window() {
    let mut pair = open();
    let id = pair.client.id;
    submit_message(&mut pair.client.engine, id, 1_000_000, &Note::default());
    pair.client.packets();
    let before = window(&pair);
    let sack = pair.sack(1, 100_000, &[]);
    pair.client.receive(&sack);
    let once = window(&pair);
    assert!(once <= before + 1472, "a packet for a SACK");
    for _ in 0..1000 {
        pair.client.receive(&sack);
    }
    assert_eq!(window(&pair), once);
}

#[test]
fn chunks_that_the_peer_forgets_again_are_sent_again() {
    let mut pair = open();
    let id = pair.client.id;
    submit_message(&mut pair.client.engine, id, 4000, &Note::default());
    assert_eq!(kinds(&pair.client.packets()), [0, 0, 0]);
    for _ in 0..200 {
        let gap = pair.sack(0, 100_000, &[(2, 3)]);
        pair.client.receive(&gap);
        let forgotten = pair.sack(0, 100_000, &[]);
        pair.client.receive(&forgotten);
    }
    let again = pair.client.time_out();
    assert!(kinds(&again).contains(&0), "{again:?}");
    let all = pair.sack(3, 100_000, &[]);
    pair.client.receive(&all);
    assert_eq!(pair.client.engine.paths(id)[0].flight, 0);
}

#[test]
fn sacks_with_hundreds_of_odd_blocks_and_duplicates_change_nothing() {
    let mut pair = open();
    let id = pair.client.id;
    submit_message(&mut pair.client.engine, id, 4000, &Note::default());
    pair.client.packets();
    let mut random = SplitMix64::new(5);
    for _ in 0..200 {
        let mut value = pair.client_tsn.0.wrapping_sub(1).to_be_bytes().to_vec();
        value.extend(100_000u32.to_be_bytes());
        value.extend([1, 0, 0, 40]);
        // 256 blocks and 40 duplicates, of random numbers.
        value.extend((0..256 * 4 + 40 * 4).map(|_| random.next_u64() as u8));
        let sack = pair.chunk(ChunkType::SACK, 0, &value);
        pair.client.receive(&sack);
    }
    assert_eq!(pair.client.closed(), None);
    let all = pair.sack(3, 100_000, &[]);
    pair.client.receive(&all);
    assert_eq!(pair.client.engine.paths(id)[0].flight, 0);
}

/// The receive buffer has 10,000 bytes. A chunk of one byte is held with all that its record costs.
#[test]
fn chunk_of_one_byte_in_every_second_place_fills_the_buffer() {
    let mut pair = open();
    let mut last = Vec::new();
    for place in 1..20_000u32 {
        let data = pair.data(2 * place, (place % 16) as u16, 0, 3 | 4, 1);
        last = pair.client.receive(&data);
    }
    let refused = pair.client.engine.discards().count(DiscardReason::Window);
    assert!(refused > 9000, "{refused} of 20,000");
    assert_eq!(announced(&last), Some(0));
    // The lowest missing one is taken all the same.
    let data = pair.data(0, 0, 0, 3, 1);
    let (_, deliveries) = pair.client.receive_data(&data);
    assert!(!deliveries.is_empty());
}

#[test]
fn beginnings_of_messages_in_every_stream_stay_within_the_window() {
    let mut pair = open();
    let mut delivered = 0;
    for number in 0..5000u32 {
        let data = pair.data(number, (number % 16) as u16, (number / 16) as u16, 2, 100);
        let (_, deliveries) = pair.client.receive_data(&data);
        delivered += deliveries.len();
        if pair.client.engine.associations_len() == 0 {
            break;
        }
    }
    // A message that begins behind one that never ended is a fault, or waits in the buffer.
    assert!(delivered <= 100, "{delivered}");
}

#[test]
fn forward_tsn_far_ahead_costs_no_more_than_a_near_one() {
    for ahead in [1u32 << 20, (1 << 31) - 2, 1 << 31, u32::MAX] {
        let mut pair = open();
        let mut value = pair.server_tsn.0.wrapping_add(ahead).to_be_bytes().to_vec();
        for stream in 0..300u16 {
            value.extend(stream.to_be_bytes());
            value.extend([0xff, 0xff]);
        }
        let forward = pair.chunk(ChunkType::FORWARD_TSN, 0, &value);
        let answers = pair.client.receive(&forward);
        assert!(answers.len() <= 1);
        assert_eq!(pair.client.closed(), None, "ahead by {ahead}");
    }
}

#[test]
fn message_that_begins_twice_with_i_data_ends_or_is_dropped() {
    let mut pair = pair_with(Reach::Established, |config| SctpConfig {
        interleave: true,
        ..config
    });
    let begin = |pair: &Pair, behind: u32| {
        let tsn = pair.server_tsn.0.wrapping_add(behind);
        let mut value = tsn.to_be_bytes().to_vec();
        // Stream 0, message 0, identifier 0, and four bytes.
        value.extend([0; 12]);
        value.extend([9; 4]);
        pair.chunk(ChunkType::I_DATA, 2, &value)
    };
    let mut delivered = 0;
    for behind in 0..3000 {
        let data = begin(&pair, behind);
        delivered += pair.client.receive_data(&data).1.len();
    }
    assert_eq!(delivered, 1, "the first alone");
}

#[test]
fn heartbeats_of_one_packet_are_answered_by_no_more_octets() {
    let mut pair = open();
    let mut chunks = Vec::new();
    for _ in 0..100 {
        push_chunk(
            &mut chunks,
            ChunkType::HEARTBEAT,
            0,
            &[0, 1, 0, 8, 1, 2, 3, 4],
        );
    }
    let packet = pair.packet(pair.to_client, &chunks);
    let answers = pair.client.receive(&packet);
    let octets: usize = answers.iter().map(Vec::len).sum();
    assert!(octets <= packet.len() && kinds(&answers).len() <= 16);
}

#[test]
fn packet_of_empty_unknown_chunks_gets_few_reports() {
    let mut pair = open();
    for kind in [0xc3, 0xff, 0x84, 0x80] {
        let chunks: Vec<u8> = (0..360).flat_map(|_| [kind, 0, 0, 4]).collect();
        let packet = pair.packet(pair.to_client, &chunks);
        let answers = pair.client.receive(&packet);
        let octets: usize = answers.iter().map(Vec::len).sum();
        assert!(octets <= packet.len(), "{kind:#x}: {octets}");
    }
    assert_eq!(pair.client.closed(), None);
}

#[test]
fn guessed_tags_end_nothing() {
    let mut pair = open();
    let mut random = SplitMix64::new(9);
    let mut abort = Vec::new();
    push_chunk(&mut abort, ChunkType::ABORT, 0, &[]);
    for _ in 0..10_000 {
        let tag = Tag(random.next_u64() as u32);
        let packet = pair.packet(tag, &abort);
        assert!(pair.client.receive(&packet).is_empty());
    }
    // The own tag with flag T is that of nobody.
    abort[1] = 1;
    let reflected = pair.packet(pair.to_client, &abort);
    pair.client.receive(&reflected);
    assert_eq!(pair.client.closed(), None);
}
