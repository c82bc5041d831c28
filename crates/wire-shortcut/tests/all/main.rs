//! Two wires of one process: how they meet, what goes through rings, and what becomes of it when a ring
//! ends.

#[path = "../../../../fuzz/src/drawn.rs"]
mod drawn;
mod hostile;
mod support;

use support::{HERE, LIMIT, Pair, address, on, receive_all, receive_one, send, wire};
use wire::Wire;
use wire_shortcut::{MeetingPlace, ShortcutWire};
use wire_udp::UdpWire;

#[test]
fn ends_that_meet_send_through_rings_in_both_directions() {
    let mut pair = Pair::met();
    let batch: Vec<u8> = (0..60_000_u32).map(|at| at as u8).collect();
    for _ in 0..100 {
        send(&mut pair.near, address(&pair.far), &batch, 1472);
        let (octets, arrival) = receive_one(&mut pair.far);
        assert_eq!(octets, batch);
        assert_eq!(arrival.segment_size, 1472);
        assert_eq!(
            arrival.path.remote,
            engine::Address::Socket(address(&pair.near))
        );
        send(&mut pair.far, address(&pair.near), b"got it", 6);
        assert_eq!(receive_one(&mut pair.near).0, b"got it");
    }
    let near = &pair.near.handle().expect("it is on").rings()[0];
    assert!(near.octets_sent >= 99 * 60_000, "{near:?}");
    assert!(near.octets_received >= 99 * 6, "{near:?}");
    assert_eq!(near.spills, 0);
}

#[test]
fn wire_without_a_shortcut_gets_all_packets_by_udp() {
    let mut near = on(MeetingPlace::Namespace);
    let mut far = ShortcutWire::off(wire());
    let handle = near.handle().expect("it is on");
    handle.offer_to(address(&far));
    for _ in 0..20 {
        send(&mut near, address(&far), b"packet", 6);
    }
    let arrived = receive_all(&mut far, |packets| packets.len() >= 21);
    let offers = arrived
        .iter()
        .filter(|one| wire_shortcut::offer::is_marked(one));
    assert_eq!(offers.count(), 1, "the second is due after 100 ms");
    assert!(handle.rings().is_empty());
}

#[test]
fn ends_on_different_hosts_do_not_meet() {
    let mut near = on(MeetingPlace::Namespace);
    let elsewhere = wire_shortcut::BootId::new([9; 16]);
    let mut far = ShortcutWire::on(wire(), MeetingPlace::Namespace, elsewhere).expect("an epoll");
    near.handle().expect("it is on").offer_to(address(&far));
    send(&mut near, address(&far), b"packet", 6);
    assert_eq!(receive_one(&mut far).0, b"packet");
    assert!(far.handle().expect("it is on").rings().is_empty());
}

#[test]
fn ends_meet_by_a_directory_and_leave_no_file() {
    let directory = std::env::temp_dir().join(format!("towpath-rings-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let place = MeetingPlace::Directory(directory.clone());
    let pair = Pair::new(on(place.clone()), on(place)).meet();
    assert_eq!(pair.near.handle().expect("it is on").rings().len(), 1);
    std::fs::remove_dir(&directory).expect("it is empty");
}

#[test]
fn directory_that_is_none_is_refused_by_its_name() {
    let place = MeetingPlace::Directory("/no/such/directory".into());
    let refused = ShortcutWire::on(wire(), place, HERE).expect_err("there is none");
    assert!(
        refused.to_string().contains("/no/such/directory"),
        "{refused}"
    );
}

#[test]
fn both_ends_that_offer_at_once_get_one_ring() {
    let pair = Pair::new(on(MeetingPlace::Namespace), on(MeetingPlace::Namespace));
    let (near, far) = (address(&pair.near), address(&pair.far));
    pair.near.handle().expect("it is on").offer_to(far);
    pair.far.handle().expect("it is on").offer_to(near);
    let pair = pair.meet();
    for end in [&pair.near, &pair.far] {
        assert_eq!(end.handle().expect("it is on").rings().len(), 1);
    }
}

#[test]
fn packets_go_by_udp_after_the_rings_ended_and_arrive() {
    let mut pair = Pair::met();
    send(&mut pair.near, address(&pair.far), b"in the ring", 11);
    assert_eq!(receive_one(&mut pair.far).0, b"in the ring");
    pair.far.handle().expect("it is on").end_rings();
    // The first may be put into the ring that the other end has left.
    for _ in 0..10 {
        send(&mut pair.near, address(&pair.far), b"by udp", 6);
        send(&mut pair.far, address(&pair.near), b"by udp too", 10);
    }
    let arrived = receive_all(&mut pair.far, |packets| packets.len() >= 9);
    assert!(arrived.iter().all(|one| one == b"by udp"));
    let arrived = receive_all(&mut pair.near, |packets| packets.len() >= 9);
    assert!(arrived.iter().all(|one| one == b"by udp too"));
    assert!(pair.near.handle().expect("it is on").rings().is_empty());
}

#[test]
fn ring_that_is_full_holds_nobody_up() {
    let mut pair = Pair::met();
    let batch = vec![7; 60_000];
    // 17 fit into the ring; the kernel's buffer takes the others.
    for _ in 0..30 {
        send(&mut pair.near, address(&pair.far), &batch, 1472);
    }
    let rings = pair.near.handle().expect("it is on").rings();
    assert!(rings[0].spills > 0, "{rings:?}");
    let arrived = receive_all(&mut pair.far, |calls| {
        calls.iter().map(Vec::len).sum::<usize>() >= 30 * 60_000
    });
    assert!(
        arrived
            .iter()
            .all(|one| one.iter().all(|octet| *octet == 7))
    );
}

#[test]
fn waiting_end_is_woken_by_a_ring_by_udp_and_by_the_peers_end() {
    let mut pair = Pair::met();
    let (near, far) = (address(&pair.near), address(&pair.far));
    let stranger = UdpWire::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    let mut stranger = ShortcutWire::off(stranger);
    support::wait_for(&mut pair.far, || send(&mut pair.near, far, b"ring", 4));
    assert_eq!(receive_one(&mut pair.far).0, b"ring");
    support::wait_for(&mut pair.far, || send(&mut stranger, far, b"stranger", 8));
    assert_eq!(receive_one(&mut pair.far).0, b"stranger");
    support::wait_for(&mut pair.far, || drop(pair.near));
    assert!(pair.far.receive(&mut vec![0; 65_536]).is_err());
    assert!(pair.far.handle().expect("it is on").rings().is_empty());
    let _ = near;
}

#[test]
fn receiver_waits_for_rings_and_udp_without_the_wire() {
    let pair = Pair::met();
    let Pair { mut near, far } = pair;
    let to = address(&far);
    let receiver = far.receiver().expect("UDP has one");
    let (asked, go) = std::sync::mpsc::channel();
    let receiving = std::thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        let mut lens = Vec::new();
        asked.send(()).expect("the test waits");
        while lens.len() < 300 {
            match receiver.receive(&mut buffer) {
                Ok(arrival) => lens.push(arrival.len),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        lens
    });
    go.recv_timeout(LIMIT).expect("it starts");
    for len in 1..=300 {
        send(&mut near, to, &vec![1; len], 1472);
        if len % 50 == 0 {
            // Long enough for the other thread to fall asleep now and then.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    let lens = receiving.join().expect("it does not panic");
    assert_eq!(lens, (1..=300).collect::<Vec<_>>());
}
