//! Drivers of STREAMS that make their packets themselves, over raw IP. Without the right to raw sockets: SKIPPED.

use std::io::{ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use towpath::xti_carrier;
use wire::Wire;
use wire_ip::IpWire;
use xti::datagrams::DatagramCarrier;
use xti::{StreamOptions, TliError, XtiEndpoint, XtiState, inet};

const LIMIT: Duration = Duration::from_secs(20);

/// How long a test waits for what must not come.
const QUIET: Duration = Duration::from_millis(20);

type Driver = fn() -> Box<dyn DatagramCarrier>;

const DRIVERS: [Driver; 2] = [xti_carrier::udp, xti_carrier::rawip];

/// An endpoint at an address, and the address with its port; None, with a SKIPPED line, without the right.
fn bound(driver: Driver, host: &str) -> Option<(XtiEndpoint, SocketAddr)> {
    bound_with(driver, host, false)
}

/// The same; with `headroom` its headers go in front of the octets of its user.
fn bound_with(driver: Driver, host: &str, headroom: bool) -> Option<(XtiEndpoint, SocketAddr)> {
    let options = StreamOptions {
        headroom,
        ..StreamOptions::default()
    };
    let end = XtiEndpoint::open_datagrams(driver(), options).expect("it opens");
    let host: IpAddr = host.parse().expect("an address");
    match end.bind(&inet::encode(SocketAddr::new(host, 0)), 0) {
        Ok(bound) => Some((end, inet::decode(&bound.address).expect("an address"))),
        Err(error) if error.tli == TliError::Access => {
            eprintln!("SKIPPED: no right to raw sockets");
            None
        }
        // This host has no IPv6.
        Err(error) if host.is_ipv6() && error.tli == TliError::NoAddress => {
            eprintln!("SKIPPED: no IPv6");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn receive(end: &XtiEndpoint) -> (Vec<u8>, SocketAddr) {
    let (mut buffer, mut source) = (vec![0; 70_000], Vec::new());
    let received = end.receive_datagram(&mut buffer, &mut source, LIMIT);
    buffer.truncate(received.expect("a datagram").len);
    (buffer, inet::decode(&source).expect("a source"))
}

fn comes_nothing(end: &XtiEndpoint) -> bool {
    let received = end.receive_datagram(&mut [0; 9], &mut Vec::new(), QUIET);
    received.is_err_and(|error| error.tli == TliError::NoData)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + len) as u8).collect()
}

#[test]
fn datagrams_of_every_length_arrive_in_order_with_their_source() {
    for driver in DRIVERS {
        for (host, headroom) in [
            ("127.0.0.1", false),
            ("127.0.0.1", true),
            ("::1", false),
            ("::1", true),
        ] {
            let ends = bound_with(driver, host, headroom).zip(bound(driver, host));
            let Some(((a, at_a), (b, at_b))) = ends else {
                continue;
            };
            let longest = a.information().tsdu as usize;
            for len in [0, 1, 2, 63, 1400, 40_000, longest] {
                a.send_datagram(&inet::encode(at_b), &pattern(len), LIMIT)
                    .expect("it is taken");
                assert_eq!(receive(&b), (pattern(len), at_a), "{len}");
            }
            b.send_datagram(&inet::encode(at_a), b"back", LIMIT)
                .expect("it is taken");
            assert_eq!(receive(&a), (b"back".to_vec(), at_b));
            let long = a.try_send_datagram(&inet::encode(at_b), &vec![0; longest + 1]);
            assert_eq!(long.map_err(|error| error.tli), Err(TliError::BadData));
            assert_eq!((a.malformed_datagrams(), b.malformed_datagrams()), (0, 0));
        }
    }
}

#[test]
fn queued_datagrams_leave_many_a_system_call_whatever_their_lengths_and_destinations() {
    for driver in DRIVERS {
        let host = "127.0.0.1";
        let ends = bound(driver, host)
            .zip(bound(driver, host))
            .zip(bound(driver, host));
        let Some((((a, _), (b, at_b)), (c, at_c))) = ends else {
            return;
        };
        let rounds = [
            (at_b, 8, 30),
            (at_c, 8, 3),
            (at_b, 9, 1),
            (at_b, 700, 2),
            (at_c, 0, 2),
        ];
        let before = a.kernel_sends();
        for (to, len, count) in rounds {
            for number in 0..count {
                let octets = pattern(len + number * len.min(1));
                a.send_datagram(&inet::encode(to), &octets[..len], LIMIT)
                    .expect("it is taken");
            }
        }
        a.flush(LIMIT).expect("all leaves");
        for (at, end) in [(at_b, &b), (at_c, &c)] {
            for (_, len, count) in rounds.into_iter().filter(|(to, ..)| *to == at) {
                for number in 0..count {
                    let wanted = pattern(len + number * len.min(1));
                    assert_eq!(receive(end).0, wanted[..len]);
                }
            }
        }
        // 38 datagrams; the helper thread may have sent some before the others were queued.
        assert!(a.kernel_sends() - before < 30, "{} calls", a.kernel_sends());
    }
}

#[test]
fn udp_of_the_driver_and_of_the_kernel_understand_each_other() {
    for host in ["127.0.0.1", "::1"] {
        let Some((end, address)) = bound(xti_carrier::udp, host) else {
            continue;
        };
        let socket = UdpSocket::bind((host, 0)).expect("a socket");
        socket.set_read_timeout(Some(LIMIT)).expect("a limit");
        let own = socket.local_addr().expect("an address");
        for len in [0, 1, 1400, 20_001] {
            socket.send_to(&pattern(len), address).expect("it is sent");
            assert_eq!(
                receive(&end),
                (pattern(len), own),
                "{len} octets of the kernel"
            );
            end.send_datagram(&inet::encode(own), &pattern(len), LIMIT)
                .expect("it is taken");
            let mut buffer = vec![0; 30_000];
            let (got, from) = socket.recv_from(&mut buffer).expect("a datagram");
            assert_eq!((&buffer[..got], from), (&pattern(len)[..], address));
        }
        assert_eq!(end.malformed_datagrams(), 0);
    }
}

#[test]
fn port_of_the_driver_is_its_own_and_open_to_the_kernel() {
    let Some((end, address)) = bound(xti_carrier::udp, "127.0.0.1") else {
        return;
    };
    let second = UdpSocket::bind(address).map(drop);
    assert_eq!(
        second.map_err(|error| error.kind()),
        Err(ErrorKind::AddrInUse)
    );
    // A closed port would refuse the second datagram of a connected socket.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(address).expect("a peer");
    for octets in [&b"first"[..], b"second", b"third"] {
        socket.send(octets).expect("nobody refuses it");
        assert_eq!(receive(&end).0, octets);
    }
    end.unbind().expect("it is idle");
    assert_eq!(end.state(), XtiState::Unbound);
    UdpSocket::bind(address).expect("the port is free again");
}

#[test]
fn packets_that_are_no_datagrams_are_counted_and_dropped() {
    let Some((end, address)) = bound(xti_carrier::udp, "127.0.0.1") else {
        return;
    };
    let mut wire = IpWire::bind("127.0.0.1".parse().expect("an address"), 17).expect("the right");
    let mut send = |packet: &[u8]| {
        let path = engine::Path::to(engine::Address::Socket(address));
        let slices = [IoSlice::new(packet)];
        wire.send(path, &slices, packet.len()).expect("it is sent");
    };
    let [high, low] = address.port().to_be_bytes();
    let header = |len: u8, check: u8| [1, 2, high, low, 0, len, check, check];
    send(&header(9, 7)); // Longer than the packet.
    send(&header(7, 7)); // Shorter than the header.
    send(&[&header(10, 7)[..], b"xy"].concat()); // A wrong sum.
    send(&[1, 2, high, low, 0]); // A part of a header.
    send(&[1, 2, high, !low, 0, 8, 0, 0]); // Another port: not even counted.
    send(&[&header(10, 0)[..], b"ok"].concat()); // No checksum.
    assert_eq!(receive(&end).0, b"ok");
    assert_eq!(end.malformed_datagrams(), 4);
    assert!(comes_nothing(&end));
}

#[test]
fn what_cannot_be_bound_or_sent_is_refused_with_its_number() {
    let Some((end, address)) = bound(xti_carrier::udp, "127.0.0.1") else {
        return;
    };
    for (at, wanted) in [
        ("0.0.0.0:0", TliError::NoAddress),
        ("239.1.1.1:0", TliError::NoAddress),
        (&address.to_string(), TliError::AddressBusy),
    ] {
        let other = XtiEndpoint::open_datagrams(xti_carrier::udp(), StreamOptions::default());
        let at = inet::encode(at.parse().expect("an address"));
        let refused = other.expect("it opens").bind(&at, 0).map(drop);
        assert_eq!(refused.map_err(|error| error.tli), Err(wanted));
    }
    let other_family = inet::encode("[::1]:9".parse().expect("an address"));
    end.send_datagram(&other_family, b"lost", LIMIT)
        .expect("it is queued");
    let deadline = Instant::now() + LIMIT;
    let failure = loop {
        end.run();
        match end.receive_datagram_error() {
            Ok(failure) => break failure,
            Err(_) => assert!(Instant::now() < deadline, "no T_UDERR"),
        }
    };
    assert_eq!(
        (failure.destination, failure.errno),
        (other_family, libc::EAFNOSUPPORT)
    );
}
