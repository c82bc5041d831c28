//! XTI over XTP and SCTP, on the loopback.

use engine::Framing;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};
use towpath::{sctp, xti_carrier, xtp};
use xti::carrier::Carrier;
use xti::sctp::name;
use xti::tpi::{OptionStatus, OptionsAction, TransportOption, level};
use xti::{Error, Flags, Look, StreamOptions, TliError, XtiEndpoint, XtiState, inet};

const LIMIT: Duration = Duration::from_secs(30);

/// The kinds of providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Xtp,
    Sctp,
    /// One message without end.
    SctpStream,
}

const ALL: [Over; 3] = [Over::Xtp, Over::Sctp, Over::SctpStream];

impl Over {
    fn carrier(self) -> Box<dyn Carrier> {
        let mut config = sctp::EndpointConfig::default();
        match self {
            Over::Xtp => return xti_carrier::xtp(&xtp::EndpointConfig::default()),
            Over::Sctp => {}
            Over::SctpStream => config.config.framing = Framing::Stream,
        }
        xti_carrier::sctp(&config)
    }

    fn open(self) -> XtiEndpoint {
        XtiEndpoint::open_over(self.carrier(), StreamOptions::default()).expect("it opens")
    }

    /// An end that listens, and its address.
    fn listener(self) -> (XtiEndpoint, Vec<u8>) {
        let end = self.open();
        let any = inet::encode("127.0.0.1:0".parse().expect("an address"));
        let address = end.bind(&any, 8).expect("a port").address;
        (end, address)
    }

    fn client(self) -> XtiEndpoint {
        let end = self.open();
        end.bind(&[], 0).expect("no address is needed");
        end
    }

    /// Both ends of a connection, and the end that listened.
    fn pair(self) -> (XtiEndpoint, XtiEndpoint, XtiEndpoint) {
        let (listener, address) = self.listener();
        let client = self.client();
        client.start_connect(&address).expect("it begins");
        let server = accept(self, &listener);
        finish_connect(&client);
        (client, server, listener)
    }
}

fn deadline() -> Instant {
    Instant::now() + LIMIT
}

fn accept(over: Over, listener: &XtiEndpoint) -> XtiEndpoint {
    let call = listener.listen(deadline()).expect("a connection");
    let end = over.open();
    listener
        .accept(&end, call.sequence)
        .expect("it is accepted");
    end
}

fn finish_connect(client: &XtiEndpoint) {
    let end = deadline();
    loop {
        match client.receive_connect() {
            Err(Error {
                tli: TliError::NoData,
                ..
            }) if Instant::now() < end => {
                client
                    .wait(true, Duration::from_millis(20))
                    .expect("it waits");
            }
            other => return other.expect("it is connected"),
        }
    }
}

fn send(end: &XtiEndpoint, octets: &[u8]) {
    let sent = end
        .send(octets, Flags::default(), LIMIT)
        .expect("it is sent");
    assert_eq!(sent, octets.len());
}

/// Receives as many octets.
fn receive(end: &XtiEndpoint, len: usize) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 4096]);
    while all.len() < len {
        buffer.truncate(len - all.len());
        let received = end.receive_within(&mut buffer, LIMIT).expect("octets");
        all.extend_from_slice(&buffer[..received.len]);
    }
    all
}

/// Waits for an event.
fn event(end: &XtiEndpoint) -> Look {
    let until = deadline();
    loop {
        match end.look() {
            Some(look) => return look,
            None => assert!(Instant::now() < until, "no event"),
        }
        end.wait(false, Duration::from_millis(20))
            .expect("it waits");
    }
}

