//! Emulated links: arrivals, delays, and exact counters.

use crate::common::{TEST_TIMEOUT, socket, up};
use rustix::net::{AddressFamily, SocketType, ipproto};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testbed::Testbed;

/// Silence after which nothing more is expected.
const SILENCE: Duration = Duration::from_millis(300);

/// A socket in each host, and the address of the second.
fn sockets(testbed: &Testbed) -> (UdpSocket, UdpSocket, SocketAddr) {
    let [left, right] = [0, 1].map(|at| socket(&testbed.hosts()[at]));
    let there = right.local_addr().expect("an address");
    (left, right, there)
}

/// Datagrams in flight at most: a receive buffer holds twice as many.
const IN_FLIGHT_MAX: usize = 100;

/// How long the sender waits for those in flight; corrupted ones never arrive.
const IN_FLIGHT_TIMEOUT: Duration = Duration::from_millis(50);

/// Sends `count` numbered datagrams; gives the numbers that arrived, in order. Neither device queue
/// nor receive buffer may overflow: such losses are not the link's.
fn send_numbers(testbed: &Testbed, count: u32) -> Vec<u32> {
    let (left, right, there) = sockets(testbed);
    right.set_read_timeout(Some(SILENCE)).expect("a limit");
    let arrived = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&arrived);
    let receiver = std::thread::spawn(move || {
        let mut seen = Vec::new();
        let mut buffer = [0; 64];
        while let Ok(len) = right.recv(&mut buffer) {
            let number = buffer[..len].try_into().map(u32::from_le_bytes);
            seen.push(number.expect("four octets"));
            counter.store(seen.len(), Ordering::Release);
        }
        seen
    });
    let earlier = testbed.report()[0][0].link.lost;
    let lost = || (testbed.report()[0][0].link.lost - earlier) as usize;
    let mut given_up = 0;
    for number in 0..count {
        left.send_to(&number.to_le_bytes(), there)
            .expect("it is sent");
        if number % 50 == 49 {
            let sent = number as usize + 1;
            given_up = await_room(&lost, &arrived, sent, given_up);
        }
    }
    receiver.join().expect("the receiver ends")
}

