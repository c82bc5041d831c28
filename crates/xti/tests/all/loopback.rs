//! Loop-back: connections and datagrams between ends of one host, through rings of shared memory.

use crate::kit::{LIMIT, deadline};
use xti::tpi::{OptionStatus, OptionsAction, TransportOption, level, name};
use xti::{
    Error, Flags, Look, Marks, ServiceType, StreamOptions, TliError, With, XtiEndpoint, XtiState,
    loopback,
};

const SERVICES: [ServiceType; 2] = [
    ServiceType::Connections,
    ServiceType::ConnectionsWithRelease,
];

pub fn open(service: ServiceType, options: StreamOptions) -> XtiEndpoint {
    XtiEndpoint::open_loopback(service, loopback::RING_OCTETS, options).unwrap()
}

pub fn bound(service: ServiceType, queue_len: u32) -> (XtiEndpoint, Vec<u8>) {
    let end = open(service, StreamOptions::default());
    let address = end.bind(&[], queue_len).unwrap().address;
    (end, address)
}

fn start(service: ServiceType, address: &[u8], options: StreamOptions) -> XtiEndpoint {
    let client = open(service, options);
    client.bind(&[], 0).unwrap();
    client.start_connect(address).unwrap();
    client
}

/// Two ends of a connection.
fn pair(service: ServiceType, options: StreamOptions) -> (XtiEndpoint, XtiEndpoint) {
    let (listener, address) = bound(service, 4);
    let client = start(service, &address, options);
    let call = listener.listen(deadline()).unwrap();
    let server = open(service, options);
    listener.accept(&server, call.sequence).unwrap();
    client.receive_connect().unwrap();
    (client, server)
}

pub fn tli<T: std::fmt::Debug>(result: Result<T, Error>) -> TliError {
    result.unwrap_err().tli
}

fn send(end: &XtiEndpoint, octets: &[u8]) {
    assert_eq!(end.send(octets, Flags::default(), LIMIT), Ok(octets.len()));
}

/// A whole message.
fn receive(end: &XtiEndpoint) -> Vec<u8> {
    receive_parts(end, 3000).concat()
}

/// A whole message, in parts of at most `len` octets.
fn receive_parts(end: &XtiEndpoint, len: usize) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut buffer = vec![0; len];
    loop {
        let part = end.receive_within(&mut buffer, LIMIT).unwrap();
        parts.push(buffer[..part.len].to_vec());
        if !part.more {
            return parts;
        }
    }
}

pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn messages_keep_their_boundaries_around_the_length_of_a_primitive() {
    const TIDU: usize = loopback::TIDU;
    for service in SERVICES {
        for options in crate::kit::all_options() {
            let (client, server) = pair(service, options);
            let lens = [0, 1, TIDU - 1, TIDU, TIDU + 1, 2 * TIDU, 0, 5];
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    lens.iter().for_each(|&len| send(&client, &pattern(len)));
                    client.flush(LIMIT).unwrap();
                });
                for len in lens {
                    assert!(receive(&server) == pattern(len), "{len} {options:?}");
                }
            });
        }
    }
}

#[test]
fn message_goes_on_until_a_send_without_t_more() {
    let (client, server) = pair(SERVICES[1], StreamOptions::default());
    let more = Flags {
        more: true,
        ..Flags::default()
    };
    client.send(b"begin", more, LIMIT).unwrap();
    client.send(b" middle", more, LIMIT).unwrap();
    send(&client, b" end");
    send(&client, b"next");
    // What has come is given at once, so that the message has two parts or more.
    let parts = receive_parts(&server, 8);
    assert_eq!(parts.concat(), b"begin middle end");
    assert!(parts.iter().all(|part| (1..=8).contains(&part.len())));
    assert_eq!(receive(&server), b"next");
    assert_eq!(
        tli(client.send(&vec![0; loopback::TSDU + 1], Flags::default(), LIMIT)),
        TliError::BadData
    );
}

