//! `Duration::MAX` as a limit means for ever, in every call that takes one.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;
use towpath::xtp::group::{GroupEndpointConfig, Receiver, Sender, example_group};
use towpath::xtp::{Endpoint, EndpointConfig, LendOutcome};

const FOREVER: Duration = Duration::MAX;

/// Longest wait for what happens at once.
const LIMIT: Duration = Duration::from_secs(10);

fn endpoint() -> Endpoint {
    let local = "127.0.0.1:0".parse().expect("a literal address");
    Endpoint::bind(local, &EndpointConfig::default()).expect("a free port")
}

#[test]
fn every_call_of_circuits_takes_a_limit_without_end() {
    let server = endpoint();
    server.listen(true);
    let address = server.local_addr();
    let serving = thread::spawn(move || {
        let mut circuit = server.accept(FOREVER).expect("a peer");
        let mut buffer = [0; 16];
        let len = circuit.recv(&mut buffer, FOREVER).expect("a request");
        assert_eq!(len, Some(5));
        let lent = circuit.lend(vec![7; 40_000], FOREVER).expect("room");
        assert!(matches!(lent, LendOutcome::Lent), "{lent:?}");
        circuit.reclaim(FOREVER).expect("it is acknowledged");
        circuit.send_last(b"end", FOREVER).expect("room");
        circuit.drain(FOREVER).expect("it is acknowledged");
        let mut circuit = server.accept(FOREVER).expect("a transaction");
        let len = circuit.recv_all(&mut buffer, FOREVER).expect("a request");
        circuit.send_last(&buffer[..len], FOREVER).expect("room");
        circuit.close(FOREVER).expect("it is acknowledged");
        server
    });
    let client = endpoint();
    let mut circuit = client.connect(address, FOREVER).expect("it listens");
    circuit.send(b"hello", FOREVER).expect("room");
    circuit.flush().expect("sent");
    let mut count = 0;
    while let Some(len) = circuit.recv_in_place(|_| (), FOREVER).expect("data") {
        count += len;
    }
    assert_eq!(count, 40_003);
    circuit.close(FOREVER).expect("it is acknowledged");
    let mut reply = [0; 16];
    let len = client.transact(address, b"what?", &mut reply, FOREVER);
    assert_eq!(len.expect("a reply"), 5);
    serving.join().expect("the server does not panic");
}

#[test]
fn every_call_of_groups_takes_a_limit_without_end() {
    let (group, local) = (example_group(), "127.0.0.1".parse().expect("an address"));
    let receiver = match Receiver::join(group, local, &GroupEndpointConfig::default()) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
            eprintln!("SKIPPED: the loopback of this machine carries no groups: {error}");
            return;
        }
        receiver => receiver.expect("a free port"),
    };
    let receiving = thread::spawn(move || {
        let mut stream = receiver.accept(FOREVER).expect("a stream");
        let mut buffer = [0; 16];
        while stream.recv(&mut buffer, FOREVER).expect("bytes").is_some() {}
        stream.close(FOREVER).expect("its end is acknowledged");
    });
    let mut sender =
        Sender::open(group, local, &GroupEndpointConfig::for_members(1)).expect("opens");
    sender.wait_ready(FOREVER).expect("the member joins");
    sender.send(b"to you", FOREVER).expect("room");
    sender.close(FOREVER).expect("it is acknowledged");
    receiving.join().expect("the receiver does not panic");
}

/// What waits for the peer's window is neither in flight nor acknowledged.
#[test]
fn drain_waits_for_bytes_that_the_peers_closed_window_holds_back() {
    let server = endpoint();
    server.listen(true);
    let client = endpoint();
    let mut circuit = client
        .connect(server.local_addr(), LIMIT)
        .expect("it listens");
    let mut sent = 0;
    while circuit.send(&[7; 1000], Duration::from_millis(50)).is_ok() {
        sent += 1000;
    }
    let error = circuit.drain(Duration::from_millis(300));
    let error = error.expect_err("the peer reads nothing");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let reading = thread::spawn(move || {
        let mut circuit = server.accept(LIMIT).expect("a peer");
        let (mut buffer, mut read) = (vec![0; 1000], 0);
        while let Some(len) = circuit.recv(&mut buffer, LIMIT).expect("a message") {
            read += len;
        }
        read
    });
    circuit.drain(LIMIT).expect("all is read");
    circuit.close(LIMIT).expect("it is acknowledged");
    assert_eq!(reading.join().expect("the reader does not panic"), sent);
}
