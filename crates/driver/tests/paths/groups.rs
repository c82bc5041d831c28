//! Groups joined and left while hosts run.

use crate::postman::Postman;
use crate::{LIMIT, until};
use driver::{Endpoint, RouterHost};
use engine::{Address, Path};
use engine_bare::{Bare, BareConfig};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use wire_udp::UdpWire;

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A sender, and a group at a port that is this test's own.
fn sender(group: [u8; 4]) -> (UdpSocket, SocketAddr) {
    let sender = UdpSocket::bind(loopback()).expect("a port");
    let port = sender.local_addr().expect("bound").port();
    wire_udp::multicast::set_interface(std::os::fd::AsFd::as_fd(&sender), loopback().ip())
        .expect("the loopback carries groups");
    (sender, SocketAddr::from((group, port)))
}

#[test]
fn running_host_joins_and_leaves() {
    let (sender, group) = sender([239, 8, 21, 1]);
    let wire = UdpWire::bind(loopback()).expect("a port");
    let own = wire.local_addr().expect("bound");
    let host = RouterHost::new(Postman::default(), wire).expect("a thread");
    let heard = |count: usize| {
        until(|| {
            host.with_router(|engine| {
                let received = &engine.received;
                (received.len() >= count).then(|| received[count - 1].2.clone())
            })
        })
    };
    // The thread is in its poll of the first descriptor by the time this has come.
    sender.send_to(b"one", own).expect("sent");
    assert_eq!(heard(1), b"one");
    let name = Address::Socket(group);
    host.join(name).expect("the loopback carries groups");
    let again = host.join(name).expect_err("it is in it");
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    sender.send_to(b"two", group).expect("sent");
    assert_eq!(heard(2), b"two");
    host.leave(name).expect("it was in it");
    let again = host.leave(name).expect_err("it is out of it");
    assert_eq!(again.kind(), ErrorKind::NotFound);
    sender.send_to(b"lost", group).expect("sent");
    // The loopback keeps order: had the host heard it, it would have come before this.
    sender.send_to(b"three", own).expect("sent");
    assert_eq!(heard(3), b"three");
    host.join(name).expect("it left");
    sender.send_to(b"four", group).expect("sent");
    assert_eq!(heard(4), b"four");
    let received = host.with_router(|engine| engine.received.clone());
    let from = Address::Socket(sender.local_addr().expect("bound"));
    assert!(received.iter().all(|(path, ..)| *path == Path::to(from)));
}

/// A peer asks a group for an association that it calls `token`.
fn send_open(sender: &UdpSocket, group: SocketAddr, token: u64) {
    let open = engine_bare::pdu::BareHeader {
        packet_type: engine_bare::pdu::PacketType::Open,
        receiver_id: 0,
        position: token,
        acknowledged: 0,
    };
    sender.send_to(&open.emit(), group).expect("sent");
}

/// Packets for the group wake a user who was waiting on the unicast socket before it was joined.
#[test]
fn group_joined_during_a_wait_reaches_the_waiting_user() {
    let (sender, group) = sender([239, 8, 21, 2]);
    let mut wire = UdpWire::bind(loopback()).expect("a port");
    // Nothing but an arrival, or an interrupt, ends its waits.
    wire.set_max_wait(None).expect("a socket");
    let config = BareConfig::default();
    let endpoint = Endpoint::new(Bare::new(config), wire, 1 << 16).expect("a helper");
    endpoint.listen(true);
    let waiting = endpoint.clone();
    let waiter = std::thread::spawn(move || waiting.accept(LIMIT).map(|circuit| circuit.peer()));
    std::thread::sleep(Duration::from_millis(20));
    endpoint
        .join(Address::Socket(group))
        .expect("it carries groups");
    send_open(&sender, group, 77);
    let peer = waiter
        .join()
        .expect("no panic")
        .expect("the group was heard");
    assert_eq!(peer, Address::Socket(sender.local_addr().expect("bound")));
}

#[test]
fn watch_made_before_the_first_group_reports_it() {
    let (sender, group) = sender([239, 8, 21, 3]);
    let wire = UdpWire::bind(loopback()).expect("a port");
    let endpoint =
        Endpoint::new(Bare::new(BareConfig::default()), wire, 1 << 16).expect("a helper");
    endpoint.listen(true);
    let mut watch = endpoint.watch().expect("a real wire");
    watch.prepare_wait().expect("nothing to send");
    endpoint
        .join(Address::Socket(group))
        .expect("it carries groups");
    send_open(&sender, group, 78);
    until(|| {
        let limit = watch
            .prepare_wait()
            .expect("the wire lives")
            .unwrap_or(LIMIT);
        let limit = rustix::event::Timespec {
            tv_sec: limit.min(LIMIT).as_secs() as i64,
            tv_nsec: 0,
        };
        let descriptor = watch.descriptor();
        let mut ready = [rustix::event::PollFd::new(
            &descriptor,
            rustix::event::PollFlags::IN,
        )];
        let count = rustix::event::poll(&mut ready, Some(&limit)).expect("a poll");
        assert!(
            count > 0,
            "the watch does not say that the group has a packet"
        );
        watch
            .poll_ready(&mut Vec::new())
            .expect("the wire lives")
            .then_some(())
    });
}
