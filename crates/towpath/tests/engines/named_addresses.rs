//! ISO, XNS and Direct addresses over the sockets of the loopback: both ends, and a listener of another name.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::thread;
use std::time::Duration;
use towpath::xtp::{Endpoint, EndpointConfig};

const LIMIT: Duration = Duration::from_secs(30);

/// An endpoint with the word `address`, or without it.
fn bind(address: Option<&str>) -> Endpoint {
    let words: BTreeMap<String, String> = address
        .map(|address| ("address".to_owned(), address.to_owned()))
        .into_iter()
        .collect();
    let config = EndpointConfig::parse(&words).expect("good words");
    let local = "127.0.0.1:0".parse().expect("a literal address");
    Endpoint::bind(local, &config).expect("a free port")
}

#[test]
fn both_ends_talk_under_a_name_of_each_format() {
    for name in ["iso:49000101", "xns:1.020000000002.451", "direct:0a0b0c"] {
        let [client, server] = [name, name].map(|name| bind(Some(name)));
        server.listen(true);
        let to = server.local_addr();
        let answering = thread::spawn(move || {
            let mut circuit = server.accept(LIMIT).expect("a circuit");
            let mut buffer = [0; 100];
            let len = circuit.recv(&mut buffer, LIMIT).expect("it comes");
            let asked = buffer[..len.expect("not the end")].to_vec();
            circuit.send(&asked, LIMIT).expect("room");
            circuit.flush().expect("the loopback takes it");
            let end = circuit.recv(&mut buffer, LIMIT).expect("it comes");
            assert_eq!(end, None);
        });
        let mut circuit = client.connect(to, LIMIT).unwrap_or_else(|error| {
            panic!("{name}: {error}");
        });
        circuit.send(name.as_bytes(), LIMIT).expect("room");
        circuit.flush().expect("the loopback takes it");
        let mut buffer = [0; 100];
        let len = circuit.recv(&mut buffer, LIMIT).expect("it comes");
        assert_eq!(&buffer[..len.expect("not the end")], name.as_bytes());
        drop(circuit);
        answering.join().expect("the server answered");
    }
}

#[test]
fn listener_of_another_name_refuses_at_once() {
    let name = "iso:49000101";
    for own in [Some("iso:49000102"), Some("xns:1.2.3"), None] {
        let server = bind(own);
        server.listen(true);
        let refused = bind(Some(name)).connect(server.local_addr(), LIMIT);
        let kind = refused.map(drop).map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::ConnectionRefused), "{own:?}");
    }
}
