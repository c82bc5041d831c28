//! XTP services besides plain streams: tags, bulk transfer into posted buffers, isochronous
//! streams; by the library and by the transports.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use towpath::Options;
use towpath::xtp::{Circuit, Endpoint, EndpointConfig, Tags};

const LIMIT: Duration = Duration::from_secs(20);

fn local() -> SocketAddr {
    "127.0.0.1:0".parse().expect("a literal address")
}

fn endpoint() -> Endpoint {
    Endpoint::bind(local(), &EndpointConfig::default()).expect("a free port")
}

fn messages() -> Endpoint {
    Endpoint::bind_messages(local(), &EndpointConfig::default()).expect("a free port")
}

/// Sends messages with tags from one end to the other.
pub fn carry_tagged(from: &mut Circuit, to: &mut Circuit, sent: &[(Tags, &[u8])]) {
    for (tags, message) in sent {
        let result = from.send_tagged(*tags, message, LIMIT);
        result.expect("the window is open");
    }
    from.flush().expect("no error of the kernel");
    let mut buffer = [0; 8000];
    for (tags, message) in sent {
        let got = to.recv_tagged(&mut buffer, LIMIT).expect("a message");
        assert_eq!(got, Some((*tags, message.len())));
        assert_eq!(&buffer[..message.len()], *message);
    }
}

#[test]
fn xtp3_messages_carry_btag_and_etag() {
    for dialect in ["3.6", "3.5", "3.3"] {
        let words = BTreeMap::from([("dialect".to_owned(), dialect.to_owned())]);
        let settings = EndpointConfig::parse(&words).expect("valid options");
        let bind = || Endpoint::bind_messages(local(), &settings).expect("a free port");
        let (server, client) = (bind(), bind());
        server.listen(true);
        let connected = client.connect(server.local_addr(), LIMIT);
        let mut there = connected.expect("it listens");
        let mut here = server.accept(LIMIT).expect("it was opened");
        let both = |begin: Option<u8>, end: Option<u8>| Tags {
            begin: begin.map(|octet| [octet; 8]),
            end: end.map(|octet| [octet; 8]),
        };
        let long: Vec<u8> = (0..7000u32).map(|at| at as u8).collect();
        let sent: [(Tags, &[u8]); 6] = [
            (both(Some(1), Some(2)), b""),
            (both(None, Some(3)), b"a message"),
            (both(Some(4), None), &long),
            (both(Some(5), Some(6)), &long),
            (both(None, None), b"plain"),
            (both(None, Some(7)), &long[..1445]),
        ];
        carry_tagged(&mut there, &mut here, &sent);
        carry_tagged(&mut here, &mut there, &sent);
    }
}

#[test]
fn bulk_service_fills_posted_buffers() {
    let (server, client) = (endpoint(), endpoint());
    server.listen(true);
    let mut there = client
        .connect_bulk(server.local_addr(), LIMIT)
        .expect("it listens");
    let mut here = server.accept(LIMIT).expect("it was opened");
    here.post(10_000).expect("no error of the kernel");
    let sending = thread::spawn(move || {
        let bytes: Vec<u8> = (0..600_000u32).map(|at| (at % 251) as u8).collect();
        for part in bytes.chunks(10_000) {
            there.send(part, LIMIT).expect("space to send");
        }
        there.close(LIMIT).expect("an end");
    });
    let (mut all, mut buffer) = (Vec::new(), [0; 10_000]);
    while let Some(len) = here.recv(&mut buffer, LIMIT).expect("bytes") {
        all.extend_from_slice(&buffer[..len]);
        here.post(len as u64).expect("no error of the kernel");
    }
    assert_eq!(all.len(), 600_000);
    assert!((0..600_000u32).all(|at| all[at as usize] == (at % 251) as u8));
    sending.join().expect("no panic");
}

