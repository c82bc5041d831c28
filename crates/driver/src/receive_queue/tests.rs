//! Readers lose and change no octet, however chunks are cut and calls are mixed.

use super::{Chunk, ChunkSpan, MessageReader, Octets, ReadOutcome};
use engine::{Framing, Note, SplitMix64};

/// A message as it is sent and received.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    bytes: Vec<u8>,
    note: Note,
}

fn random_messages(random: &mut SplitMix64, framing: Framing) -> Vec<Message> {
    let shortest = u64::from(framing == Framing::Messages);
    let messages = (0..1 + random.below(6)).map(|_| {
        let limit = [20, 200, 2000][random.below(3) as usize];
        let len = shortest + random.below(limit);
        let mut note = Note::default();
        if framing == Framing::Messages {
            let some = |random: &mut SplitMix64| (random.below(3) == 0).then(|| random.next_u64());
            note.tag = some(random);
            note.end_tag = some(random);
            note.stream = random.below(2) as u16;
        }
        Message {
            bytes: (0..len).map(|_| random.next_u64() as u8).collect(),
            note,
        }
    });
    messages.collect()
}

/// A packet: its octets, and what is said of them.
struct Packet {
    octets: Vec<u8>,
    span: ChunkSpan,
    note: Note,
}

fn packet(octets: Vec<u8>) -> Packet {
    Packet {
        span: ChunkSpan {
            range: 0..octets.len() as u32,
            gap: false,
            begin_tag: false,
            end_tag: false,
            end_of_message: false,
        },
        octets,
        note: Note::default(),
    }
}

/// Cuts messages into packets as engines do.
fn packets(messages: &[Message], framing: Framing, payload: usize) -> Vec<Packet> {
    match framing {
        Framing::Records => {
            let (mut producer, consumer) = crate::sys::ring(
                engine::Layout {
                    header: 0,
                    payload,
                    trailer: 0,
                },
                1 << 20,
            );
            for message in messages {
                assert!(producer.append_record(&message.bytes));
            }
            let mut octets = Vec::new();
            consumer.copy(&(0..consumer.head()), &mut octets);
            octets
                .chunks(payload)
                .map(|part| packet(part.to_vec()))
                .collect()
        }
        Framing::Stream => {
            let all: Vec<u8> = messages.iter().flat_map(|one| one.bytes.clone()).collect();
            all.chunks(payload)
                .map(|part| packet(part.to_vec()))
                .collect()
        }
        Framing::Messages => messages.iter().flat_map(|one| cut(one, payload)).collect(),
    }
}

/// Cuts one message with its tags, which are not split.
fn cut(message: &Message, payload: usize) -> Vec<Packet> {
    let tag = |tag: Option<u64>| tag.map_or_else(Vec::new, |tag| tag.to_be_bytes().to_vec());
    let (front, back) = (tag(message.note.tag), tag(message.note.end_tag));
    let begun = [front, message.bytes.clone()].concat();
    let mut packets: Vec<Packet> = begun
        .chunks(payload)
        .map(|part| packet(part.to_vec()))
        .collect();
    if let Some(first) = packets.first_mut() {
        first.span.begin_tag = message.note.tag.is_some();
    }
    if let Some(last) = packets.last_mut() {
        last.octets.extend_from_slice(&back);
        last.span.range.end = last.octets.len() as u32;
        last.span.end_tag = message.note.end_tag.is_some();
        last.span.end_of_message = true;
    }
    for packet in &mut packets {
        packet.note.stream = message.note.stream;
    }
    packets
}

/// Packets as arrivals of random lengths.
fn chunks(random: &mut SplitMix64, packets: Vec<Packet>) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    for Packet {
        octets,
        mut span,
        note,
    } in packets
    {
        if chunks.is_empty() || random.below(3) == 0 {
            chunks.push(Chunk {
                octets: Octets::Own(Vec::new()),
                spans: Vec::new(),
                notes: Vec::new(),
            });
        }
        let chunk = chunks.last_mut().expect("one was added");
        let Octets::Own(all) = &mut chunk.octets else {
            unreachable!("nobody else has it")
        };
        let start = all.len() as u32;
        span.range = start..start + span.range.end;
        all.extend_from_slice(&octets);
        if !note.is_plain() {
            chunk.notes.push((chunk.spans.len() as u32, note));
        }
        chunk.spans.push(span);
    }
    chunks
}

/// What was received: finished messages, and the bytes of the one that has not ended.
#[derive(Default)]
struct Received {
    messages: Vec<Message>,
    bytes: Vec<u8>,
    note: Note,
}

