//! What a wire sends by reference arrives as it was; what it cannot send so is copied.

use engine::{Address, Path};
use std::io::{ErrorKind, IoSlice, Read};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use wire::{Taken, Wire};
use wire_udp::UdpWire;
use wire_udp::sys::{self, Pipe};

const PACKET_LEN: usize = 1472;

/// Packets of a batch by reference.
const PACKETS: usize = 41;

fn on_loopback() -> UdpWire {
    UdpWire::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port")
}

/// A wire that sends by reference to the other.
fn pair() -> (UdpWire, UdpWire, Path) {
    let (mut near, far) = (on_loopback(), on_loopback());
    let to = far.local_addr().expect("it is bound");
    near.connect(to).expect("a route");
    assert!(near.enable_references().expect("an option of each socket"));
    (near, far, Path::to(Address::Socket(to)))
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    let octet = |at: usize| ((at + salt).wrapping_mul(2_654_435_761) >> 11) as u8;
    (0..len).map(octet).collect()
}

/// All datagrams that arrive, one behind the other, and the lengths of the arrivals' packets.
fn receive_all(wire: &mut UdpWire) -> (Vec<u8>, Vec<usize>) {
    let mut buffer = vec![0; wire.capabilities().receive_len];
    let (mut octets, mut lengths) = (Vec::new(), Vec::new());
    while let Ok(arrival) = wire.receive(&mut buffer) {
        octets.extend_from_slice(&buffer[..arrival.len]);
        lengths.push(arrival.segment_size);
    }
    (octets, lengths)
}

fn send(wire: &mut UdpWire, path: Path, octets: &[u8], packet_len: usize) -> Taken {
    let sent = wire.send_by_reference(path, &[IoSlice::new(octets)], packet_len);
    sent.expect("the loopback has room")
}

#[test]
fn batch_by_reference_arrives_as_packets_and_shows_what_is_written_later() {
    let (mut near, mut far, path) = pair();
    let mut octets = pattern(PACKETS * PACKET_LEN, 1);
    assert_eq!(
        send(&mut near, path, &octets, PACKET_LEN),
        Taken::ByReference
    );
    assert_eq!(receive_all(&mut far), (octets.clone(), vec![PACKET_LEN]));
    assert_eq!(
        send(&mut near, path, &octets, PACKET_LEN),
        Taken::ByReference
    );
    // Linux 6.5 and later.
    octets[30_000..30_010].fill(0xaa);
    assert_eq!(receive_all(&mut far).0, octets, "it was copied");
}

#[test]
fn short_batches_are_copied() {
    let (mut near, mut far, path) = pair();
    let mut octets = pattern(4 * PACKET_LEN, 2);
    assert_eq!(send(&mut near, path, &octets, PACKET_LEN), Taken::Copied);
    let before = octets.clone();
    octets.fill(0);
    assert_eq!(receive_all(&mut far).0, before);
}

#[test]
fn every_batch_that_the_capabilities_allow_goes_by_reference_wherever_it_begins() {
    let (mut near, mut far, path) = pair();
    let most = near.capabilities().batch_bytes_max;
    let octets = pattern(most + 1 + 2 * 4096, 3);
    let page = octets.as_ptr().align_offset(4096);
    for offset in [0, 1, 63, 64, 2048, 4094, 4095] {
        let batch = &octets[page + offset..][..most];
        assert_eq!(send(&mut near, path, batch, PACKET_LEN), Taken::ByReference);
        assert_eq!(receive_all(&mut far).0, batch, "offset {offset}");
        assert_eq!(send(&mut near, path, batch, most), Taken::ByReference);
        assert_eq!(receive_all(&mut far), (batch.to_vec(), vec![most]));
    }
    // In one page more than a call takes.
    let longer = &octets[page + 4095..][..most + 1];
    assert_eq!(send(&mut near, path, longer, most + 1), Taken::Copied);
    assert_eq!(receive_all(&mut far).0, longer);
}

#[test]
fn datagrams_after_a_batch_are_not_cut_to_its_packets() {
    let (mut near, mut far, path) = pair();
    let batch = pattern(PACKETS * PACKET_LEN, 5);
    for len in [1, PACKET_LEN, PACKET_LEN + 1, 60_000] {
        assert_eq!(
            send(&mut near, path, &batch, PACKET_LEN),
            Taken::ByReference
        );
        receive_all(&mut far);
        let single = pattern(len, 6);
        let sent = near.send(path, &[IoSlice::new(&single)], len);
        sent.expect("the loopback has room");
        assert_eq!(receive_all(&mut far), (single, vec![len]));
    }
}

#[test]
fn peers_of_other_hosts_and_wires_of_many_peers_get_copies() {
    let mut many = on_loopback();
    assert!(!many.enable_references().expect("nothing is asked"));
    let to = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let path = Path::to(Address::Socket(to.local_addr().expect("it is bound")));
    let octets = pattern(PACKETS * PACKET_LEN, 7);
    assert_eq!(send(&mut many, path, &octets, PACKET_LEN), Taken::Copied);
    assert_eq!(
        many.capabilities().batch_bytes_max,
        wire_udp::UDP_PAYLOAD_MAX
    );
}

