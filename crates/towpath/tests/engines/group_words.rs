//! Words of groups: what they change at the sender and the receivers.

use crate::files::{Host, Scratch, endpoint};
use crate::group::pattern;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use towpath::files::{ReceiveLimits, send_to_group};
use towpath::xtp::group::{GroupWords, example_group};
use towpath::{Circuit, Options, find};

const LIMIT: Duration = Duration::from_secs(60);

/// A sender to three receivers with these options, the end that they show, and the rendezvous.
fn group_with(words: &[(&str, &str)]) -> (Box<dyn Circuit>, Box<dyn Circuit>, String) {
    let transport = find("xtp-multicast").expect("it is registered");
    let own = words.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    let receivers = ("receivers".to_owned(), "3".to_owned());
    let options = Options {
        transport_specific: own.chain([receivers]).collect(),
        ..Options::default()
    };
    transport
        .check_options(&options.transport_specific)
        .expect("known words");
    let mut listener = transport.listen(&options).expect("receivers");
    let rendezvous = listener.rendezvous().expect("addresses");
    let text = String::from_utf8_lossy(&rendezvous.bytes).into_owned();
    let (sender, receiver) = thread::scope(|scope| {
        let connecting = scope.spawn(|| transport.connect(&rendezvous, 0, &options));
        let receiver = listener.accept(Instant::now() + LIMIT).expect("a sender");
        let sender = connecting.join().expect("no panic");
        (sender.expect("all join"), receiver)
    });
    (sender, receiver, text)
}

/// Moves `bytes` from the sender to the receivers.
fn exchange(sender: &mut dyn Circuit, receiver: &mut dyn Circuit, bytes: &[u8]) {
    let deadline = Instant::now() + LIMIT;
    let (mut parts, mut got) = (bytes.chunks(10_000).peekable(), Vec::new());
    let mut buffer = vec![0; 65_536];
    while got.len() < bytes.len() {
        if parts
            .peek()
            .is_some_and(|part| sender.try_send(part).is_ok())
        {
            parts.next();
            sender.flush().expect("the loopback takes it");
        }
        match receiver.try_recv(&mut buffer) {
            Ok(len) => got.extend_from_slice(&buffer[..len.expect("no end yet")]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(Instant::now() < deadline, "{} bytes came", got.len());
    }
    assert!(got == bytes);
}

#[test]
fn receivers_that_hear_each_other_damp_their_answers() {
    let damped = [
        ("buckets", "2/8"),
        ("answer", "group"),
        ("damping", "on"),
        ("slot", "5ms"),
    ];
    for (words, is_damped) in [(&damped[..], true), (&damped[..2], false)] {
        let (mut sender, mut receiver, _) = group_with(words);
        assert_eq!(sender.effective()["buckets"], "2/8");
        assert_eq!(receiver.effective()["answer"], "group");
        // Which of the three is damped is a matter of their slots.
        let rounds = if is_damped { 2_000 } else { 20 };
        let left_out = (0..rounds).any(|_| {
            exchange(&mut *sender, &mut *receiver, &pattern(1_000));
            thread::sleep(Duration::from_millis(5));
            receiver.counts()["answers_damped"] > 0
        });
        assert_eq!(left_out, is_damped);
    }
}

#[test]
fn groups_of_3x_receive_what_is_sent() {
    for dialect in ["3.6", "3.5"] {
        for more in [("damping", "on"), ("replicate", "on")] {
            let (mut sender, mut receiver, _) = group_with(&[("dialect", dialect), more]);
            assert_eq!(receiver.effective()["dialect"], dialect);
            let answer = sender.effective()["answer"].clone();
            assert_eq!(answer == "group", more.0 == "damping");
            exchange(&mut *sender, &mut *receiver, &pattern(300_000));
        }
    }
}

#[test]
fn replicated_packets_go_to_each_receiver_and_to_no_group() {
    let bytes = pattern(300_000);
    let sent = [&[][..], &[("replicate", "on")]].map(|words| {
        let (mut sender, mut receiver, to) = group_with(words);
        exchange(&mut *sender, &mut *receiver, &bytes);
        assert_eq!(to.contains("239.19"), words.is_empty(), "{to}");
        sender.counts()["packets_sent"]
    });
    assert!(sent[1] > 2 * sent[0], "{sent:?}");
}

#[test]
fn words_that_do_not_go_with_groups_of_several_processes_are_refused() {
    let transport = find("xtp-multicast").expect("it is registered");
    for (words, part) in [
        (
            &[("replicate", "on"), ("group", "239.192.1.2:20000")][..],
            "leave one",
        ),
        (&[("damping", "on")], "add buckets=2/2"),
        (&[("acknowledged", "on"), ("error", "none")], "knows none"),
        (&[("acknowledged", "yes")], "off"),
        (
            &[("queue", "32k")],
            "it has acknowledged, receivers, group, answer",
        ),
    ] {
        let own = words.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        let refused = transport.check_options(&own.collect());
        let text = refused.expect_err("it is wrong");
        assert!(text.contains(part), "{text}");
    }
}

/// Nobody can join a group of IPv6 on the hosts' IPv4: only its port is used.
#[test]
fn file_reaches_a_host_without_multicast() {
    let here = Scratch::new();
    let content = pattern(300_000);
    let path = here.file("data", &content);
    let words = GroupWords {
        replicate: true,
        slot: Duration::from_millis(1),
        ..GroupWords::default()
    };
    let limits = ReceiveLimits {
        groups: vec!["ff15::/16".parse().expect("a range")],
        ..ReceiveLimits::default()
    };
    let host = Host::with_modules(false, limits, None);
    // The port may be taken; another one then.
    let sent = (0..20).find_map(|_| {
        let group = SocketAddr::new("ff15::7".parse().expect("a group"), example_group().port());
        let to = (group, &words);
        let sent = send_to_group(&endpoint(), &[host.address], to, &path, &mut |_| ());
        sent.expect("it can be sent").remove(0).ok()
    });
    assert_eq!(sent.expect("a port is free").size, 300_000);
    assert!(std::fs::read(host.folder.path("data")).expect("it is there") == content);
}
