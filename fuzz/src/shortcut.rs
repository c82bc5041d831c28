//! A wire with the shortcut whose peer sends any datagrams, offers with right and wrong tags among them.

use engine::{Address, Path};
use std::io::{ErrorKind, IoSlice};
use wire::Wire;
use wire_shortcut::{BootId, MeetingPlace, ShortcutWire, offer};
use wire_udp::UdpWire;

/// Not the identifier of this host, so that nothing on it answers.
const BOOT: BootId = BootId::new([3; 16]);

/// Datagrams of one script, at most.
const DATAGRAMS_MAX: usize = 32;

/// Sends the script in datagrams and receives them; how many were packets. The first octet of each step says
/// what it is, the second how long.
pub fn datagrams(octets: &[u8]) -> u64 {
    let udp = || UdpWire::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    let mut peer = udp();
    let mut wire = ShortcutWire::on(udp(), MeetingPlace::Namespace, BOOT).expect("an epoll");
    let to = wire.udp().local_addr().expect("it is bound");
    let path = Path::to(Address::Socket(to));
    let (mut sent, mut rest) = (0, octets);
    while let ([kind, len, more @ ..], true) = (rest, sent < DATAGRAMS_MAX) {
        let (body, left) = more.split_at(more.len().min(usize::from(*len)));
        rest = left;
        sent += 1;
        let datagram = datagram(*kind, body);
        peer.send(path, &[IoSlice::new(&datagram)], datagram.len().max(1))
            .expect("the loopback takes it");
    }
    receive_all(&mut wire, sent)
}

fn datagram(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut nonce = [0; offer::NONCE_LEN];
    for (to, from) in nonce.iter_mut().zip(body) {
        *to = *from;
    }
    let mut made = offer::encode(&BOOT, &nonce).to_vec();
    match kind % 4 {
        0 => made,
        1 => {
            // An octet that differs, and a length.
            let at = body.first().map_or(0, |at| usize::from(*at) % made.len());
            made[at] ^= kind | 1;
            made.truncate(usize::from(body.get(1).copied().unwrap_or(40)).max(1));
            made
        }
        2 => [&made[..12], body].concat(),
        _ => [&[0], body].concat(),
    }
}

/// Receives until all that was sent was looked at.
fn receive_all(wire: &mut ShortcutWire, sent: usize) -> u64 {
    let mut buffer = vec![0; wire.capabilities().receive_len];
    let mut packets = 0;
    for _ in 0..=sent {
        match wire.receive(&mut buffer) {
            Ok(arrival) => {
                assert!(arrival.len <= buffer.len());
                assert!(
                    !offer::is_marked(&buffer[..arrival.len]),
                    "an offer is no packet"
                );
                packets += 1;
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(
        wire.handle().expect("it is on").rings().is_empty(),
        "nobody made a ring"
    );
    packets
}