#[test]
fn peer_that_is_gone_costs_no_descriptor_and_its_error_is_the_paths() {
    let (mut near, far, path) = pair();
    drop(far);
    let octets = pattern(PACKETS * PACKET_LEN, 8);
    let mut refused = 0;
    let descriptors = || std::fs::read_dir("/proc/self/fd").map(Iterator::count).ok();
    let before = descriptors();
    for _ in 0..100 {
        let sent = near.send_by_reference(path, &[IoSlice::new(&octets)], PACKET_LEN);
        refused += u32::from(sent.is_err());
        std::thread::sleep(Duration::from_micros(100));
    }
    // Other tests of the process open some too.
    let (before, after) = (before.unwrap_or(0), descriptors().unwrap_or(0));
    assert!(after < before + 50, "{before} descriptors became {after}");
    // A copied batch is sent once more after such an error, and that one is mostly taken.
    assert!(refused < 100);
}

#[test]
fn call_that_takes_a_part_sends_nothing() {
    let mut far = on_loopback();
    let to = far.local_addr().expect("it is bound");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(to).expect("a route");
    let pipe = Pipe::open(16 * 4096).expect("two descriptors");
    let octets = pattern(40 * 4096, 9);
    let socket = std::os::fd::AsFd::as_fd(&socket);
    let sent = pipe.send(socket, &[IoSlice::new(&octets)], octets.len());
    assert!(sent.is_err(), "a pipe of 16 pages took 40");
    assert_eq!(receive_all(&mut far), (vec![], vec![]));
}

#[test]
fn call_without_room_is_an_error_and_so_is_one_that_finds_too_little() {
    let (near, mut far) = UnixStream::pair().expect("two descriptors");
    let wait = Some(Duration::from_micros(1));
    near.set_write_timeout(wait).expect("an option");
    far.set_nonblocking(true).expect("an option");
    let octets = pattern(60 << 10, 10);
    let (mut whole, mut errors) = (0, Vec::new());
    // A stream takes a part where a datagram socket takes nothing.
    while !errors.contains(&ErrorKind::WouldBlock) && errors.len() < 4 {
        let pipe = Pipe::open(16 * 4096).expect("two descriptors");
        match pipe.send(near.as_fd(), &[IoSlice::new(&octets)], octets.len()) {
            Ok(()) => whole += 1,
            Err(error) => errors.push(error.kind()),
        }
    }
    assert!(errors.contains(&ErrorKind::WouldBlock), "{errors:?}");
    assert!(whole > 0, "{errors:?}");
    let mut arrived = Vec::new();
    // It ends with what is there.
    let _ = far.read_to_end(&mut arrived);
    assert!(arrived.len() >= whole * octets.len());
    for sent in arrived.chunks(octets.len()).take(whole) {
        assert!(sent == octets);
    }
}

#[test]
fn header_of_a_packet_in_several_slices_is_copied_and_its_pages_are_not() {
    let (mut near, mut far, path) = pair();
    let (mut header, mut octets) = (pattern(32, 11), pattern(60 << 10, 12));
    let before = header.clone();
    for _ in 0..2 {
        let slices = [IoSlice::new(&header), IoSlice::new(&octets)];
        let len = header.len() + octets.len();
        let sent = near.send_by_reference(path, &slices, len);
        assert_eq!(sent.expect("the loopback has room"), Taken::ByReference);
        header.fill(0xcc);
        octets[100] ^= 0xff;
        let (arrived, lengths) = receive_all(&mut far);
        assert_eq!(lengths, [len]);
        assert!(arrived[32..] == octets, "the pages were copied");
        assert!(arrived[..32] == before, "the header was not");
        header.clone_from(&before);
    }
    let single = pattern(1000, 13);
    let sent = near.send(path, &[IoSlice::new(&single)], single.len());
    sent.expect("the loopback has room");
    assert_eq!(receive_all(&mut far), (single, vec![1000]));
}

#[test]
fn datagram_that_was_begun_and_given_up_leaves_nothing() {
    let mut far = on_loopback();
    let to = far.local_addr().expect("it is bound");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(to).expect("a route");
    let pipe = Pipe::open(16 * 4096).expect("two descriptors");
    // Longer than a datagram with its header.
    let octets = pattern(16 * 4096, 14);
    let page = octets.as_ptr().align_offset(4096);
    let slices = [IoSlice::new(&octets[page..]), IoSlice::new(&octets[..page])];
    assert!(pipe.send_behind(socket.as_fd(), &[1; 32], &slices).is_err());
    sys::begin_datagram(socket.as_fd(), &[2; 32]).expect("the loopback has room");
    sys::abandon_datagram(socket.as_fd());
    socket.send(&[3; 10]).expect("the loopback has room");
    assert_eq!(receive_all(&mut far), (vec![3; 10], vec![10]));
}
