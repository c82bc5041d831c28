//! Errors of paths on real sockets: counted, told to the engine, and no end of the endpoint.

use crate::postman::Postman;
use driver::{Endpoint, RouterHost};
use engine::{Address, LocalAddress, Path, PathError};
use engine_bare::{Bare, BareConfig};
use rustix::io::Errno;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wire_udp::UdpWire;

/// Longest wait of any test.
const LIMIT: Duration = Duration::from_secs(10);

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn path(socket: SocketAddr) -> Path {
    Path::to(Address::Socket(socket))
}

type Host = RouterHost<Postman, UdpWire>;

fn host() -> Host {
    let wire = UdpWire::bind(loopback()).expect("a port");
    RouterHost::new(Postman::default(), wire).expect("a thread")
}

fn send(host: &Host, path: Path, octets: &[u8]) {
    let sent = host.command(|engine, _| engine.outgoing.push_back((path, octets.to_vec())));
    sent.expect("an error of a path is none of the endpoint");
}

/// Waits until the engine heard of `count` faults.
fn faults(host: &Host, count: usize) -> Vec<(Path, PathError)> {
    let end = Instant::now() + LIMIT;
    loop {
        let faults = host.with_router(|engine| engine.faults.clone());
        if faults.len() >= count {
            return faults;
        }
        assert!(Instant::now() < end, "{faults:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn errors_of_sending_are_lost_packets_and_others_are_served() {
    let host = host();
    let good = UdpSocket::bind(loopback()).expect("a port");
    good.set_read_timeout(Some(LIMIT)).expect("a limit");
    let to_good = path(good.local_addr().expect("bound"));
    let other_local = Path {
        local: LocalAddress(1),
        ..to_good
    };
    let bad = [
        (path(loopback()), vec![1], Errno::INVAL),
        (to_good, vec![2; 65_508], Errno::MSGSIZE),
        (Path::to(Address::Station(4)), vec![3], Errno::INVAL),
        (other_local, vec![4], Errno::ADDRNOTAVAIL),
    ];
    let mut expected = Vec::new();
    for (path, octets, errno) in bad {
        send(&host, path, &octets);
        expected.push((path, PathError::Local(errno.raw_os_error())));
        send(&host, to_good, b"still here");
        let mut buffer = [0; 100];
        let len = good.recv(&mut buffer).expect("the others are served");
        assert_eq!(&buffer[..len], b"still here");
    }
    assert_eq!(faults(&host, 4), expected);
    let errors = host.path_errors();
    assert_eq!(errors.packets_lost, 4);
    assert_eq!(errors.by_errno[&Errno::INVAL.raw_os_error()], 2);
    assert_eq!(errors.by_errno[&Errno::MSGSIZE.raw_os_error()], 1);
}

#[test]
fn engine_answers_a_fault_by_another_path_at_once() {
    let host = host();
    let good = UdpSocket::bind(loopback()).expect("a port");
    good.set_read_timeout(Some(LIMIT)).expect("a limit");
    let detour = path(good.local_addr().expect("bound"));
    let sent = host.command(|engine, _| {
        engine.detour = Some(detour);
        engine.outgoing.push_back((path(loopback()), vec![1]));
    });
    sent.expect("an error of a path is none of the endpoint");
    let mut buffer = [0; 100];
    let len = good.recv(&mut buffer).expect("it takes the detour");
    assert_eq!(&buffer[..len], b"by another path");
}

#[test]
fn engine_whose_answers_fail_too_is_not_asked_without_end() {
    let host = host();
    let sent = host.command(|engine, _| {
        engine.detour = Some(path(loopback()));
        engine.outgoing.push_back((path(loopback()), vec![1]));
    });
    sent.expect("an error of a path is none of the endpoint");
    assert_eq!(host.with_router(|engine| engine.faults.len()), 1);
    assert_eq!(host.path_errors().packets_lost, 2);
}

/// Who connects where nothing can be sent hears why at once; a later call is not misled by it.
#[test]
fn connecting_user_gets_the_error_of_the_path() {
    let endpoint = || {
        let wire = UdpWire::bind(loopback()).expect("a port");
        let engine = Bare::new(BareConfig::default());
        let own = wire.local_addr().expect("bound");
        (Endpoint::new(engine, wire, 1 << 16).expect("a helper"), own)
    };
    let ((near, _), (far, far_own)) = (endpoint(), endpoint());
    far.listen(true);
    for (to, errno) in [
        (Address::Socket(loopback()), Some(Errno::INVAL)),
        (Address::Station(3), None),
    ] {
        let error = near
            .connect(to, LIMIT)
            .map(|_| ())
            .expect_err("no way there");
        assert_eq!(
            error.raw_os_error(),
            errno.map(Errno::raw_os_error),
            "{error}"
        );
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        near.connect(Address::Socket(far_own), LIMIT)
            .expect("there is a way there");
    }
    assert!(near.path_errors().packets_lost >= 2);
}

/// A socket of the loopback that a test carries packets through.
fn bridge_end() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(loopback()).expect("a port");
    let limit = Some(Duration::from_millis(20));
    socket.set_read_timeout(limit).expect("a limit");
    let own = socket.local_addr().expect("bound");
    (socket, own)
}

/// Carries packets from one connected socket to another until `done`.
fn carry(from: &UdpSocket, to: &UdpSocket, done: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    let mut buffer = [0; 2000];
    while !done() {
        assert!(Instant::now() < end, "nothing came of it");
        if let Ok(len) = from.recv(&mut buffer) {
            to.send(&buffer[..len]).expect("somebody is there");
        }
    }
}

/// A user who waits without limit goes on waiting when a packet he sent earlier was refused.
#[test]
fn receive_without_limit_outlives_a_refused_packet() {
    let ((near_side, to_near), (far_side, to_far)) = (bridge_end(), bridge_end());
    let endpoint = |peer| {
        let mut wire = UdpWire::bind(loopback()).expect("a port");
        wire.connect(peer).expect("nobody is asked");
        wire.set_max_wait(None).expect("an option of every socket");
        let own = wire.local_addr().expect("bound");
        let engine = Bare::new(BareConfig::default());
        (Endpoint::new(engine, wire, 1 << 16).expect("a helper"), own)
    };
    let ((near, near_own), (far, far_own)) = (endpoint(to_near), endpoint(to_far));
    near_side.connect(near_own).expect("nobody is asked");
    far_side.connect(far_own).expect("nobody is asked");
    far.listen(true);
    let (mut circuit, mut other) = std::thread::scope(|scope| {
        let connecting = scope.spawn(|| near.connect(Address::Socket(to_near), LIMIT));
        let accepting = scope.spawn(|| far.accept(LIMIT));
        carry(&near_side, &far_side, || accepting.is_finished());
        carry(&far_side, &near_side, || connecting.is_finished());
        let connected = connecting.join().expect("no panic").expect("it opens");
        let accepted = accepting.join().expect("no panic").expect("it came");
        (connected, accepted)
    });
    // Connected elsewhere, this socket takes nothing from the near end, and the kernel says so.
    near_side.connect(far_own).expect("nobody is asked");
    let sent = circuit.send(b"lost", Duration::MAX);
    sent.expect("a lost packet is no error");
    let receiving = std::thread::spawn(move || {
        let mut buffer = [0; 100];
        let len = circuit.recv(&mut buffer, Duration::MAX)?;
        Ok::<_, std::io::Error>(len.map(|len| buffer[..len].to_vec()))
    });
    let refused = || !near.path_errors().by_errno.is_empty();
    carry(&near_side, &near_side, refused);
    near_side.connect(near_own).expect("nobody is asked");
    other.try_send(b"news").expect("room");
    carry(&far_side, &near_side, || receiving.is_finished());
    let received = receiving.join().expect("no panic");
    assert_eq!(received.expect("it waited").as_deref(), Some(&b"news"[..]));
}

#[test]
fn refused_peer_of_a_connected_wire_is_unreachable() {
    let gone = UdpSocket::bind(loopback()).expect("a port");
    let peer = gone.local_addr().expect("bound");
    drop(gone);
    let wire = UdpWire::bind(loopback()).expect("a port");
    wire.connect(peer).expect("nobody is asked");
    let host = RouterHost::new(Postman::default(), wire).expect("a thread");
    send(&host, path(peer), b"anybody?");
    assert_eq!(faults(&host, 1)[0], (path(peer), PathError::Unreachable));
    let errno = Errno::CONNREFUSED.raw_os_error();
    assert!(host.path_errors().by_errno[&errno] >= 1);
}
