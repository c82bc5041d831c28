//! Tests of channels with modules: each module alone and together, ends that do not fit, and a hostile sender.

use super::set_up::{PairModules, accept_modular_pair, open_modular_pair};
use super::*;
use crate::{Arrival, ChannelReceiver, ChannelSender, Geometry, Signal};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

fn ends_with(
    slots: u32,
    modules: impl Fn() -> Modules,
) -> Result<(ModularSender, ModularReceiver), ChannelError> {
    let (near, far) = UnixStream::pair().unwrap();
    let geometry = Geometry::new(64, slots)?;
    let sender = ModularSender::open(near, geometry, Signal::Futex, modules())?;
    Ok((
        sender,
        ModularReceiver::accept(far, Signal::Futex, modules())?,
    ))
}

fn all() -> Modules {
    Modules::none()
        .reassembling()
        .with(Order::default())
        .with(Checksum)
}

/// A message of a number and a length.
fn message(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + number * 31) as u8).collect()
}

fn receive(receiver: &mut ModularReceiver) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 100];
    match receiver.receive(&mut buffer, LONG).unwrap() {
        Receipt::Message(len) => {
            buffer.truncate(len);
            buffer.extend_from_slice(receiver.rest());
            assert_eq!(buffer.len(), len);
            Some(buffer)
        }
        Receipt::End => None,
        Receipt::Nothing => panic!("nothing in {LONG:?}"),
    }
}

/// Messages of many lengths, shorter and longer than the buffer, through a ring of 512 octets.
#[test]
fn messages_arrive_with_each_set_of_modules() {
    type Make = fn() -> Modules;
    let sets: [(Make, usize); 5] = [
        (Modules::none, 512),
        (|| Modules::none().with(Checksum), 508),
        (
            || Modules::none().with(Order::default()).with(Checksum),
            504,
        ),
        (|| Modules::none().reassembling(), 9000),
        (all, 9000),
    ];
    for (modules, longest) in sets {
        let (mut sender, mut receiver) = ends_with(8, modules).unwrap();
        let lengths = move || (0..120).map(move |number| number * 97 % (longest + 1));
        let sending = thread::spawn(move || {
            for (number, len) in lengths().enumerate() {
                let sent = sender.send(&message(number, len), LONG).unwrap();
                assert_eq!(sent, Sent::Whole);
            }
        });
        for (number, len) in lengths().enumerate() {
            let words = modules().words();
            assert!(
                receive(&mut receiver) == Some(message(number, len)),
                "{words} {number}"
            );
        }
        assert_eq!(receive(&mut receiver), None);
        assert_eq!(receiver.losses(), Losses::default());
        sending.join().unwrap();
    }
}

#[test]
fn message_longer_than_the_ring_without_reassembly_is_refused() {
    let (mut sender, _receiver) = ends_with(8, || Modules::none().with(Checksum)).unwrap();
    let refused = sender.send(&[0; 509], LONG);
    assert!(matches!(
        refused,
        Err(ChannelError::TooLong { len: 509, max: 508 })
    ));
}

#[test]
fn message_without_room_waits_or_is_dropped_and_its_receiver_knows_how_many() {
    let (mut sender, _receiver) = ends_with(2, Modules::none).unwrap();
    let sent = [(); 3].map(|()| sender.send(b"x", Duration::from_millis(1)).unwrap());
    assert_eq!(sent, [Sent::Whole, Sent::Whole, Sent::NoRoom]);
    let modules = || Modules::none().flow(Flow::Drop).with(Order::default());
    let (mut sender, mut receiver) = ends_with(2, modules).unwrap();
    for number in 0..5 {
        let expected = if number < 2 {
            Sent::Whole
        } else {
            Sent::Dropped
        };
        assert_eq!(sender.send(&[number], LONG).unwrap(), expected);
    }
    assert_eq!(
        [receive(&mut receiver), receive(&mut receiver)],
        [Some(vec![0]), Some(vec![1])]
    );
    assert_eq!(receiver.losses().missing, 0, "nothing tells yet");
    assert_eq!(sender.send(&[5], LONG).unwrap(), Sent::Whole);
    assert_eq!(receive(&mut receiver), Some(vec![5]));
    assert_eq!((receiver.losses().missing, sender.dropped()), (3, 3));
}