impl Received {
    fn add(&mut self, bytes: &[u8], end: bool, note: Note) {
        self.bytes.extend_from_slice(bytes);
        self.note.tag = self.note.tag.or(note.tag);
        self.note.end_tag = self.note.end_tag.or(note.end_tag);
        self.note.stream = note.stream;
        if end {
            self.messages.push(Message {
                bytes: std::mem::take(&mut self.bytes),
                note: std::mem::take(&mut self.note),
            });
        }
    }
}

/// One receive of a random kind; false when the reader needs another chunk.
fn receive(random: &mut SplitMix64, reader: &mut MessageReader, to: &mut Received) -> bool {
    if random.below(4) == 0 {
        if !reader.lend() {
            return false;
        }
        for piece in reader.lent().pieces() {
            assert!(!piece.gap);
            to.add(piece.bytes, piece.end, piece.note);
        }
        return true;
    }
    let limit = [2, 30, 3000][random.below(3) as usize];
    let mut buffer = vec![0; random.below(limit) as usize];
    let Some(part) = reader.next_part(&mut buffer) else {
        return false;
    };
    to.add(&buffer[..part.len], part.end, part.note);
    true
}

#[test]
fn parts_and_arrivals_of_random_lengths_lose_no_octet() {
    for framing in [Framing::Records, Framing::Stream, Framing::Messages] {
        for seed in 0..2000 {
            let mut random = SplitMix64::new(seed);
            let messages = random_messages(&mut random, framing);
            let payload = 20 + random.below(600) as usize;
            let mut chunks = chunks(&mut random, packets(&messages, framing, payload)).into_iter();
            let (mut reader, mut received) = (MessageReader::new(framing), Received::default());
            if random.below(2) == 0 {
                reader.set_parts_from(random.below(1000) as usize);
            }
            loop {
                while receive(&mut random, &mut reader, &mut received) {}
                let consumed = reader.take_consumed();
                assert!(consumed.is_none_or(|chunk| !chunk.spans.is_empty()));
                match chunks.next() {
                    Some(chunk) => reader.put(chunk),
                    None => break,
                }
            }
            assert_eq!(reader.messages_damaged(), 0);
            if framing == Framing::Stream {
                let sent: Vec<u8> = messages.into_iter().flat_map(|one| one.bytes).collect();
                assert!(received.bytes == sent, "stream {seed}");
            } else {
                for (got, sent) in received.messages.iter().zip(&messages) {
                    assert_eq!(got.note, sent.note, "{framing:?} {seed}");
                }
                assert!(received.messages == messages, "{framing:?} {seed}");
            }
        }
    }
}

#[test]
fn whole_receive_takes_the_rest_of_a_message() {
    let message = |len| Message {
        bytes: (0..len).map(|at| at as u8).collect(),
        note: Note::default(),
    };
    let mut random = SplitMix64::new(1);
    let packets = packets(&[message(250), message(10)], Framing::Messages, 100);
    let mut reader = MessageReader::new(Framing::Messages);
    let mut rests = 0;
    for chunk in chunks(&mut random, packets) {
        reader.put(chunk);
        let mut buffer = [0; 100];
        while let Some(part) = reader.next_part(&mut buffer) {
            if !part.end {
                assert_eq!(
                    reader.next(&mut buffer),
                    ReadOutcome::Empty,
                    "the rest comes first"
                );
                assert_eq!(reader.next_rest(&mut buffer), Some(150));
                assert_eq!(buffer[..], message(250).bytes[100..200]);
                rests += 1;
            }
        }
        reader.take_consumed();
    }
    assert_eq!(rests, 1);
}

#[test]
fn empty_buffer_takes_nothing_from_a_stream() {
    let mut reader = MessageReader::new(Framing::Stream);
    let chunk = Chunk {
        octets: Octets::Own(vec![7; 3]),
        spans: vec![packet(vec![7; 3]).span],
        notes: Vec::new(),
    };
    reader.put(chunk);
    assert_eq!(reader.next(&mut []), ReadOutcome::Message(0));
    let mut buffer = [0; 4];
    assert_eq!(reader.next(&mut buffer), ReadOutcome::Message(3));
}