#[test]
fn isochronous_sender_keeps_order_and_never_blocks() {
    let (server, client) = (messages(), messages());
    server.listen(true);
    let rate = towpath::xtp::RateLimit {
        rate_bytes_per_s: 20_000_000,
        burst_bytes: 100_000,
    };
    let opened = client.connect_isochronous(server.local_addr(), rate, LIMIT);
    let mut there = opened.expect("it listens");
    let mut here = server.accept(LIMIT).expect("it was opened");
    // Far more than any window, while the receiver does not read.
    for number in 0..6000u32 {
        let mut message = [7; 1000];
        message[..4].copy_from_slice(&number.to_be_bytes());
        there.send(&message, LIMIT).expect("it does not wait");
    }
    there.finish().expect("no error of the kernel");
    let (mut buffer, mut last, mut came) = ([0; 2000], None, 0);
    while let Some(len) = here.recv(&mut buffer, LIMIT).expect("messages, or the end") {
        let number = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
        assert_eq!(len, 1000);
        assert!(last < Some(number), "{number} after {last:?}");
        (last, came) = (Some(number), came + 1);
    }
    assert!(came > 0, "some come in time");
}

/// An XTP transport with options, both ends in this process.
fn xtp_pair(
    name: &str,
    words: &[(&str, &str)],
) -> (Box<dyn towpath::Circuit>, Box<dyn towpath::Circuit>) {
    let words = words.iter();
    let own = words.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let options = Options {
        transport_specific: own.collect(),
        ..Options::default()
    };
    let transport = towpath::find(name).expect("its name");
    let mut listener = transport.listen(&options).expect("a free port");
    let rendezvous = listener.rendezvous().expect("an address");
    let client = transport.connect(&rendezvous, 0, &options);
    let server = listener.accept(Instant::now() + LIMIT);
    (client.expect("it listens"), server.expect("a circuit"))
}

#[test]
fn xtp_transport_bulk_service_arrives_whole() {
    for name in ["xtp", "xtp-message"] {
        let (mut client, mut server) = xtp_pair(name, &[("service", "bulk"), ("queue", "64k")]);
        assert_eq!(client.effective()["service"], "bulk");
        let sending = std::thread::spawn(move || {
            for salt in 0..500 {
                while let Err(error) = client.send(&pattern(4000, salt)) {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                }
            }
            client.finish().expect("a wire");
            client
        });
        let all = take(&mut *server, 500 * 4000);
        let wanted: Vec<u8> = (0..500).flat_map(|salt| pattern(4000, salt)).collect();
        assert!(all == wanted, "{name}: {} bytes", all.len());
        sending.join().expect("no panic");
    }
}

#[test]
fn xtp_transport_isochronous_is_unreliable_but_ordered() {
    let words = [("service", "isochronous"), ("rate", "1gbit")];
    let (mut client, mut server) = xtp_pair("xtp-message", &words);
    let own = words.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let class = towpath::find("xtp")
        .expect("its name")
        .class_with(&own.into());
    assert!(!class.reliable);
    for salt in 0..20 {
        client.send(&pattern(200, salt)).expect("space to send");
    }
    client.finish().expect("a wire");
    let mut next = 0;
    let mut buffer = [0; 400];
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        match server.recv(&mut buffer) {
            Ok(None) => break,
            Ok(Some(len)) => {
                assert_eq!(len, 200);
                let found = (next..20).find(|salt| pattern(200, *salt) == buffer[..200]);
                next = found.expect("one of those sent, and later than the last") + 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
    }
    assert!(next > 0, "something comes in time");
}

/// Bytes that differ with `salt`.
fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + salt * 31) as u8).collect()
}

/// Receives `len` bytes of a stream or of concatenated messages.
fn take(circuit: &mut dyn towpath::Circuit, len: usize) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 8000]);
    let end = Instant::now() + LIMIT;
    while all.len() < len {
        match circuit.recv(&mut buffer) {
            Ok(Some(got)) => all.extend_from_slice(&buffer[..got]),
            Ok(None) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(Instant::now() < end, "{} of {len} bytes came", all.len());
    }
    all
}