#[test]
fn connections_of_one_listener_share_its_port_and_keep_apart() {
    for over in ALL {
        let (listener, address) = over.listener();
        let clients: Vec<XtiEndpoint> = (0..3).map(|_| over.client()).collect();
        for client in &clients {
            client.start_connect(&address).expect("it begins");
        }
        let servers: Vec<XtiEndpoint> = (0..3).map(|_| accept(over, &listener)).collect();
        for (number, client) in (1..).zip(&clients) {
            finish_connect(client);
            send(client, &[number; 3000]);
        }
        let mut seen = Vec::new();
        for server in &servers {
            let got = receive(server, 3000);
            assert!(got.iter().all(|octet| *octet == got[0]), "{over:?}: mixed");
            send(server, &[got[0] + 100]);
            seen.push(got[0]);
        }
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3], "{over:?}");
        for (number, client) in (1..).zip(&clients) {
            assert_eq!(receive(client, 1), [number + 100], "{over:?}");
        }
    }
}

#[test]
fn a_port_that_nobody_has_refuses() {
    for over in ALL {
        // Bound, so that nobody else takes it, and closed before the connect.
        let nobody = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = inet::encode(nobody.local_addr().expect("its address"));
        drop(nobody);
        let client = over.client();
        client.start_connect(&address).expect("it begins");
        assert_eq!(event(&client), Look::Disconnect, "{over:?}");
        let end = client.receive_disconnect().expect("an end");
        assert_eq!(end.reason, 111, "{over:?}");
        assert_eq!(client.state(), XtiState::Idle);

        // The same end may try elsewhere.
        let (listener, address) = over.listener();
        client.start_connect(&address).expect("it begins");
        let server = accept(over, &listener);
        finish_connect(&client);
        send(&client, b"here");
        assert_eq!(receive(&server, 4), b"here", "{over:?}");
    }
}

#[test]
fn a_user_may_refuse_a_connection() {
    for over in ALL {
        let (listener, address) = over.listener();
        let client = over.client();
        client.start_connect(&address).expect("it begins");
        let call = listener.listen(deadline()).expect("a connection");
        listener
            .send_disconnect(Some(call.sequence))
            .expect("refused");
        // The protocol may have connected already: then the refusal is the end of the connection.
        let ended = event(&client);
        if ended == Look::Connect {
            client.receive_connect().expect("it was connected");
        }
        assert_eq!(event(&client), Look::Disconnect, "{over:?}");
    }
}

#[test]
fn parts_of_a_message_become_one() {
    let (client, server, _listener) = Over::Sctp.pair();
    let more = Flags {
        more: true,
        ..Flags::default()
    };
    client.send(b"ab", more, LIMIT).expect("a part");
    client.send(b"cd", more, LIMIT).expect("a part");
    send(&client, b"e");
    send(&client, &[9; 100_000]);
    let mut buffer = [0; 16];
    let received = server
        .receive_within(&mut buffer, LIMIT)
        .expect("a message");
    assert_eq!(
        (&buffer[..received.len], received.more),
        (&b"abcde"[..], false)
    );
    let mut got = 0;
    loop {
        let received = server.receive_within(&mut buffer, LIMIT).expect("a part");
        got += received.len;
        if !received.more {
            break;
        }
    }
    assert_eq!(got, 100_000);
    let too_long = vec![0; client.information().tsdu as usize + 1];
    let refused = client
        .send(&too_long, Flags::default(), LIMIT)
        .expect_err("too long");
    assert_eq!(refused.tli, TliError::BadData);
}

#[test]
fn after_the_peers_release_xtp_sends_and_sctp_does_not() {
    for over in ALL {
        let (client, server, _listener) = over.pair();
        send(&client, b"last");
        client.send_release().expect("it releases");
        assert_eq!(receive(&server, 4), b"last");
        assert_eq!(event(&server), Look::Release, "{over:?}");
        server.receive_release().expect("the peer's release");
        if over == Over::Xtp {
            send(&server, b"answer");
            assert_eq!(receive(&client, 6), b"answer");
            server.send_release().expect("it releases");
            assert_eq!(event(&client), Look::Release);
            client.receive_release().expect("the peer's release");
            assert_eq!(client.state(), XtiState::Idle);
            continue;
        }
        // The send is taken by the queue; what comes of it is an event.
        let _ = server.send(b"too late", Flags::default(), LIMIT);
        server.run();
        assert_eq!(event(&server), Look::Disconnect, "{over:?}");
        assert_eq!(server.receive_disconnect().expect("an end").reason, 32);
    }
}