#[test]
fn fragments_of_several_streams_are_joined_by_stream() {
    let of = |stream, bytes: &[u8], end| {
        let mut packet = packet(bytes.to_vec());
        packet.note.stream = stream;
        packet.span.end_of_message = end;
        packet
    };
    let packets = [
        of(0, b"ze", false),
        of(3, b"thr", false),
        of(1, b"one", true),
        of(0, b"ro", true),
        of(2, b"t", false),
        of(3, b"ee", true),
        of(2, b"wo", true),
    ];
    for seed in 0..20 {
        let mut random = SplitMix64::new(seed);
        let cut = packets
            .iter()
            .map(|one| of(one.note.stream, &one.octets, one.span.end_of_message));
        let mut reader = MessageReader::new(Framing::Messages);
        let (mut buffer, mut seen) = ([0; 16], Vec::new());
        for chunk in chunks(&mut random, cut.collect()) {
            reader.put(chunk);
            while let Some(part) = reader.next_part(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..part.len]).into_owned();
                seen.push((part.note.stream, text));
            }
            reader.take_consumed().expect("it was put");
        }
        let words = [(1, "one"), (0, "zero"), (3, "three"), (2, "two")];
        let expected: Vec<_> = words.map(|(stream, word)| (stream, word.to_owned())).into();
        assert_eq!(seen, expected, "seed {seed}");
        assert_eq!(reader.messages_damaged(), 0);
    }
}

#[test]
fn message_given_up_by_its_sender_is_dropped_and_the_next_one_is_whole() {
    let of = |stream, bytes: &[u8], end, gap| {
        let mut packet = packet(bytes.to_vec());
        packet.note.stream = stream;
        packet.span.end_of_message = end;
        packet.span.gap = gap;
        packet
    };
    for stream in [0, 3] {
        for seed in 0..10 {
            let packets = vec![
                of(stream, b"be", false, false),
                of(1, b"on", false, false),
                of(stream, b"", true, true),
                of(stream, b"two", true, false),
                of(1, b"e", true, false),
            ];
            let mut random = SplitMix64::new(seed);
            let mut reader = MessageReader::new(Framing::Messages);
            let (mut buffer, mut seen) = ([0; 16], Vec::new());
            for chunk in chunks(&mut random, packets) {
                reader.put(chunk);
                while let Some(part) = reader.next_part(&mut buffer) {
                    seen.push((part.note.stream, buffer[..part.len].to_vec()));
                }
                reader.take_consumed().expect("it was put");
            }
            assert_eq!(seen, [(stream, b"two".to_vec()), (1, b"one".to_vec())]);
            assert_eq!(reader.messages_damaged(), 1, "stream {stream}, seed {seed}");
        }
    }
}

/// Reads `packets`, one an arrival, with parts from four bytes on; each part with its stream, and whether it
/// ends its message.
fn read_parts(packets: Vec<Packet>) -> (Vec<(u16, String, bool)>, u64) {
    let mut reader = MessageReader::new(Framing::Messages);
    reader.set_parts_from(4);
    let (mut buffer, mut seen) = ([0; 16], Vec::new());
    for packet in packets {
        let mut all = chunks(&mut SplitMix64::new(1), vec![packet]);
        reader.put(all.remove(0));
        while let Some(part) = reader.next_part(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..part.len]).into_owned();
            seen.push((part.note.stream, text, part.end));
        }
        reader.take_consumed().expect("it was put");
    }
    (seen, reader.messages_damaged())
}

fn fragment(stream: u16, bytes: &str, end: bool) -> Packet {
    let mut packet = packet(bytes.as_bytes().to_vec());
    packet.note.stream = stream;
    packet.span.end_of_message = end;
    packet
}

#[test]
fn long_messages_are_read_in_parts_and_short_ones_whole() {
    let packets = vec![
        fragment(0, "on", false),
        fragment(0, "e an", false),
        fragment(1, "oth", false),
        fragment(0, "d", false),
        fragment(1, "er", true),
        fragment(0, " two", false),
        fragment(0, ".", true),
        fragment(0, "end", true),
    ];
    let (seen, damaged) = read_parts(packets);
    let expected = [
        (0, "one an", false),
        (1, "other", true),
        (0, "d two", false),
        (0, ".", true),
        (0, "end", true),
    ];
    let seen: Vec<_> = seen
        .iter()
        .map(|(stream, text, end)| (*stream, &text[..], *end))
        .collect();
    assert_eq!(seen, expected);
    assert_eq!(damaged, 0);
}

#[test]
fn message_given_up_behind_a_part_ends_without_bytes() {
    let given_up = || {
        let mut packet = fragment(2, "", true);
        packet.span.gap = true;
        packet
    };
    let packets = vec![
        fragment(2, "begun", false),
        fragment(2, "x", false),
        given_up(),
        fragment(2, "b", false),
        given_up(),
        fragment(2, "next", true),
    ];
    let (seen, damaged) = read_parts(packets);
    let expected = [(2, "begun", false), (2, "", true), (2, "next", true)];
    let seen: Vec<_> = seen
        .iter()
        .map(|(stream, text, end)| (*stream, &text[..], *end))
        .collect();
    assert_eq!(seen, expected);
    assert_eq!(damaged, 2);
}
