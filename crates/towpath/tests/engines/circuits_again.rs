//! Circuits of engines that keep an endpoint, which one thread opens and closes in turn.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use towpath::{Circuit, Listener, Options, Rendezvous, find};

const LIMIT: Duration = Duration::from_secs(30);

/// Transports whose circuits in turn share an endpoint, and keep message boundaries.
const NAMES: [&str; 2] = ["sctp", "xtp-message"];

fn connect(name: &str, to: &Rendezvous, options: &Options) -> Box<dyn Circuit> {
    let transport = find(name).expect("a transport");
    transport.connect(to, 0, options).expect("a circuit")
}

fn listen(name: &str, options: &Options) -> (Box<dyn Listener>, Rendezvous) {
    let transport = find(name).expect("a transport");
    let listener = transport.listen(options).expect("a listener");
    let to = listener.rendezvous().expect("an address");
    (listener, to)
}

/// The UDP address of a circuit's endpoint.
fn own(circuit: &dyn Circuit) -> SocketAddr {
    let socket = circuit.descriptor().expect("a socket");
    let address = rustix::net::getsockname(socket).expect("an address");
    SocketAddr::try_from(address).expect("an Internet address")
}

/// What comes next; a call waits for a part of the time only.
fn receive(circuit: &mut dyn Circuit, buffer: &mut [u8]) -> Option<usize> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match circuit.recv(buffer) {
            Ok(len) => return len,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(Instant::now() < deadline, "nothing comes");
    }
}

/// One request and its reply by a circuit of its own; the address that it came from.
fn exchange(name: &str, listener: &mut dyn Listener, to: &Rendezvous, number: u8) -> SocketAddr {
    let mut client = connect(name, to, &Options::default());
    client.send(&[number; 100]).expect("room");
    client.flush().expect("the wire works");
    let soon = Instant::now() + LIMIT;
    let mut server = listener.accept(soon).expect("its other end");
    let mut buffer = [0; 200];
    assert_eq!(receive(&mut *server, &mut buffer), Some(100));
    assert_eq!(buffer[..100], [number; 100]);
    server.send(&buffer[..50]).expect("room");
    server.flush().expect("the wire works");
    assert_eq!(receive(&mut *client, &mut buffer), Some(50));
    let from = own(client.as_ref());
    drop(client);
    assert_eq!(receive(&mut *server, &mut buffer), None);
    from
}

#[test]
fn circuits_in_turn_share_an_endpoint_and_end_one_by_one() {
    for name in NAMES {
        let (mut listener, to) = listen(name, &Options::default());
        let first = exchange(name, listener.as_mut(), &to, 1);
        for number in 2..20 {
            let from = exchange(name, listener.as_mut(), &to, number);
            assert_eq!(from, first, "{name}");
        }
        let (mut other, elsewhere) = listen(name, &Options::default());
        assert_ne!(
            exchange(name, other.as_mut(), &elsewhere, 1),
            first,
            "{name}: a socket has one peer"
        );
    }
}

#[test]
fn circuits_at_once_and_those_that_keep_their_peer_have_endpoints_of_their_own() {
    for name in NAMES {
        let (_listener, to) = listen(name, &Options::default());
        let two = [(); 2].map(|()| connect(name, &to, &Options::default()));
        assert_ne!(own(two[0].as_ref()), own(two[1].as_ref()), "{name}");
        let keeps = Options {
            one_peer: true,
            ..Options::default()
        };
        let (_listener, to) = listen(name, &keeps);
        let first = own(connect(name, &to, &keeps).as_ref());
        assert_ne!(own(connect(name, &to, &keeps).as_ref()), first, "{name}");
    }
}

#[test]
fn all_that_was_sent_arrives_though_the_circuit_is_dropped_at_once() {
    NAMES.iter().for_each(|name| send_and_drop(name));
}

fn send_and_drop(name: &'static str) {
    let (mut listener, to) = listen(name, &Options::default());
    let sender = std::thread::spawn(move || {
        let mut client = connect(name, &to, &Options::default());
        (0..300_u32).for_each(|number| {
            client
                .send(&number.to_be_bytes().repeat(250))
                .expect("room");
        });
    });
    let mut server = listener.accept(Instant::now() + LIMIT).expect("a circuit");
    let mut buffer = [0; 2000];
    for number in 0..300_u32 {
        assert_eq!(receive(&mut *server, &mut buffer), Some(1000));
        assert_eq!(buffer[..4], number.to_be_bytes());
    }
    assert_eq!(receive(&mut *server, &mut buffer), None);
    sender.join().expect("no panic");
}