#[test]
fn one_thread_waits_for_data_while_another_sends() {
    for over in ALL {
        let (client, server, _listener) = over.pair();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| receive(&client, 100 * 1000));
            scope.spawn(|| {
                for _ in 0..100 {
                    let got = receive(&server, 1000);
                    send(&server, &got);
                }
            });
            for number in 0..100 {
                send(&client, &[number; 1000]);
                thread::sleep(Duration::from_micros(200));
            }
            let got = waiting.join().expect("no panic");
            let expected: Vec<u8> = (0..100).flat_map(|number| [number; 1000]).collect();
            assert!(got == expected, "{over:?}: changed");
        });
    }
}

#[test]
fn an_end_that_is_dropped_sends_what_it_has_and_a_disconnect_does_not() {
    for over in ALL {
        let (client, server, _listener) = over.pair();
        send(&client, &[5; 50_000]);
        drop(client);
        assert_eq!(receive(&server, 50_000), vec![5; 50_000], "{over:?}");
        assert_eq!(event(&server), Look::Release, "{over:?}");

        let (client, server, _listener) = over.pair();
        client.send_disconnect(None).expect("it ends");
        assert_eq!(client.state(), XtiState::Idle);
        assert_eq!(event(&server), Look::Disconnect, "{over:?}");
    }
}

/// Receives a message with what came with it: its octets, whether it is expedited, and its options as numbers.
fn receive_with(end: &XtiEndpoint) -> (Vec<u8>, bool, Vec<(u32, u32)>) {
    let (until, mut buffer, mut options) = (deadline(), [0; 64], Vec::new());
    loop {
        match end.try_receive_with(&mut buffer, &mut options) {
            Ok(received) => {
                let number = |option: &TransportOption| {
                    let value = option.value.as_slice().try_into().expect("four octets");
                    (option.name, u32::from_ne_bytes(value))
                };
                let numbers = options.iter().map(number).collect();
                return (buffer[..received.len].to_vec(), received.expedited, numbers);
            }
            Err(error) => assert!(
                error.tli == TliError::NoData && Instant::now() < until,
                "{error:?}"
            ),
        }
        end.wait(false, Duration::from_millis(20))
            .expect("it waits");
    }
}

fn of_sctp(name: u32, value: u32) -> TransportOption {
    TransportOption {
        level: level::INET_SCTP,
        name,
        status: None,
        value: value.to_ne_bytes().to_vec(),
    }
}

/// The number that an option has.
fn current(end: &XtiEndpoint, name: u32) -> u32 {
    let asked = TransportOption {
        value: Vec::new(),
        ..of_sctp(name, 0)
    };
    let answers = end.manage_options(&[asked], OptionsAction::Current);
    let value = &answers.expect("an answer").0[0].value;
    u32::from_ne_bytes(value.as_slice().try_into().expect("four octets"))
}

