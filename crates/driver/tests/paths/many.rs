//! Several local addresses: wires joined to one.

use crate::postman::Postman;
use crate::until;
use driver::RouterHost;
use engine::{Address, LocalAddress, Path, PathError};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use wire::{Many, Wire};
use wire_udp::UdpWire;

fn at(last: u8) -> SocketAddr {
    SocketAddr::from(([127, 8, 30, last], 0))
}

fn bind(last: u8) -> UdpWire {
    UdpWire::bind(at(last)).expect("a port")
}

fn path(local: u16, remote: SocketAddr) -> Path {
    Path {
        local: LocalAddress(local),
        remote: Address::Socket(remote),
    }
}

/// A host with two addresses, and these.
fn host(addresses: [u8; 2]) -> (RouterHost<Postman, Many<UdpWire>>, [SocketAddr; 2]) {
    let wires = addresses.map(bind);
    let own = wires
        .each_ref()
        .map(|wire| wire.local_addr().expect("bound"));
    let many = Many::new(wires.into()).expect("two wires");
    let host = RouterHost::new(Postman::default(), many).expect("a thread");
    (host, own)
}

#[test]
fn paths_leave_from_their_address_and_arrivals_say_by_which_they_came() {
    let (near, near_own) = host([1, 2]);
    let (far, far_own) = host([3, 4]);
    for round in 0..3u8 {
        for (local, remote) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let path = path(local, far_own[remote]);
            let sent = near.command(|engine, _| engine.outgoing.push_back((path, vec![round])));
            sent.expect("room");
        }
    }
    let received = until(|| {
        far.with_router(|engine| (engine.received.len() == 12).then(|| engine.received.clone()))
    });
    let came: BTreeSet<Path> = received.iter().map(|(path, ..)| *path).collect();
    let all = [(0, 0), (0, 1), (1, 0), (1, 1)];
    let expected = all.map(|(local, remote)| path(local, near_own[remote]));
    assert_eq!(came, BTreeSet::from(expected));
}

#[test]
fn path_that_fails_is_named_and_the_other_carries_on() {
    let (near, _) = host([5, 6]);
    let (far, far_own) = host([7, 8]);
    let nowhere = SocketAddr::new(far_own[0].ip(), 0);
    let detour = path(1, far_own[1]);
    let sent = near.command(|engine, _| {
        engine.detour = Some(detour);
        engine.outgoing.push_back((path(0, nowhere), vec![1]));
        engine.outgoing.push_back((path(2, far_own[0]), vec![2]));
    });
    sent.expect("an error of a path is none of the endpoint");
    let faults = near.with_router(|engine| engine.faults.clone());
    let local = |errno: Errno| PathError::Local(errno.raw_os_error());
    assert_eq!(
        faults,
        [
            (path(0, nowhere), local(Errno::INVAL)),
            (path(2, far_own[0]), local(Errno::ADDRNOTAVAIL)),
        ]
    );
    let received = until(|| {
        far.with_router(|engine| (engine.received.len() == 2).then(|| engine.received.clone()))
    });
    assert!(
        received
            .iter()
            .all(|(path, ..)| path.local == LocalAddress(1))
    );
}

#[test]
fn busy_wire_does_not_keep_the_other_from_being_heard() {
    let mut many = Many::new(vec![bind(9), bind(10)]).expect("two wires");
    let own: Vec<SocketAddr> = many
        .wires()
        .map(|wire| wire.local_addr().expect("bound"))
        .collect();
    let sender = UdpSocket::bind(at(11)).expect("a port");
    for _ in 0..100 {
        sender.send_to(b"busy", own[0]).expect("sent");
    }
    sender.send_to(b"rare", own[1]).expect("sent");
    let mut buffer = vec![0; many.capabilities().receive_len];
    let mut before = 0;
    loop {
        let arrival = many.receive(&mut buffer).expect("all have come");
        if arrival.path.local == LocalAddress(1) {
            break;
        }
        before += 1;
    }
    assert!(
        before <= 32,
        "{before} arrivals of the busy wire came first"
    );
}

#[test]
fn group_is_joined_at_every_address() {
    let sender = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let fd = std::os::fd::AsFd::as_fd(&sender);
    let local = std::net::IpAddr::from([127, 0, 0, 1]);
    wire_udp::multicast::set_interface(fd, local).expect("the loopback carries groups");
    let port = sender.local_addr().expect("bound").port();
    let group = SocketAddr::from(([239, 8, 21, 4], port));
    let wires = vec![bind(12), bind(13)];
    let many = Many::new(wires).expect("two wires");
    let host = RouterHost::new(Postman::default(), many).expect("a thread");
    host.join(Address::Socket(group))
        .expect("it carries groups");
    sender.send_to(b"all", group).expect("sent");
    let received = until(|| {
        host.with_router(|engine| (engine.received.len() == 2).then(|| engine.received.clone()))
    });
    let locals: BTreeSet<u16> = received.iter().map(|(path, ..)| path.local.0).collect();
    assert_eq!(locals, BTreeSet::from([0, 1]), "both are on the loopback");
}