#[test]
fn pieces_without_room_leave_with_the_next_call_or_break_the_channel() {
    let (mut sender, mut receiver) = ends_with(8, all).unwrap();
    let long = message(1, 2000);
    assert_eq!(sender.send(&long, Duration::ZERO).unwrap(), Sent::Whole);
    assert_eq!(sender.send(b"next", Duration::ZERO).unwrap(), Sent::NoRoom);
    let receiving = thread::spawn(move || {
        let received = [receive(&mut receiver), receive(&mut receiver)];
        (received, receiver)
    });
    assert!(sender.flush(LONG).unwrap());
    sender.send(b"next", LONG).unwrap();
    let (received, mut receiver) = receiving.join().unwrap();
    assert!(received == [Some(long.clone()), Some(b"next".to_vec())]);
    sender.send(&long, Duration::ZERO).unwrap();
    drop(sender);
    let broken = receiver.receive(&mut [0; 4], LONG);
    assert!(matches!(broken, Err(ChannelError::PeerGone)), "{broken:?}");
}

#[test]
fn octet_changed_in_the_ring_is_found_by_the_checksum_alone() {
    for (modules, damaged) in [
        (all as fn() -> Modules, 1),
        (|| Modules::none().reassembling(), 0),
    ] {
        let header_len = modules().header_len();
        let (mut sender, mut receiver) = ends_with(8, modules).unwrap();
        for number in 0..2 {
            sender.send(&message(number, 50), LONG).unwrap();
        }
        let channel = receiver.channel();
        let (first, _) = channel.geometry().place(0, header_len);
        channel.segment().write(first, b"?");
        drop(sender);
        let expected = if damaged == 1 {
            message(1, 50)
        } else {
            [&b"?"[..], &message(0, 50)[1..]].concat()
        };
        assert_eq!(receive(&mut receiver), Some(expected));
        assert_eq!(receiver.losses().damaged, damaged);
    }
}

/// Who has which modules is said by both ends' names.
#[test]
fn ends_with_other_modules_refuse_each_other_in_one_line() {
    let refused = |ours: Modules, theirs: Modules| {
        let (near, far) = UnixStream::pair().unwrap();
        let geometry = Geometry::new(64, 8).unwrap();
        let _sender = ModularSender::open(near, geometry, Signal::Futex, ours).unwrap();
        ModularReceiver::accept(far, Signal::Futex, theirs)
            .unwrap_err()
            .to_string()
    };
    let text = refused(all(), Modules::none().with(Checksum));
    assert!(
        text.contains("checksum") && text.contains("reassemble,order,checksum"),
        "{text}"
    );
    assert!(
        !text.contains('\n') && text.contains("give both ends the same"),
        "{text}"
    );
    refused(Modules::none(), all());
    refused(
        Modules::none().with(Checksum),
        Modules::none().with(Order::default()).with(Checksum),
    );
    let (near, far) = UnixStream::pair().unwrap();
    let geometry = Geometry::new(64, 8).unwrap();
    let _plain = ChannelSender::open(near, geometry, Signal::Futex).unwrap();
    let text = ModularReceiver::accept(far, Signal::Futex, all())
        .unwrap_err()
        .to_string();
    assert!(text.contains("the peer none"), "{text}");
    let (near, far) = UnixStream::pair().unwrap();
    let _modular = ModularSender::open(near, geometry, Signal::Futex, all()).unwrap();
    let text = ChannelReceiver::accept(far, Signal::Futex)
        .unwrap_err()
        .to_string();
    assert!(text.contains("modules"), "{text}");
}

#[test]
fn pair_has_modules_each_way() {
    let (near, far) = UnixStream::pair().unwrap();
    let geometry = Geometry::new(64, 8).unwrap();
    let modules = |sending, receiving| PairModules { sending, receiving };
    let near = open_modular_pair(
        near,
        geometry,
        Signal::Futex,
        modules(all(), Modules::none()),
    );
    let far = accept_modular_pair(far, Signal::Futex, modules(Modules::none(), all()));
    let ((mut there, mut back), (mut answers, mut requests)) = (near.unwrap(), far.unwrap());
    there.send(b"request", LONG).unwrap();
    assert_eq!(receive(&mut requests), Some(b"request".to_vec()));
    answers.send(b"answer", LONG).unwrap();
    assert_eq!(receive(&mut back), Some(b"answer".to_vec()));
}

/// A user's module: it counts what both ends saw.
struct Counting(Arc<AtomicU32>);

impl Module for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn header_len(&self) -> usize {
        1
    }

    fn write_header(&mut self, record: &[u8], header: &mut [u8]) {
        header[0] = record.len() as u8;
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn skip(&mut self) {}

    fn judge(&mut self, record: &[u8], header: &[u8]) -> Verdict {
        self.0.fetch_add(100, Ordering::Relaxed);
        match header == [record.len() as u8] {
            true => Verdict::Deliver,
            false => Verdict::Impossible,
        }
    }
}

