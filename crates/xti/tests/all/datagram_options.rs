//! Options of a single datagram: what is sent with one, what comes with one, what is refused.

use crate::kit::{LIMIT, loopback, option};
use std::sync::Arc;
use std::time::Instant;
use xti::tpi::{OptionStatus, level, name};
use xti::{
    DatagramFailure, ServiceType, StreamOptions, TliError, XtiEndpoint, inet, loopback as host,
};

fn bound() -> (XtiEndpoint, Vec<u8>) {
    let setup: inet::Setup = Arc::new(|_| Ok(()));
    let end = XtiEndpoint::open_udp(setup, StreamOptions::default()).unwrap();
    let address = end.bind(&loopback(), 0).unwrap().address;
    (end, address)
}

/// A datagram, and the type of service and the time to live that it came with.
fn receive(end: &XtiEndpoint) -> (Vec<u8>, Vec<(u32, Vec<u8>)>) {
    let (mut buffer, mut source, mut options) = ([0; 64], Vec::new(), Vec::new());
    let received = end.receive_datagram_with(&mut buffer, &mut source, &mut options, LIMIT);
    let len = received.unwrap().len;
    let named = options.into_iter().map(|one| {
        assert_eq!(
            (one.level, one.status),
            (level::INET_IP, Some(OptionStatus::Success))
        );
        (one.name, one.value)
    });
    (buffer[..len].to_vec(), named.collect())
}

fn failure(end: &XtiEndpoint) -> DatagramFailure {
    let deadline = Instant::now() + LIMIT;
    loop {
        end.run();
        match end.receive_datagram_error() {
            Ok(failure) => return failure,
            Err(_) => assert!(Instant::now() < deadline, "no T_UDERR"),
        }
    }
}

#[test]
fn options_are_those_of_one_datagram_and_come_with_it() {
    let ((a, at_a), (b, at_b)) = (bound(), bound());
    b.report_options();
    a.report_options();
    let usual = |end: &XtiEndpoint, from: &XtiEndpoint, to: &[u8]| {
        from.send_datagram(to, b"usual", LIMIT).unwrap();
        let (octets, options) = receive(end);
        assert_eq!(octets, b"usual");
        options
    };
    let before = usual(&b, &a, &at_b);
    assert_eq!(before[0], (name::TOS, vec![0]));
    let own = [
        option(level::INET_IP, name::TTL, &7_u32.to_ne_bytes()),
        option(level::INET_IP, name::TOS, &[0x20]),
    ];
    a.send_datagram_with(&at_b, b"own", &own, LIMIT).unwrap();
    let wanted = vec![(name::TOS, vec![0x20]), (name::TTL, vec![7])];
    assert_eq!(receive(&b), (b"own".to_vec(), wanted));
    // The next ones are as before, in both directions.
    assert_eq!(usual(&b, &a, &at_b), before);
    assert_eq!(usual(&a, &b, &at_a), before);
}

#[test]
fn who_does_not_ask_gets_none_and_a_rest_has_none() {
    let ((a, _), (b, at_b)) = (bound(), bound());
    let own = [option(level::INET_IP, name::TTL, &[9])];
    a.send_datagram_with(&at_b, b"plain", &own, LIMIT).unwrap();
    let (mut buffer, mut source) = ([0; 3], Vec::new());
    let received = b.receive_datagram(&mut buffer, &mut source, LIMIT).unwrap();
    assert!(received.more);
    let mut options = own.to_vec();
    let rest = b.try_receive_datagram_with(&mut buffer, &mut source, &mut options);
    assert_eq!((rest.unwrap().len, options), (2, Vec::new()));
}

#[test]
fn datagram_with_an_option_that_is_not_taken_does_not_leave_and_says_which() {
    let ((a, _), (b, at_b)) = (bound(), bound());
    let good = option(level::INET_IP, name::TOS, &[8]);
    for (bad, status) in [
        (
            option(level::INET_IP, name::TTL, &[0]),
            OptionStatus::Failure,
        ),
        (
            option(level::INET_IP, name::TTL, &[]),
            OptionStatus::Failure,
        ),
        (
            option(level::INET_IP, name::BROADCAST, &[1]),
            OptionStatus::NotSupported,
        ),
        (
            option(level::INET_TCP, name::NODELAY, &[1]),
            OptionStatus::NotSupported,
        ),
    ] {
        let both = [good.clone(), bad];
        a.send_datagram_with(&at_b, b"lost", &both, LIMIT).unwrap();
        let failure = failure(&a);
        assert_eq!((failure.destination, failure.errno), (at_b.clone(), 95));
        let said: Vec<_> = failure.options.iter().map(|one| one.status).collect();
        assert_eq!(said, [Some(OptionStatus::Success), Some(status)]);
        a.send_datagram(&at_b, b"leaves", LIMIT).unwrap();
        b.report_options();
        let (octets, options) = receive(&b);
        assert_eq!(octets, b"leaves");
        // What was taken of the other is taken back.
        assert!(!options.contains(&(name::TOS, vec![8])));
    }
}

#[test]
fn more_options_than_the_provider_takes_are_tbadopt() {
    let (a, at_a) = bound();
    let many = vec![option(level::INET_IP, name::TTL, &[1; 8]); 22];
    let sent = a.try_send_datagram_with(&at_a, b"x", &many);
    assert_eq!(sent.map_err(|error| error.tli), Err(TliError::BadOption));
    let options = StreamOptions::default();
    let own = XtiEndpoint::open_loopback(ServiceType::Datagrams, host::RING_OCTETS, options);
    let own = own.unwrap();
    let at = own.bind(&[], 0).unwrap().address;
    let sent = own.try_send_datagram_with(&at, b"x", &many[..1]);
    assert_eq!(sent.map_err(|error| error.tli), Err(TliError::BadOption));
}