#[test]
fn expedited_data_pass_others_and_interrupt_a_message() {
    let (client, server) = pair(SERVICES[1], StreamOptions::default());
    let expedited = Flags {
        more: false,
        expedited: true,
    };
    send(&client, b"ordinary");
    client.send(b"urgent", expedited, LIMIT).unwrap();
    assert_eq!(tli(client.send(b"", expedited, LIMIT)), TliError::BadData);
    client.flush(LIMIT).unwrap();
    server.look();
    let mut buffer = [0; 4];
    let got = server.receive_within(&mut buffer, LIMIT).unwrap();
    assert_eq!((&buffer, got.more, got.expedited), (b"urge", true, true));
    let got = server.receive_within(&mut buffer, LIMIT).unwrap();
    assert_eq!(
        (&buffer[..got.len], got.more, got.expedited),
        (&b"nt"[..], false, true)
    );
    let got = server.receive_within(&mut buffer, LIMIT).unwrap();
    assert_eq!((&buffer, got.more, got.expedited), (b"ordi", true, false));
    client.send(b"!", expedited, LIMIT).unwrap();
    client.flush(LIMIT).unwrap();
    server.look();
    let got = server.receive_within(&mut buffer, LIMIT).unwrap();
    assert_eq!(
        (&buffer[..got.len], got.more, got.expedited),
        (&b"!"[..], false, true)
    );
    assert_eq!(receive(&server), b"nary");
    client.send(b"alone", expedited, LIMIT).unwrap();
    assert_eq!(wait_for_event(&server), Look::Expedited);
    let long = pattern(2 * loopback::TIDU + 1);
    let got = server.receive_within(&mut [0; 8], LIMIT).unwrap();
    assert_eq!((got.len, got.expedited), (5, true));
    client.send(&long, expedited, LIMIT).unwrap();
    assert!(receive(&server) == long);
}

fn wait_for_event(end: &XtiEndpoint) -> Look {
    loop {
        if let Some(event) = end.look() {
            return event;
        }
        end.wait(false, LIMIT).unwrap();
        assert!(std::time::Instant::now() < deadline());
    }
}

fn saying(user_data: &[u8]) -> With<'_> {
    With {
        options: &[],
        user_data,
    }
}

#[test]
fn users_say_something_with_a_connect_its_answer_a_release_and_a_disconnect() {
    let (listener, address) = bound(SERVICES[1], 4);
    let client = open(SERVICES[1], StreamOptions::default());
    client.bind(&[], 0).unwrap();
    let too_long = vec![0; loopback::WITH_DATA + 1];
    assert_eq!(
        tli(client.start_connect_with(&address, saying(&too_long))),
        TliError::BadData
    );
    client
        .start_connect_with(&address, saying(b"may I?"))
        .unwrap();
    let call = listener.listen(deadline()).unwrap();
    assert_eq!(call.user_data, b"may I?");
    let server = open(SERVICES[1], StreamOptions::default());
    listener
        .accept_with(&server, call.sequence, saying(b"you may"))
        .unwrap();
    let answer = client.receive_connect_call().unwrap();
    assert_eq!(
        (answer.address, answer.user_data),
        (address.clone(), b"you may".to_vec())
    );
    client.send_release_with_data(b"that was all").unwrap();
    assert_eq!(wait_for_event(&server), Look::Release);
    assert_eq!(server.receive_release_data().unwrap(), b"that was all");
    server
        .send_disconnect_with_data(None, b"not enough")
        .unwrap();
    assert_eq!(wait_for_event(&client), Look::Disconnect);
    assert_eq!(
        client.receive_disconnect().unwrap().user_data,
        b"not enough"
    );
    client.start_connect(&address).unwrap();
    let call = listener.listen(deadline()).unwrap();
    listener
        .send_disconnect_with_data(Some(call.sequence), b"no")
        .unwrap();
    assert_eq!(wait_for_event(&client), Look::Disconnect);
    assert_eq!(client.receive_disconnect().unwrap().user_data, b"no");
    let over_tcp = crate::kit::open(StreamOptions::default());
    over_tcp.bind(&[], 0).unwrap();
    assert_eq!(
        tli(over_tcp.start_connect_with(&[2; 16], saying(b"x"))),
        TliError::BadData
    );
}

