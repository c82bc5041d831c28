//! A ring of two senders in every order of the three ends that differs in what they read.

use super::{GatherReceiver, GatherSender, Gathered, Places};
use crate::geometry::Geometry;
use crate::kernel;
use crate::sys::Segment;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// The receiver and two senders of a ring of `slots`.
fn ends(slots: u32) -> (GatherReceiver, [GatherSender; 2]) {
    let geometry = Geometry::new(64, slots).unwrap();
    let [first, second, third] = Segment::shared(geometry);
    let receiver = GatherReceiver::new(first, geometry, None);
    let mut number = 0;
    let senders = [second, third].map(|segment| {
        number += 1;
        let (socket, _) = UnixStream::pair().unwrap();
        GatherSender::new(Places { segment, geometry }, socket, number)
    });
    (receiver, senders)
}

fn receive(receiver: &mut GatherReceiver) -> (u32, u8) {
    let mut octet = [0];
    match receiver.receive(&mut octet, LONG).unwrap() {
        Gathered::Message { sender, len: 1 } => (sender, octet[0]),
        other => panic!("{other:?}"),
    }
}

fn model(run: impl Fn() + Sync + Send + 'static) {
    kernel::model(2, run);
}

/// Both messages arrive, each with its sender's number, and a receiver that sleeps is woken.
#[test]
fn claims_of_two_senders_leave_both_messages() {
    model(|| {
        let (mut receiver, [mut first, mut second]) = ends(2);
        let one = loom::thread::spawn(move || assert!(first.send(b"1", LONG).unwrap()));
        let two = loom::thread::spawn(move || assert!(second.send(b"2", LONG).unwrap()));
        let mut got = [receive(&mut receiver), receive(&mut receiver)];
        got.sort_unstable();
        assert_eq!(got, [(1, b'1'), (2, b'2')]);
        one.join().unwrap();
        two.join().unwrap();
    });
}

/// A sender of two messages and one place: it waits for room, and is woken.
#[test]
fn sender_without_room_is_woken() {
    model(|| {
        let (mut receiver, [mut first, _second]) = ends(1);
        let sending = loom::thread::spawn(move || {
            for octet in [b"1", b"2"] {
                assert!(first.send(octet, LONG).unwrap());
            }
        });
        assert_eq!(receive(&mut receiver), (1, b'1'));
        assert_eq!(receive(&mut receiver), (1, b'2'));
        sending.join().unwrap();
    });
}