#[test]
fn options_of_sctp_reach_the_engine_and_come_with_messages() {
    let (listener, address) = Over::Sctp.listener();
    let client = Over::Sctp.client();
    let negotiate = |option| {
        let (_, worst) = client
            .manage_options(&[option], OptionsAction::Negotiate)
            .expect("an answer");
        assert_eq!(worst, OptionStatus::Success);
    };
    negotiate(of_sctp(name::OSTREAMS, 5));
    negotiate(of_sctp(name::PPI, 46));
    client.start_connect(&address).expect("it begins");
    let server = accept(Over::Sctp, &listener);
    finish_connect(&client);
    assert_eq!(current(&client, name::OSTREAMS), 5);
    assert_eq!(current(&server, name::ISTREAMS), 5);
    assert!(current(&client, name::MAXSEG) > 1000);

    send(&client, b"as set");
    negotiate(of_sctp(name::SID, 4));
    send(&client, b"on 4");
    let own = [of_sctp(name::SID, 2), of_sctp(name::PPI, 9)];
    let flags = Flags::default();
    client
        .send_with(b"its own", flags, &own, LIMIT)
        .expect("sent");
    let expedited = Flags {
        expedited: true,
        ..flags
    };
    client.send(b"now", expedited, LIMIT).expect("sent");
    let beyond = client.send_with(b"none", flags, &[of_sctp(name::SID, 5)], LIMIT);
    assert_eq!(beyond.expect_err("no such stream").tli, TliError::BadOption);

    let mut got: Vec<_> = (0..4).map(|_| receive_with(&server)).collect();
    // An expedited message may pass the others.
    got.sort_by_key(|(_, expedited, _)| *expedited);
    let options = |ppid, stream| vec![(name::PPI, ppid), (name::SID, stream)];
    let expected = [
        (b"as set".to_vec(), false, options(46, 0)),
        (b"on 4".to_vec(), false, options(46, 4)),
        (b"its own".to_vec(), false, options(9, 2)),
        (b"now".to_vec(), true, options(46, 4)),
    ];
    assert_eq!(got, expected);
}

#[test]
fn one_message_without_end_has_no_options_of_messages() {
    let (client, _server, _listener) = Over::SctpStream.pair();
    let asked = client.manage_options(&[of_sctp(name::SID, 1)], OptionsAction::Negotiate);
    assert_eq!(asked.expect("an answer").1, OptionStatus::NotSupported);
    let refused = client.send_with(b"a", Flags::default(), &[of_sctp(name::SID, 1)], LIMIT);
    assert_eq!(refused.expect_err("no options").tli, TliError::BadOption);
    let expedited = Flags {
        expedited: true,
        ..Flags::default()
    };
    let refused = client.send(b"!", expedited, LIMIT).expect_err("none");
    assert_eq!(refused.tli, TliError::NotSupported);
}

/// T_SCTP_HB and T_SCTP_RTO of the peer's address, in the engine that runs.
#[test]
fn heartbeats_and_timeouts_of_a_path_reach_the_engine() {
    let (client, _server, _listener) = Over::Sctp.pair();
    let structure = |name, rest: &[u32]| {
        let address = u32::from_ne_bytes([127, 0, 0, 1]);
        let words = [&[address][..], rest].concat();
        TransportOption {
            level: level::INET_SCTP,
            name,
            status: None,
            value: words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        }
    };
    let ask = |option: &TransportOption, action| {
        let answer = client.manage_options(std::slice::from_ref(option), action);
        let (options, worst) = answer.expect("options");
        (worst, options[0].value.clone())
    };
    let wanted = [
        structure(name::HB, &[1, 700]),
        structure(name::RTO, &[4000, 4000, 9000, 3]),
    ];
    for option in &wanted {
        assert_ne!(ask(option, OptionsAction::Current).1, option.value);
        let taken = (OptionStatus::Success, option.value.clone());
        assert_eq!(ask(option, OptionsAction::Negotiate), taken);
        assert_eq!(ask(option, OptionsAction::Current), taken);
    }
    // T_SCTP_STATUS tells the timeout that the engine has now: the shortest one.
    let status = ask(&structure(name::STATUS, &[]), OptionsAction::Current).1;
    let (words, _) = status.as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    assert_eq!((words[2], words[8]), (1, 4000), "{words:?}");
    let silent = structure(name::HB, &[0, 0]);
    assert_eq!(
        ask(&silent, OptionsAction::Negotiate).0,
        OptionStatus::Success
    );
    assert_eq!(ask(&silent, OptionsAction::Current).1, silent.value);
}