#[test]
fn module_of_a_user_sees_each_record_and_can_refuse_the_peer() {
    let seen = Arc::new(AtomicU32::new(0));
    let modules = || Modules::none().with(Counting(Arc::clone(&seen)));
    let (mut sender, mut receiver) = ends_with(8, modules).unwrap();
    for number in 0..3 {
        sender.send(&message(number, number), LONG).unwrap();
        assert_eq!(receive(&mut receiver), Some(message(number, number)));
    }
    assert_eq!(seen.load(Ordering::Relaxed), 303);
    sender.send(b"four", LONG).unwrap();
    let channel = receiver.channel();
    let (at, _) = channel.geometry().place(3, 0);
    channel.segment().write(at, &[5]);
    let refused = receiver.receive(&mut [0; 9], LONG);
    assert!(
        matches!(refused, Err(ChannelError::Corrupt { .. })),
        "{refused:?}"
    );
}

#[test]
fn names_that_an_opening_cannot_carry_are_refused() {
    struct Named(&'static str);
    impl Module for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn header_len(&self) -> usize {
            0
        }
        fn write_header(&mut self, _: &[u8], _: &mut [u8]) {}
        fn skip(&mut self) {}
        fn judge(&mut self, _: &[u8], _: &[u8]) -> Verdict {
            Verdict::Deliver
        }
    }
    let long = "a-name-that-is-far-too-long-for-an-opening-of-a-channel-with-modules";
    for name in ["", "two words", "a,b", "\u{1b}[31m", long] {
        let refused = ends_with(8, || Modules::none().with(Named(name)));
        assert!(
            matches!(refused, Err(ChannelError::ModuleName(_))),
            "{name}"
        );
    }
}

/// Records of any octets end in messages, in counted losses or in an error, with no more memory than what came.
#[test]
fn records_of_any_octets_are_judged_or_refused() {
    let mut state = 11_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let (mut refused, mut left_out, mut messages) = (0, 0, 0);
    for round in 0..600 {
        let (near, far) = UnixStream::pair().unwrap();
        let geometry = Geometry::new(64, 64).unwrap();
        let words = all().words();
        let [segment] = crate::opening::offer_with(&near, geometry, &words).unwrap();
        let mut channel = ChannelSender::new(segment, geometry, Arc::new(near), Signal::Futex);
        let mut receiver = ModularReceiver::accept(far, Signal::Futex, all()).unwrap();
        for number in 0..8_u32 {
            let len = random() % 40;
            let mut record: Vec<u8> = (0..16 + len).map(|_| random() as u8).collect();
            // Some are nearly right, so that they come further.
            if random() % 4 != 0 {
                let place = if random() % 3 == 0 {
                    [random() % 60, len]
                } else {
                    [0, len]
                };
                record[..4].copy_from_slice(&place[0].to_ne_bytes());
                record[4..8].copy_from_slice(&place[1].to_ne_bytes());
                record[8..12].copy_from_slice(&number.to_ne_bytes());
            }
            if round % 2 == 0 {
                let mut crc = engine::checksum::Crc32c::new();
                crc.update(&record[16..]);
                record[12..16].copy_from_slice(&crc.finish().to_ne_bytes());
            }
            record.truncate(if random() % 8 == 0 {
                random() as usize % 20
            } else {
                record.len()
            });
            channel.send(&record).unwrap();
        }
        drop(channel);
        loop {
            match receiver.receive(&mut [0; 20], LONG) {
                Ok(Receipt::Message(len)) => {
                    assert!(len <= 20 + receiver.rest().len() || receiver.rest().is_empty());
                    messages += 1;
                }
                Ok(Receipt::End) => break,
                Ok(Receipt::Nothing) => panic!("it closed"),
                Err(ChannelError::Corrupt { .. }) => {
                    refused += 1;
                    break;
                }
                Err(other) => panic!("{other}"),
            }
        }
        left_out += receiver.losses().damaged + receiver.losses().incomplete;
    }
    let all = [refused, left_out, messages];
    assert!(all.iter().all(|&count| count > 100), "{all:?}");
}

#[test]
fn record_of_a_plain_look_is_there_before_its_message_is_whole() {
    let (mut sender, mut receiver) = ends_with(8, all).unwrap();
    sender.send(&message(0, 2000), Duration::ZERO).unwrap();
    assert_eq!(receiver.wait_for_record(LONG).unwrap(), Arrival::Message);
    let mut buffer = [0; 10];
    let received = receiver.receive(&mut buffer, Duration::ZERO).unwrap();
    assert_eq!(received, Receipt::Nothing, "the rest has not come");
    assert!(receiver.rest().is_empty());
}
