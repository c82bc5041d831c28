//! Associations of a message: how many packets they take, and whose reply is whose; how those of streams open.

use crate::support::{LIMIT, Pair, Subject, flush, recv_one, send};
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use towpath::{Circuit, Interest, Options, registry};

fn subject(name: &str) -> Subject {
    let transport = registry::find(name).expect("a transport of this build");
    Subject::new(transport, &Options::default())
}

fn count(circuit: &dyn Circuit, name: &str) -> u64 {
    circuit.counts()[name]
}

/// Waits until an end has sent as many packets, and some time for more.
fn packets_sent(circuit: &mut dyn Circuit, least: u64) -> u64 {
    for _ in 0..200 {
        if count(circuit, "packets_sent") >= least {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // What should not come has time to.
    std::thread::sleep(Duration::from_millis(10));
    count(circuit, "packets_sent")
}

/// Whether neither end sent anything twice, as a busy machine makes them.
fn is_undisturbed(pair: &Pair) -> bool {
    [&pair.client, &pair.server].map(|end| count(&**end, "retransmissions")) == [0, 0]
}

#[test]
fn transaction_takes_three_packets() {
    for _ in 0..20 {
        let mut pair = subject("xtp-transaction").pair();
        send(&mut *pair.client, b"question");
        assert_eq!(recv_one(&mut *pair.server), b"question");
        send(&mut *pair.server, b"answer");
        assert_eq!(recv_one(&mut *pair.client), b"answer");
        let sent = [&mut pair.client, &mut pair.server].map(|end| packets_sent(&mut **end, 1));
        if is_undisturbed(&pair) {
            assert_eq!(sent, [2, 1], "request and end, reply");
            return;
        }
    }
    panic!("each of twenty was disturbed");
}

/// The packets that the ends of twenty datagrams sent, once nothing disturbs them.
fn packets_of_datagrams(subject: &Subject) -> [u64; 2] {
    for _ in 0..20 {
        let mut pair = subject.pair();
        for number in 0..20 {
            send(&mut *pair.client, &[number; 100]);
            assert_eq!(recv_one(&mut *pair.server), [number; 100]);
        }
        while let Err(error) = pair.client.finish() {
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        }
        let sent = [&mut pair.client, &mut pair.server].map(|end| packets_sent(&mut **end, 20));
        if is_undisturbed(&pair) {
            return sent;
        }
    }
    panic!("each of twenty runs was disturbed");
}

#[test]
fn datagram_takes_a_packet_and_an_acknowledged_one_two() {
    let subject = subject("xtp-datagram");
    assert_eq!(packets_of_datagrams(&subject), [20, 0]);
    let acknowledged = subject.with_option("acknowledged", "on");
    assert_eq!(packets_of_datagrams(&acknowledged), [20, 20]);
}

#[test]
fn request_without_a_reply_leaves_the_reply_to_the_next() {
    let mut pair = subject("xtp-transaction").pair();
    for request in [b"first", b"other", b"third"] {
        send(&mut *pair.client, request);
        assert_eq!(recv_one(&mut *pair.server), request, "in turn");
    }
    send(&mut *pair.server, b"of the third");
    assert_eq!(recv_one(&mut *pair.client), b"of the third");
    let error = pair.server.send(b"twice").expect_err("nothing is open");
    assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
}

#[test]
fn many_requests_under_way_wait_for_their_server_and_none_is_lost() {
    let mut pair = subject("xtp-transaction").pair();
    let mut sent = 0_u32;
    while pair.client.try_send(&sent.to_le_bytes()).is_ok() {
        sent += 1;
        assert!(sent < 1_000, "nothing holds the client back");
    }
    flush(&mut *pair.client);
    let mut received: Vec<Vec<u8>> = (0..sent).map(|_| recv_one(&mut *pair.server)).collect();
    received.sort();
    let mut expected: Vec<Vec<u8>> = (0..sent).map(|n| n.to_le_bytes().to_vec()).collect();
    expected.sort();
    assert_eq!(received, expected);
}

#[test]
fn wait_with_a_part_left_returns_and_the_request_stays_open() {
    for name in ["xtp-transaction", "xtp-datagram"] {
        let mut pair = subject(name).pair();
        send(&mut *pair.client, b"question");
        let mut buffer = [0; 5];
        let part = loop {
            match pair.server.receive_part(&mut buffer) {
                Ok(part) => break part.expect("a part"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        };
        assert_eq!((&buffer, part.len, part.end), (b"quest", 5, false));
        let deadline = Instant::now() + LIMIT;
        pair.server.wait(Interest::Read, deadline).expect("a part");
        assert!(Instant::now() < deadline, "{name}: it waited to the end");
        assert_eq!(recv_one(&mut *pair.server), b"ion");
        send(&mut *pair.server, b"answer");
        assert_eq!(recv_one(&mut *pair.client), b"answer", "{name}");
    }
}

#[test]
fn options_that_an_association_a_message_has_no_use_for_are_refused() {
    for (name, option, part) in [
        (
            "xtp-transaction",
            ("shortcut", "on"),
            "no option 'shortcut'",
        ),
        ("xtp-datagram", ("service", "bulk"), "no option 'service'"),
        (
            "xtp-transaction",
            ("flow", "reservation"),
            "no option 'flow'",
        ),
        ("xtp-transaction", ("open", "explicit"), "no option 'open'"),
        ("xtp-transaction", ("acknowledged", "on"), "acknowledged"),
        ("xtp-datagram", ("acknowledged", "maybe"), "give on or off"),
    ] {
        let transport = registry::find(name).expect("a transport of this build");
        let own = [(option.0.to_owned(), option.1.to_owned())];
        let refused = transport.check_options(&own.into_iter().collect());
        let text = refused.expect_err("it is refused");
        assert!(text.contains(part), "{name},{option:?}: {text}");
    }
    let mut pair = subject("xtp-datagram").pair();
    let error = pair.client.send(b"").expect_err("no message");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// Packets that the client of a circuit had sent when its server had the first message.
fn packets_before_the_first_message(subject: &Subject) -> u64 {
    let mut listener = subject
        .transport
        .listen(&subject.listening)
        .expect("a port");
    let rendezvous = listener.rendezvous().expect("an address");
    let connecting = |to| subject.transport.connect(to, 0, &subject.connecting);
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            let mut server = listener.accept(Instant::now() + LIMIT).expect("a client");
            recv_one(&mut *server);
            server
        });
        let mut client = connecting(&rendezvous).expect("a circuit");
        send(&mut *client, b"question");
        let _server = accepting.join().expect("the server has it");
        count(&*client, "packets_sent")
    })
}

#[test]
fn implicit_opening_carries_the_first_message_and_an_explicit_one_precedes_it() {
    for name in ["xtp", "xtp-message", "xtp-lent"] {
        let explicit = packets_before_the_first_message(&subject(name));
        assert!(explicit >= 2, "{name}: {explicit}");
        let implicit = subject(name).with_option("open", "implicit");
        // A thread that has no processor for a millisecond opens without data.
        let least = (0..50).map(|_| packets_before_the_first_message(&implicit));
        assert!(least.into_iter().any(|sent| sent == 1), "{name}");
    }
}

#[test]
fn server_that_sends_first_is_heard_over_an_implicit_opening() {
    for name in ["xtp", "xtp-message", "xtp-lent", "xtp-driver"] {
        let mut pair = subject(name).with_option("open", "implicit").pair();
        send(&mut *pair.server, b"welcome");
        assert_eq!(recv_one(&mut *pair.client), b"welcome", "{name}");
        send(&mut *pair.client, b"question");
        assert_eq!(recv_one(&mut *pair.server), b"question", "{name}");
    }
}

/// The UDP address of an endpoint.
fn address(circuit: &dyn Circuit) -> std::net::SocketAddr {
    let socket = circuit.descriptor().expect("a socket");
    let address = rustix::net::getsockname(socket).expect("an address");
    address.try_into().expect("an Internet address")
}

#[test]
fn circuits_with_priorities_share_an_endpoint_and_do_not_mix_data() {
    for name in ["xtp", "xtp-message", "xtp-lent"] {
        let mut subject = subject(name).with_option("sorts", "1/9");
        for options in [&mut subject.listening, &mut subject.connecting] {
            options.circuits = 3;
            options.one_peer = true;
        }
        let (_listener, mut clients, mut servers) = subject.open();
        let at = address(&*clients[0]);
        assert!(clients.iter().all(|one| address(&**one) == at), "{name}");
        for (index, client) in clients.iter_mut().enumerate() {
            send(&mut **client, &[index as u8; 8]);
        }
        for (index, server) in servers.iter_mut().enumerate() {
            assert_eq!(recv_one(&mut **server), [index as u8; 8], "{name}");
        }
        // What the endpoint counts is said once.
        for ends in [&clients, &servers] {
            let say = ends.iter().filter(|one| !one.counts().is_empty());
            assert_eq!(say.count(), 1, "{name}");
        }
        assert_eq!(clients[1].effective()["sorts"], "1/9");
    }
    for (name, own, part) in [
        ("xtp", &[("sorts", "1/x")][..], "from 0 to 65535"),
        ("xtp", &[("sorts", "1/2"), ("sort", "1")], "leave one"),
        ("xtp-driver", &[("sorts", "1/2")], "no option 'sorts'"),
    ] {
        let own = own.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        let refused = subject(name).transport.check_options(&own.collect());
        let text = refused.expect_err("it is refused");
        assert!(text.contains(part), "{text}");
    }
}
