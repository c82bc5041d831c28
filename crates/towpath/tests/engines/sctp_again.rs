//! Circuits of `sctp` that one thread opens and closes in turn.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use towpath::{Circuit, Listener, Options, Rendezvous, find};

const LIMIT: Duration = Duration::from_secs(30);

fn connect(to: &Rendezvous, options: &Options) -> Box<dyn Circuit> {
    let sctp = find("sctp").expect("a transport");
    sctp.connect(to, 0, options).expect("a circuit")
}

fn listen(options: &Options) -> (Box<dyn Listener>, Rendezvous) {
    let sctp = find("sctp").expect("a transport");
    let listener = sctp.listen(options).expect("a listener");
    let to = listener.rendezvous().expect("an address");
    (listener, to)
}

/// The UDP address of a circuit's endpoint.
fn own(circuit: &dyn Circuit) -> SocketAddr {
    let socket = circuit.descriptor().expect("a socket");
    let address = rustix::net::getsockname(socket).expect("an address");
    SocketAddr::try_from(address).expect("an Internet address")
}

/// One request and its reply by a circuit of its own; the address that it came from.
fn exchange(listener: &mut dyn Listener, to: &Rendezvous, number: u8) -> SocketAddr {
    let mut client = connect(to, &Options::default());
    client.send(&[number; 100]).expect("room");
    client.flush().expect("the wire works");
    let soon = Instant::now() + LIMIT;
    let mut server = listener.accept(soon).expect("its other end");
    let mut buffer = [0; 200];
    assert_eq!(server.recv(&mut buffer).expect("a request"), Some(100));
    assert_eq!(buffer[..100], [number; 100]);
    server.send(&buffer[..50]).expect("room");
    server.flush().expect("the wire works");
    assert_eq!(client.recv(&mut buffer).expect("a reply"), Some(50));
    let from = own(client.as_ref());
    drop(client);
    assert_eq!(server.recv(&mut buffer).expect("an end"), None);
    from
}

#[test]
fn circuits_in_turn_share_an_endpoint_and_end_one_by_one() {
    let (mut listener, to) = listen(&Options::default());
    let first = exchange(listener.as_mut(), &to, 1);
    for number in 2..20 {
        assert_eq!(exchange(listener.as_mut(), &to, number), first);
    }
    let (mut other, elsewhere) = listen(&Options::default());
    assert_ne!(
        exchange(other.as_mut(), &elsewhere, 1),
        first,
        "a socket has one peer"
    );
}

#[test]
fn circuits_at_once_and_those_that_keep_their_peer_have_endpoints_of_their_own() {
    let (_listener, to) = listen(&Options::default());
    let two = [(); 2].map(|()| connect(&to, &Options::default()));
    assert_ne!(own(two[0].as_ref()), own(two[1].as_ref()));
    let keeps = Options {
        one_peer: true,
        ..Options::default()
    };
    let (_listener, to) = listen(&keeps);
    let first = own(connect(&to, &keeps).as_ref());
    assert_ne!(own(connect(&to, &keeps).as_ref()), first);
}

#[test]
fn all_that_was_sent_arrives_though_the_circuit_is_dropped_at_once() {
    let (mut listener, to) = listen(&Options::default());
    let sender = std::thread::spawn(move || {
        let mut client = connect(&to, &Options::default());
        (0..300_u32).for_each(|number| {
            client
                .send(&number.to_be_bytes().repeat(250))
                .expect("room");
        });
    });
    let mut server = listener.accept(Instant::now() + LIMIT).expect("a circuit");
    let mut buffer = [0; 2000];
    for number in 0..300_u32 {
        assert_eq!(server.recv(&mut buffer).expect("a message"), Some(1000));
        assert_eq!(buffer[..4], number.to_be_bytes());
    }
    assert_eq!(server.recv(&mut buffer).expect("an end"), None);
    sender.join().expect("no panic");
}
