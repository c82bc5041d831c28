//! Options that transports have in effect, and say so.

use crate::support::{Subject, flush, for_each, pattern, recv_bytes, send};
use towpath::Options;

#[test]
fn effective_options_and_counts_are_reported() {
    let options = Options {
        buffers: Some(256 << 10),
        ..Options::default()
    };
    for_each(&options, |subject| {
        let pair = subject.introduced_pair();
        let effective = pair.client.effective();
        let buffer = effective.get("send_buffer").map(|len| len.parse::<usize>());
        let buffer = buffer.and_then(Result::ok).unwrap_or(0);
        assert!(buffer >= 256 << 10, "{}: {effective:?}", subject.name());
        let counts = pair.client.counts();
        assert!(
            counts.get("send_calls") > Some(&0),
            "{}: {counts:?}",
            subject.name()
        );
    });
}

/// What a full socket drops is known of every engine whose packets come from one.
#[test]
fn engines_count_what_their_sockets_drop() {
    for name in [
        "xtp",
        "xtp-datagram",
        "sctp",
        "vmtp",
        "bare",
        "aal34",
        "aal5",
    ] {
        let transport = towpath::find(name).expect("a transport");
        let pair = Subject::new(transport, &Options::default()).introduced_pair();
        let counts = pair.client.counts();
        assert_eq!(counts.get("receive_drops"), Some(&0), "{name}: {counts:?}");
    }
}

#[test]
fn offloads_and_quick_acknowledgements_are_options() {
    for (name, option, value, read_back) in [
        ("tcp", "quickack", "on", ("quickack", "on")),
        ("tcp", "rcvlowat", "4096", ("rcvlowat", "4096")),
        ("xti-tcp", "streams", "off", ("streams", "off")),
        ("xti-udp", "streams", "off", ("streams", "off")),
        ("xti-tcp", "expedited", "on", ("expedited", "on")),
        ("xti-sctp", "lent", "off", ("lent", "off")),
        ("xtp", "splice", "on", ("splice", "on")),
        ("xtp", "splice", "off", ("splice", "off")),
        (
            "udp-segmented",
            "gso",
            "off",
            ("segmentation", "off: as asked"),
        ),
        ("udp-segmented", "gro", "off", ("coalescing", "off")),
        ("quic", "gso", "off", ("segmentation", "off")),
        ("quic", "gro", "off", ("coalescing", "off")),
    ] {
        let options = Options {
            transport_specific: [(option.to_owned(), value.to_owned())].into(),
            ..Options::default()
        };
        let transport = towpath::find(name).expect("a transport");
        let valid = transport.check_options(&options.transport_specific);
        assert_eq!(valid, Ok(()), "{name}");
        let wrong = [(option.to_owned(), "maybe".to_owned())].into();
        let why = transport.check_options(&wrong).expect_err("neither");
        let remedy = match option {
            "rcvlowat" => "a number of octets",
            "streams" => "streams is on|off",
            "expedited" => "expedited is off|on",
            "lent" => "lent is on|off",
            "splice" => "choose off, on",
            _ => "give on or off",
        };
        assert!(why.contains(remedy), "{why}");
        let mut pair = Subject::new(transport, &options).introduced_pair();
        for salt in 0..3 {
            let message = pattern(1200, salt);
            send(&mut *pair.client, &message);
            flush(&mut *pair.client);
            assert_eq!(recv_bytes(&mut *pair.server, 1200), message, "{name}");
        }
        let effective = pair.client.effective();
        let (key, words) = read_back;
        let said = effective.get(key).map(String::as_str);
        assert_eq!(said, Some(words), "{name},{option}={value}");
    }
}
