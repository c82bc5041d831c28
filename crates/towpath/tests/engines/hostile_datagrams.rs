//! Datagrams as strangers send them, for everything that listens: no octets, few, as many as fit, and
//! changed packets of each kind, half of them with length and checksum corrected, and packets from
//! port 0, which nobody can answer.

use engine::{SplitMix64, checksum};
use engine_xtp::pdu::{
    AddressSegment, Body, CHECK_AT, CommonControl, Diag, DiagCode, DiagValue, Endpoints,
    HEADER_LEN, Header, Options, Packet, RTN, Service, SyncNumber, TrafficSpec,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use towpath::xtp::router::{Router, UdpRouterConfig};

/// Datagrams to each target.
const DATAGRAMS: u64 = 3000;

/// Sends datagrams of the host `from` to all `targets`, in portions that their receive buffers hold.
pub(crate) fn bombard(from: Ipv4Addr, targets: &[SocketAddr], seed: u64) {
    let socket = UdpSocket::bind((from, 0)).expect("a free port");
    let packets = packets();
    let mut random = SplitMix64::new(seed);
    targets
        .iter()
        .for_each(|to| send_from_port_0(from, *to, &packets));
    for number in 0..DATAGRAMS {
        let octets = datagram(&mut random, &packets);
        for to in targets {
            // An answer to an earlier one may have been refused.
            let _ = socket.send_to(&octets, to);
        }
        if number % 20 == 0 {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// Sends each packet from UDP port 0, for which root's raw sockets are needed.
fn send_from_port_0(from: Ipv4Addr, to: SocketAddr, packets: &[Vec<u8>]) {
    let Ok(raw) = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)) else {
        eprintln!("SKIPPED: datagrams from port 0 need the right to raw sockets");
        return;
    };
    let from = SocketAddr::from((from, 0));
    raw.bind(&from.into()).expect("an address of the loopback");
    for packet in packets {
        // Source port, destination port, length, no checksum (RFC 768).
        let len = (8 + packet.len()) as u16;
        let mut octets = [[0, 0], to.port().to_be_bytes(), len.to_be_bytes(), [0, 0]].concat();
        octets.extend_from_slice(packet);
        let to = SocketAddr::new(to.ip(), 0);
        // A group may have no route here.
        let _ = raw.send_to(&octets, &to.into());
    }
}

fn datagram(random: &mut SplitMix64, packets: &[Vec<u8>]) -> Vec<u8> {
    let any = |random: &mut SplitMix64, most: u64| -> Vec<u8> {
        let len = random.below(most) as usize;
        (0..len).map(|_| random.next_u64() as u8).collect()
    };
    match random.below(40) {
        0 => return Vec::new(),
        1 => return vec![random.next_u64() as u8; 65_507],
        2..8 => return any(random, 120),
        _ => {}
    }
    let mut octets = packets[random.below(packets.len() as u64) as usize].clone();
    for _ in 0..=random.below(3) {
        let at = random.below(octets.len() as u64) as usize;
        octets[at] = random.next_u64() as u8 >> random.below(8);
    }
    if random.below(4) == 0 {
        octets.truncate(random.below(octets.len() as u64 + 1) as usize);
    }
    if random.below(2) == 0 && octets.len() >= HEADER_LEN {
        let dlen = (octets.len() - HEADER_LEN) as u32;
        octets[12..16].copy_from_slice(&dlen.to_be_bytes());
        octets[CHECK_AT..CHECK_AT + 2].fill(0);
        let nocheck = octets[8] & 0x40 != 0;
        let covered = if nocheck { HEADER_LEN } else { octets.len() };
        let check = checksum::checksum(&octets[..covered]);
        octets[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
    }
    octets
}

/// A packet of each kind, to one peer and to a group.
fn packets() -> Vec<Vec<u8>> {
    let common = CommonControl {
        rseq: 1000,
        alloc: 70_000,
        echo: SyncNumber(1),
    };
    let traffic = TrafficSpec::Plain(Service::Stream, [0; 4]);
    let address = AddressSegment::V4(Endpoints {
        dst_host: Ipv4Addr::LOCALHOST,
        src_host: Ipv4Addr::LOCALHOST,
        dst_port: 1,
        src_port: 6000,
    });
    let bodies = [
        Body::First {
            domain: 0,
            address,
            traffic,
            data: b"GET / HTTP/1.0\r\n\r\n",
        },
        Body::Data { data: &[7; 900] },
        Body::Cntl(common),
        Body::Tcntl {
            common,
            reserved: 0,
            xkey: 5,
            traffic,
        },
        Body::Jcntl {
            common,
            reserved: 0,
            xkey: 5,
            domain: 0,
            address,
            traffic,
        },
        Body::Diag(Diag {
            code: DiagCode::REFUSED,
            value: DiagValue::UNSPECIFIED,
            text: b"go away\0",
        }),
    ];
    let mut packets = Vec::new();
    for body in bodies {
        for (key, options) in [
            (5, Options::NONE),
            (5 | RTN, Options::NONE),
            (6, Options::MULTI),
            (6 | RTN, Options::MULTI),
        ] {
            let header = Header {
                key,
                options,
                format: body.format(),
                dlen: 0,
                check: 0,
                sort: 0,
                sync: SyncNumber(1),
                seq: 0,
            };
            let mut octets = Vec::new();
            Packet { header, body }.emit_with_checksum(&mut octets);
            packets.push(octets);
        }
    }
    packets
}

#[test]
fn router_survives_hostile_datagrams_and_forwards_to_nobody() {
    let witness = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let next = witness.local_addr().expect("bound");
    let settings = UdpRouterConfig {
        next_hops: BTreeMap::from([(Ipv4Addr::new(10, 0, 0, 2).into(), next)]),
        rate: None,
        managers: vec![Ipv4Addr::LOCALHOST.into()],
    };
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let router = Router::bind(local, &settings).expect("a free port");
    bombard(Ipv4Addr::LOCALHOST, &[router.local_addr()], 1);
    let end = Instant::now() + Duration::from_secs(20);
    while router.counters().packets_parsed < DATAGRAMS / 4 {
        assert!(Instant::now() < end, "{:?}", router.counters());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(router.path_count(), 0, "nobody asked for a host it knows");
    witness.set_nonblocking(true).expect("an option");
    assert!(
        witness.recv(&mut [0; 100]).is_err(),
        "something was sent on"
    );
}
