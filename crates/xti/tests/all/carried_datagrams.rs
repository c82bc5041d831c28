//! The provider of datagrams over a carrier of a test: what leaves together, what is refused, what comes.

use crate::kit::{LIMIT, loopback};
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use xti::datagrams::{
    BATCH_MAX, DatagramCarrier, DatagramHeaders, Found, INTERNET_ADDRESS_MAX, no_options,
};
use xti::inet::SocketAddress;
use xti::tpi::{Primitive, TransportOption};
use xti::{Look, StreamOptions, TliError, XtiEndpoint, inet};

/// A call of the provider: how many datagrams of which length to which port.
type Batch = (u16, usize, usize);

#[derive(Default)]
struct Seen {
    has_room: bool,
    calls: u64,
    batches: Vec<Batch>,
    octets: Vec<Vec<u8>>,
    /// Octets of a room, with what is found there.
    arriving: VecDeque<(Vec<u8>, Vec<Found>)>,
    /// Octets come without end, and nothing is found in them.
    is_flooded: bool,
}

struct Fake {
    seen: Arc<Mutex<Seen>>,
    socket: Option<Arc<Socket>>,
}

impl DatagramCarrier for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn address_max(&self) -> i32 {
        INTERNET_ADDRESS_MAX
    }

    fn datagram_max(&self) -> usize {
        40_000
    }

    fn options_max(&self) -> i32 {
        -2
    }

    fn bind(&mut self, address: Option<SocketAddress>) -> io::Result<SocketAddress> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?.internet()?;
        socket.bind(&address.into())?;
        let bound = socket.local_addr()?.as_socket();
        self.socket = Some(Arc::new(socket));
        let bound = bound.ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(bound.into())
    }

    fn unbind(&mut self) {
        self.socket = None;
    }

    fn socket(&self) -> Option<Arc<Socket>> {
        self.socket.clone()
    }

    fn socket_tells_room(&self) -> bool {
        true
    }

    fn batch_max(&self, octets: usize) -> usize {
        if octets > 100 { 2 } else { BATCH_MAX }
    }

    fn send(
        &mut self,
        destination: SocketAddress,
        datagrams: &[&[u8]],
        _: &mut [TransportOption],
    ) -> io::Result<()> {
        let mut seen = self.seen.lock().unwrap();
        seen.calls += 1;
        if !seen.has_room {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let batch = (
            destination.internet()?.port(),
            datagrams[0].len(),
            datagrams.len(),
        );
        seen.batches.push(batch);
        seen.octets.extend(datagrams.iter().map(|one| one.to_vec()));
        Ok(())
    }

    fn headers(&mut self) -> Option<&mut dyn DatagramHeaders> {
        Some(self)
    }

    fn report_options(&mut self) {}

    fn receive(&mut self, room: &mut [u8], found: &mut Vec<Found>) -> io::Result<usize> {
        let mut seen = self.seen.lock().unwrap();
        seen.calls += 1;
        match seen.arriving.pop_front() {
            Some((octets, all)) => {
                room[..octets.len()].copy_from_slice(&octets);
                found.extend(all);
                Ok(octets.len())
            }
            None if seen.is_flooded => Ok(8),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn system_calls(&self) -> (u64, u64) {
        (self.seen.lock().unwrap().calls, 0)
    }

    fn malformed(&self) -> u64 {
        5
    }

    fn answer_options(&mut self, octets: &[u8], flags: u32) -> Primitive {
        no_options(octets, flags)
    }
}

/// Its header: the port, and how many octets follow.
impl DatagramHeaders for Fake {
    fn header_len(&self) -> usize {
        4
    }

    fn write_header(
        &self,
        destination: SocketAddress,
        octets: &[u8],
        header: &mut [u8],
    ) -> io::Result<()> {
        let port = destination.internet()?.port();
        if port == 9 {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        header[..2].copy_from_slice(&port.to_be_bytes());
        header[2..].copy_from_slice(&(octets.len() as u16).to_be_bytes());
        Ok(())
    }

    fn send_packets(&mut self, destination: SocketAddress, packets: &[&[u8]]) -> io::Result<()> {
        for packet in packets {
            let len = u16::from_be_bytes([packet[2], packet[3]]);
            assert_eq!(usize::from(len), packet.len() - 4);
            assert_eq!(packet[..2], destination.internet()?.port().to_be_bytes());
        }
        let octets: Vec<&[u8]> = packets.iter().map(|packet| &packet[4..]).collect();
        self.send(destination, &octets, &mut [])
    }
}

fn open() -> (XtiEndpoint, Arc<Mutex<Seen>>) {
    open_with(StreamOptions::default())
}

fn open_with(options: StreamOptions) -> (XtiEndpoint, Arc<Mutex<Seen>>) {
    let seen = Arc::<Mutex<Seen>>::default();
    let fake = Fake {
        seen: Arc::clone(&seen),
        socket: None,
    };
    let end = XtiEndpoint::open_datagrams(Box::new(fake), options).unwrap();
    end.bind(&loopback(), 0).unwrap();
    (end, seen)
}

fn to(port: u16) -> Vec<u8> {
    inet::encode(SocketAddr::from(([127, 0, 0, 1], port)))
}

/// Datagrams of one destination and one length leave together, as many as the carrier takes, and all in order.
#[test]
fn batches_have_one_destination_and_one_length_and_wait_for_room_without_spinning() {
    for headroom in [false, true] {
        batches_wait_for_room(headroom);
    }
}

/// With `headroom` the carrier's header is in front of each, once, also after it was refused.
fn batches_wait_for_room(headroom: bool) {
    let (end, seen) = open_with(StreamOptions {
        headroom,
        ..StreamOptions::default()
    });
    let all = [(7, 3, 5), (8, 3, 2), (7, 3, 1), (7, 200, 5), (7, 0, 2)];
    let mut octets = Vec::new();
    for (port, len, count) in all {
        for number in 0..count {
            let one = vec![(octets.len() + number) as u8; len];
            end.try_send_datagram(&to(port), &one).unwrap();
            octets.push(one);
        }
    }
    // A provider that tried again at once would not come back from here.
    end.run();
    end.run();
    seen.lock().unwrap().has_room = true;
    end.flush(LIMIT).unwrap();
    let seen = seen.lock().unwrap();
    let wanted: [Batch; 7] = [
        (7, 3, 5),
        (8, 3, 2),
        (7, 3, 1),
        (7, 200, 2),
        (7, 200, 2),
        (7, 200, 1),
        (7, 0, 2),
    ];
    assert_eq!(seen.batches, wanted);
    assert_eq!(seen.octets, octets);
}

#[test]
fn header_that_cannot_be_written_is_an_error_of_its_datagram_alone() {
    let (end, seen) = open_with(StreamOptions {
        headroom: true,
        ..StreamOptions::default()
    });
    seen.lock().unwrap().has_room = true;
    end.try_send_datagram(&to(9), b"nowhere").unwrap();
    end.run();
    let failure = end.receive_datagram_error().unwrap();
    assert_eq!(failure.destination, to(9));
    end.try_send_datagram(&to(7), b"there").unwrap();
    end.flush(LIMIT).unwrap();
    assert_eq!(seen.lock().unwrap().octets, [b"there"]);
}

#[test]
fn what_is_found_in_an_arrival_comes_whether_it_is_lent_or_copied() {
    let (end, seen) = open();
    for len in [100, 40_000] {
        let octets: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let found = |port, range| Found {
            source: SocketAddr::from(([127, 0, 0, 1], port)).into(),
            range,
            options: Vec::new(),
        };
        let all = vec![
            found(1, 10..20),
            found(2, 20..20),
            found(3, len - 5..len),
            // A carrier that is wrong loses the datagram.
            found(4, len - 5..len + 1),
        ];
        seen.lock()
            .unwrap()
            .arriving
            .push_back((octets.clone(), all));
        for (port, range) in [(1, 10..20), (2, 20..20), (3, len - 5..len)] {
            let (mut buffer, mut source) = ([0; 64], Vec::new());
            let received = end.try_receive_datagram(&mut buffer, &mut source).unwrap();
            assert_eq!(
                (&buffer[..received.len], &source),
                (&octets[range], &to(port))
            );
        }
        let none = end.try_receive_datagram(&mut [0; 64], &mut Vec::new());
        assert_eq!(none.map_err(|error| error.tli), Err(TliError::NoData));
    }
    assert_eq!(end.malformed_datagrams(), 5);
}

#[test]
fn flood_of_what_are_no_datagrams_does_not_hold_the_stream() {
    let (end, seen) = open();
    seen.lock().unwrap().is_flooded = true;
    let none = end.try_receive_datagram(&mut [0; 64], &mut Vec::new());
    assert_eq!(none.map_err(|error| error.tli), Err(TliError::NoData));
    assert_eq!(end.look(), None::<Look>);
    assert!(seen.lock().unwrap().calls < 2000);
}