/// Waits until few of the `sent` are in flight; gives how many are given up.
fn await_room(
    lost: &dyn Fn() -> usize,
    arrived: &AtomicUsize,
    sent: usize,
    given_up: usize,
) -> usize {
    let end = Instant::now() + IN_FLIGHT_TIMEOUT;
    loop {
        let known = arrived.load(Ordering::Acquire) + lost();
        let gone = known.max(given_up);
        if gone + IN_FLIGHT_MAX >= sent {
            return given_up;
        }
        if Instant::now() > end {
            return sent - IN_FLIGHT_MAX;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn loss_count_equals_missing_datagrams() {
    for link in [
        "loss=5%",
        "loss=5%,burst=6",
        "gilbert=2%:30%:80%:1%,delay=1ms",
        "sockets,loss=5%",
    ] {
        let Some(testbed) = up(link) else {
            return;
        };
        testbed.begin(7);
        let seen = send_numbers(&testbed, 4000);
        let report = testbed.end()[0][0];
        assert_eq!(report.link.offered, 4000, "{link}");
        assert_eq!(report.link.lost, 4000 - seen.len() as u64, "{link}");
        assert!(report.link.lost > 50, "{link}");
        assert_eq!(
            (report.refused, report.overflowed, report.in_flight),
            (0, 0, 0)
        );
    }
}

#[test]
fn same_seed_loses_same_frames() {
    let Some(testbed) = up("loss=10%") else {
        return;
    };
    let run = |seed| {
        testbed.begin(seed);
        let seen = send_numbers(&testbed, 1000);
        testbed.end();
        seen
    };
    let first = run(3);
    assert_eq!(first, run(3));
    assert_ne!(first, run(4));
}

#[test]
fn duplicates_reordering_corruption_counted() {
    let Some(testbed) = up("duplicate=5%,delay=1ms") else {
        return;
    };
    testbed.begin(1);
    let seen = send_numbers(&testbed, 2000);
    let report = testbed.end()[0][0];
    assert_eq!(report.link.duplicated, seen.len() as u64 - 2000);
    assert!(report.link.duplicated > 50);

    let testbed = up("reorder=5%,hold=2ms").expect("as before");
    testbed.begin(1);
    let seen = send_numbers(&testbed, 2000);
    let report = testbed.end()[0][0];
    assert_eq!(seen.len(), 2000);
    assert!(report.link.reordered > 50);
    assert!(!seen.is_sorted());

    let testbed = up("corrupt=5%").expect("as before");
    testbed.begin(1);
    let seen = send_numbers(&testbed, 2000);
    let report = testbed.end()[0][0];
    // Corrupted frames are dropped by a checksum, which notices any single bit; only the source MAC
    // address, 6 octets of 46, has no checksum.
    let missing = 2000 - seen.len() as u64;
    assert!(report.link.corrupted > 50);
    assert!(missing <= report.link.corrupted && missing * 10 > report.link.corrupted * 7);
}

#[test]
fn no_faults_between_measurements() {
    let Some(testbed) = up("loss=50%") else {
        return;
    };
    assert_eq!(send_numbers(&testbed, 500).len(), 500);
    testbed.begin(1);
    assert!(send_numbers(&testbed, 500).len() < 400);
    testbed.end();
    assert_eq!(send_numbers(&testbed, 500).len(), 500);
}

#[test]
fn rtt_and_train_match_delay_and_rate() {
    let Some(testbed) = up("rate=10mbit/20mbit,delay=4ms/2ms") else {
        return;
    };
    let (left, right, there) = sockets(&testbed);
    let mut buffer = [0; 2048];
    let mut least = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        left.send_to(&[0; 8], there).expect("it is sent");
        let (len, from) = right.recv_from(&mut buffer).expect("it arrives");
        right.send_to(&buffer[..len], from).expect("it is sent");
        left.recv(&mut buffer).expect("it comes back");
        least = least.min(began.elapsed());
    }
    // No packet is early: 4 + 2 ms, and a frame of 50 octets at each rate.
    assert!(least >= Duration::from_micros(6000 + 40 + 20), "{least:?}");
    let began = Instant::now();
    for _ in 0..20 {
        left.send_to(&[0; 1208], there).expect("it is sent");
    }
    for _ in 0..20 {
        right.recv(&mut buffer).expect("it arrives");
    }
    // 20 frames of 1250 octets take 20 ms at 10 Mbit/s, and 4 ms to arrive.
    assert!(began.elapsed() >= Duration::from_millis(24));
}

#[test]
fn queue_limit_enforced() {
    let Some(testbed) = up("rate=1mbit,queue=10kB") else {
        return;
    };
    testbed.begin(1);
    let (left, right, there) = sockets(&testbed);
    for _ in 0..30 {
        left.send_to(&[0; 958], there).expect("it is sent");
    }
    right.set_read_timeout(Some(SILENCE)).expect("a limit");
    let mut buffer = [0; 2048];
    let arrived = std::iter::from_fn(|| right.recv(&mut buffer).ok()).count() as u64;
    let report = testbed.end()[0][0];
    assert_eq!(report.link.dropped, 30 - arrived);
    // Ten frames of 1000 octets are queued; one or two leave while the others are being sent.
    assert!((10..=13).contains(&arrived), "{arrived}");
}

#[test]
fn queues_of_every_kind_of_link_are_recorded() {
    // 20 frames of 1000 octets take 160 ms at 1 Mbit/s, and 17 ms on the Ethernet.
    for link in ["rate=1mbit", "kernel,rate=1mbit,queue=50kB", "ether10"] {
        let Some(testbed) = up(link) else {
            return;
        };
        let begun = testbed.record_queues(1_000_000);
        assert_eq!(begun, Ok(()), "{link}");
        testbed.begin(1);
        let (left, right, there) = sockets(&testbed);
        for _ in 0..20 {
            left.send_to(&[0; 958], there).expect("it is sent");
        }
        let mut buffer = [0; 2048];
        for _ in 0..20 {
            right.recv(&mut buffer).expect("it arrives");
        }
        testbed.end();
        let [forward, back] = testbed.take_queues();
        let most = forward.iter().map(|point| point.1).max();
        // Frames on the Ethernet have a checksum of 4 octets.
        let wanted = 1000..=20 * 1004;
        assert!(
            most.is_some_and(|most| wanted.contains(&most)),
            "{link}: {forward:?}"
        );
        assert!(
            forward.is_sorted_by_key(|point| point.0),
            "{link}: {forward:?}"
        );
        assert!(
            !back.is_empty() && back.iter().all(|point| point.1 == 0),
            "{link}: {back:?}"
        );
        assert_eq!(
            testbed.take_queues(),
            [Vec::new(), Vec::new()],
            "{link}: taken"
        );
    }
    for link in ["delay=1ms", "kernel"] {
        let testbed = up(link).expect("as before");
        let why = testbed.record_queues(1_000_000).expect_err(link);
        assert!(why.contains("no rate"), "{link}: {why}");
    }
}

#[test]
fn schedule_cuts_and_restores_link() {
    let Some(testbed) = up("delay=1ms;100ms:cut;300ms:up") else {
        return;
    };
    testbed.begin(1);
    let (left, right, there) = sockets(&testbed);
    let began = Instant::now();
    let mut sent = 0u64;
    while began.elapsed() < Duration::from_millis(400) {
        left.send_to(&[0; 4], there).expect("it is sent");
        sent += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    right.set_read_timeout(Some(SILENCE)).expect("a limit");
    let mut buffer = [0; 64];
    let arrived = std::iter::from_fn(|| right.recv(&mut buffer).ok()).count() as u64;
    let report = testbed.end()[0][0];
    assert!(report.link.cut > 0 && arrived > 0);
    assert_eq!(report.link.cut, sent - arrived);
}

#[test]
fn ether_serialises_frames_and_counts_collisions() {
    let Some(testbed) = up("ether10") else {
        return;
    };
    testbed.begin(1);
    let (left, right, there) = sockets(&testbed);
    let back = left.local_addr().expect("an address");
    let mut buffer = [0; 2048];
    let began = Instant::now();
    // Both send at once, to collide.
    for _ in 0..20 {
        left.send_to(&[0; 1000], there).expect("it is sent");
        right.send_to(&[0; 1000], back).expect("it is sent");
    }
    for socket in [&left, &right] {
        for _ in 0..20 {
            socket.recv(&mut buffer).expect("it arrives");
        }
    }
    // 40 frames of 1046 octets and 8 of preamble take 33.7 ms.
    assert!(began.elapsed() >= Duration::from_micros(33_700));
    let reports = testbed.end().remove(0);
    assert_eq!(reports.len(), 1);
    assert_eq!(
        (reports[0].link.offered, reports[0].link.delivered),
        (40, 40)
    );
    assert!(reports[0].collisions > 0);
}

#[test]
fn membership_reports_pass_beside_the_link() {
    // Whatever else is offered is lost.
    let Some(testbed) = up("rate=1mbit,loss=100%") else {
        return;
    };
    let [joining, listening] = [0, 1].map(|at| &testbed.hosts()[at]);
    let (from, all_routers) = (listening.address(), Ipv4Addr::new(224, 0, 0, 22));
    let receiver = listening.run(move || {
        let igmp = Some(ipproto::IGMP);
        let raw = rustix::net::socket(AddressFamily::INET, SocketType::RAW, igmp)?;
        let raw = UdpSocket::from(raw);
        let IpAddr::V4(from) = from else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        raw.join_multicast_v4(&all_routers, &from)?;
        raw.set_read_timeout(Some(TEST_TIMEOUT))?;
        Ok::<_, std::io::Error>(raw)
    });
    let receiver = receiver.expect("the host lives").expect("it listens");
    testbed.begin(1);
    let group = Ipv4Addr::new(239, 7, 8, 9);
    let member = socket(joining);
    let joined = joining.run({
        let member = member.try_clone().expect("a second descriptor");
        move || member.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED)
    });
    joined.expect("the host lives").expect("it joins");
    let mut packet = [0; 1500];
    loop {
        let len = receiver.recv(&mut packet).expect("the report arrives");
        if packet[..len]
            .windows(4)
            .any(|octets| octets == group.octets())
        {
            break;
        }
    }
    let offered: Vec<u64> = testbed.end()[0]
        .iter()
        .map(|way| way.link.offered)
        .collect();
    assert_eq!(offered, [0, 0]);
}