#[test]
fn provider_is_found_by_its_device() {
    for (device, service) in [
        ("/dev/tcp", ServiceType::ConnectionsWithRelease),
        ("/dev/udp", ServiceType::Datagrams),
        ("/dev/ticlts", ServiceType::Datagrams),
        ("/dev/ticots", ServiceType::Connections),
        ("/dev/ticotsord", ServiceType::ConnectionsWithRelease),
    ] {
        let end = XtiEndpoint::open_device(device, StreamOptions::default()).unwrap();
        assert_eq!(end.information().service, service, "{device}");
    }
    let none = XtiEndpoint::open_device("/dev/tpc", StreamOptions::default());
    assert_eq!(none.err().map(|error| error.tli), Some(TliError::BadName));
}

#[test]
fn release_of_one_end_leaves_the_other_direction_open() {
    let (client, server) = pair(
        ServiceType::ConnectionsWithRelease,
        StreamOptions::default(),
    );
    send(&client, b"last");
    client.send_release().unwrap();
    assert_eq!(receive(&server), b"last");
    assert_eq!(
        tli(server.receive_within(&mut [0; 4], LIMIT)),
        TliError::Look
    );
    server.receive_release().unwrap();
    send(&server, b"answer");
    server.send_release().unwrap();
    assert_eq!(receive(&client), b"answer");
    assert_eq!(
        tli(client.receive_within(&mut [0; 4], LIMIT)),
        TliError::Look
    );
    client.receive_release().unwrap();
    assert_eq!(
        (client.state(), server.state()),
        (XtiState::Idle, XtiState::Idle)
    );
}

#[test]
fn connections_without_orderly_release_refuse_it() {
    let (client, server) = pair(ServiceType::Connections, StreamOptions::default());
    assert_eq!(tli(client.send_release()), TliError::NotSupported);
    assert_eq!(tli(server.receive_release()), TliError::NotSupported);
    client.send_disconnect(None).unwrap();
    assert_eq!(
        tli(server.receive_within(&mut [0; 4], LIMIT)),
        TliError::Look
    );
    assert_eq!(server.look(), Some(Look::Disconnect));
    assert_eq!(
        server.receive_disconnect().unwrap().reason,
        104,
        "ECONNRESET"
    );
    assert_eq!(
        (client.state(), server.state()),
        (XtiState::Idle, XtiState::Idle)
    );
}

#[test]
fn end_that_closes_is_an_event_behind_its_data() {
    for service in SERVICES {
        let (client, server) = pair(service, StreamOptions::default());
        send(&client, b"last");
        drop(client);
        assert_eq!(receive(&server), b"last");
        assert_eq!(
            tli(server.receive_within(&mut [0; 4], LIMIT)),
            TliError::Look
        );
        let event = match service {
            ServiceType::Connections => Look::Disconnect,
            _ => Look::Release,
        };
        assert_eq!(server.look(), Some(event));
    }
}

