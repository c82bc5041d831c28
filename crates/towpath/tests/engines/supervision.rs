//! Openings that the user of an endpoint looks at, admits or refuses.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};
use towpath::xtp::{Circuit, Endpoint, EndpointConfig, Opening, Refusal};

const LIMIT: Duration = Duration::from_secs(30);

fn bind(change: impl FnOnce(&mut EndpointConfig)) -> Endpoint {
    let mut config = EndpointConfig::default();
    change(&mut config);
    let local = "127.0.0.1:0".parse().expect("a literal address");
    Endpoint::bind(local, &config).expect("a free port")
}

/// An endpoint whose openings wait for a decision.
fn supervised() -> Endpoint {
    let server = bind(|settings| settings.config.supervised = true);
    server.listen(true);
    server
}

/// The first data of an opening, once they are here.
fn first_data(opening: &mut Opening) -> Vec<u8> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let data = opening.first_data().expect("the peer is there").to_vec();
        if !data.is_empty() {
            return data;
        }
        assert!(Instant::now() < deadline, "no data came");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn opening_shows_its_request_and_data_and_is_answered_once_admitted() {
    let server = supervised();
    let client = bind(|settings| {
        settings.config.explicit = false;
        settings.config.sort = Some(7);
    });
    let mut circuit = client
        .begin_connect(server.local_addr())
        .expect("an endpoint");
    circuit.send(b"knock", LIMIT).expect("room");
    circuit.flush().expect("the loopback takes it");
    let mut opening = server.next_opening(LIMIT).expect("it comes");
    assert_eq!(opening.peer(), client.local_addr());
    assert_eq!(first_data(&mut opening), b"knock");
    let request = opening.request().expect("it waits");
    assert_eq!((request.service, request.sort), ("stream", Some(7)));
    assert_eq!((request.first_data, request.reserves), (5, false));
    assert_eq!(client.counters().packets_parsed, 0, "nothing is answered");
    let (mut admitted, taken) = opening.admit().expect("the loopback takes it");
    assert_eq!(taken, b"knock");
    admitted.send(b"come in", LIMIT).expect("room");
    assert_eq!(receive(&mut circuit), b"come in");
    circuit.send(b"thanks", LIMIT).expect("room");
    circuit.flush().expect("the loopback takes it");
    assert_eq!(receive(&mut admitted), b"thanks");
}

fn receive(circuit: &mut Circuit) -> Vec<u8> {
    let mut buffer = [0; 100];
    let len = circuit.recv(&mut buffer, LIMIT).expect("it comes");
    buffer[..len.expect("not the end")].to_vec()
}

#[test]
fn refused_opening_tells_its_peer_why() {
    let server = supervised();
    let to = server.local_addr();
    let reasons = Refusal::ALL.map(|(_, why)| Some(why));
    // An opening that is dropped is refused too.
    for why in reasons.into_iter().chain([None]) {
        let asking = thread::spawn(move || bind(|_| ()).connect(to, LIMIT).map(drop));
        let opening = server.next_opening(LIMIT).expect("it comes");
        match why {
            Some(why) => opening.refuse(why).expect("the loopback takes it"),
            None => drop(opening),
        }
        let error = asking.join().expect("no panic").expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let name = why.unwrap_or(Refusal::Unspecified).name();
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(server.holdings().associations, 0);
}

#[test]
fn explicit_opening_waits_for_the_decision() {
    let server = supervised();
    let to = server.local_addr();
    let client = bind(|_| ());
    let asking = {
        let client = client.clone();
        thread::spawn(move || client.connect(to, LIMIT))
    };
    let mut opening = server.next_opening(LIMIT).expect("it comes");
    assert_eq!(opening.first_data().expect("the peer is there"), b"");
    assert!(!asking.is_finished());
    assert_eq!(client.counters().packets_parsed, 0, "nothing is answered");
    let (mut admitted, _) = opening.admit().expect("the loopback takes it");
    let mut circuit = asking.join().expect("no panic").expect("admitted");
    circuit.send(b"hello", LIMIT).expect("room");
    circuit.flush().expect("the loopback takes it");
    assert_eq!(receive(&mut admitted), b"hello");
}

#[test]
fn endpoint_that_answers_itself_has_no_openings_to_decide() {
    let server = bind(|_| ());
    let refused = server.next_opening(Duration::ZERO).err();
    assert_eq!(refused.expect("refused").kind(), ErrorKind::InvalidInput);
    let nothing = supervised().next_opening(Duration::ZERO).err();
    assert_eq!(nothing.expect("none").kind(), ErrorKind::TimedOut);
}