#[test]
fn connections_are_refused_withdrawn_and_not_mixed_between_providers() {
    for service in SERVICES {
        let client = start(service, b"nobody listens here", StreamOptions::default());
        assert_eq!(tli(client.receive_connect()), TliError::Look);
        assert_eq!(
            client.receive_disconnect().unwrap().reason,
            111,
            "ECONNREFUSED"
        );
        let (listener, address) = bound(service, 4);
        let refused = start(service, &address, StreamOptions::default());
        let call = listener.listen(deadline()).unwrap();
        let (local, _) = refused.addresses().unwrap();
        assert_eq!(call.address, local);
        let other = open(
            match service {
                ServiceType::Connections => ServiceType::ConnectionsWithRelease,
                _ => ServiceType::Connections,
            },
            StreamOptions::default(),
        );
        assert_eq!(
            tli(listener.accept(&other, call.sequence)),
            TliError::ProviderMismatch
        );
        listener.send_disconnect(Some(call.sequence)).unwrap();
        assert_eq!(tli(refused.receive_connect()), TliError::Look);
        let withdrawn = start(service, &address, StreamOptions::default());
        let call = listener.listen(deadline()).unwrap();
        drop(withdrawn);
        assert_eq!(listener.look(), Some(Look::Disconnect));
        assert_eq!(
            listener.receive_disconnect().unwrap().sequence,
            call.sequence
        );
        assert_eq!(listener.state(), XtiState::Idle);
        let accepted = start(service, &address, StreamOptions::default());
        let call = listener.listen(deadline()).unwrap();
        listener.accept_here(call.sequence).unwrap();
        accepted.receive_connect().unwrap();
        send(&accepted, b"to the listener");
        assert_eq!(receive(&listener), b"to the listener");
        assert_eq!(accepted.addresses().unwrap().1, address);
    }
}

#[test]
fn address_is_held_by_one_listener_of_a_provider() {
    let name = format!("held by {}", std::process::id());
    let first = open(SERVICES[0], StreamOptions::default());
    assert_eq!(
        first.bind(name.as_bytes(), 1).unwrap().address,
        name.as_bytes()
    );
    let second = open(SERVICES[0], StreamOptions::default());
    assert_eq!(tli(second.bind(name.as_bytes(), 1)), TliError::AddressBusy);
    assert_eq!(tli(second.bind(&[b'a'; 65], 1)), TliError::BadAddress);
    second.bind(name.as_bytes(), 0).unwrap();
    let other_provider = open(SERVICES[1], StreamOptions::default());
    other_provider.bind(name.as_bytes(), 1).unwrap();
    first.unbind().unwrap();
    second.unbind().unwrap();
    second.bind(name.as_bytes(), 1).unwrap();
}

#[test]
fn full_connection_refuses_and_goes_on_when_the_peer_reads() {
    for service in SERVICES {
        let options = StreamOptions {
            marks: Marks::new(4096, 1024).unwrap(),
            ..StreamOptions::default()
        };
        let (client, server) = pair(service, options);
        let message = pattern(1000);
        let mut sent = 0;
        while client.try_send(&message, Flags::default()) == Ok(1000) {
            sent += 1;
            assert!(sent < 100_000, "it is never full");
        }
        for _ in 0..sent {
            assert!(receive(&server) == message);
            // What waited goes on.
            client.look();
        }
        assert_eq!(tli(server.try_receive(&mut [0; 4])), TliError::NoData);
        send(&client, b"after");
        assert_eq!(receive(&server), b"after");
    }
}

#[test]
fn messages_between_threads_wake_who_waits() {
    let (client, server) = pair(SERVICES[1], StreamOptions::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..20_000u32 {
                send(&client, &number.to_ne_bytes());
            }
            client.send_release().unwrap();
        });
        for number in 0..20_000u32 {
            assert_eq!(receive(&server), number.to_ne_bytes());
        }
        assert_eq!(
            tli(server.receive_within(&mut [0; 4], LIMIT)),
            TliError::Look
        );
    });
}

#[test]
fn options_of_the_loop_back_are_none_and_each_is_said_so() {
    let (end, _) = bound(SERVICES[0], 0);
    let option = TransportOption {
        level: level::XTI_GENERIC,
        name: name::SNDBUF,
        status: None,
        value: 4096u32.to_ne_bytes().to_vec(),
    };
    let (answers, worst) = end
        .manage_options(&[option], OptionsAction::Negotiate)
        .unwrap();
    assert_eq!(worst, OptionStatus::NotSupported);
    assert_eq!(answers[0].status, Some(OptionStatus::NotSupported));
    assert_eq!(
        tli(end.manage_options(&[], OptionsAction::Current)),
        TliError::BadOption
    );
}
