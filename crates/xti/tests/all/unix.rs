//! Providers over the kernel's sockets of this host: `/dev/unix_cotsord` and `/dev/unix_clts`.

use crate::kit::{LIMIT, deadline};
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::thread;
use xti::inet::{SocketAddress, UnixName};
use xti::tpi::{ALL_OPTIONS, OptionStatus, OptionsAction, TransportOption, level, name};
use xti::{Flags, Look, ServiceType, StreamOptions, TliError, XtiEndpoint, XtiState, inet};

fn open(device: &str) -> XtiEndpoint {
    XtiEndpoint::open_device(device, StreamOptions::default()).unwrap()
}

fn named(name: &[u8]) -> Vec<u8> {
    SocketAddress::Unix(UnixName::new(name).unwrap()).encode()
}

/// A path of a file that is not there.
fn free_path(of: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("xti-{}-{of}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn await_event(end: &XtiEndpoint) -> Look {
    loop {
        match end.look() {
            Some(event) => return event,
            None => end.wait(false, LIMIT).unwrap(),
        }
    }
}

#[test]
fn connection_of_this_host_carries_data_and_ends_in_order() {
    let listener = open("/dev/unix_cotsord");
    let information = listener.information();
    assert_eq!(information.service, ServiceType::ConnectionsWithRelease);
    assert_eq!(
        (information.address, information.tsdu, information.etsdu),
        (110, 0, -2)
    );
    // Without an address it gets an abstract one.
    let bound = listener.bind(&[], 3).unwrap();
    assert_eq!(bound.address[..3], [1, 0, 0]);
    assert!(bound.address.len() > 3);
    let client = open("/dev/unix_cotsord");
    client.bind(&[], 0).unwrap();
    client.start_connect(&bound.address).unwrap();
    let call = listener.listen(deadline()).unwrap();
    let server = open("/dev/unix_cotsord");
    listener.accept(&server, call.sequence).unwrap();
    client.wait(true, LIMIT).unwrap();
    client.receive_connect().unwrap();

    let octets: Vec<u8> = (0..300_000u32).map(|at| at as u8).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sent = 0;
            while sent < octets.len() {
                sent += client
                    .send(&octets[sent..], Flags::default(), LIMIT)
                    .unwrap();
            }
            client.flush(LIMIT).unwrap();
            client.send_release().unwrap();
        });
        let (mut all, mut buffer) = (Vec::new(), vec![0; 7000]);
        while all.len() < octets.len() {
            let got = server.receive_within(&mut buffer, LIMIT).unwrap();
            all.extend_from_slice(&buffer[..got.len]);
        }
        assert!(all == octets);
    });
    assert_eq!(await_event(&server), Look::Release);
    server.receive_release().unwrap();
    server.send(b"still", Flags::default(), LIMIT).unwrap();
    server.send_release().unwrap();
    let mut buffer = [0; 16];
    let got = client.receive_within(&mut buffer, LIMIT).unwrap();
    assert_eq!(&buffer[..got.len], b"still");
    assert_eq!(await_event(&client), Look::Release);
    client.receive_release().unwrap();
    assert_eq!(
        (client.state(), server.state()),
        (XtiState::Idle, XtiState::Idle)
    );
    let urgent = Flags {
        expedited: true,
        ..Flags::default()
    };
    assert!(client.send(b"x", urgent, LIMIT).is_err());
}

/// A program of sockets is at the other end, in both roles, by paths and by abstract names.
#[test]
fn programs_of_sockets_are_met_by_paths_and_abstract_names() {
    let path = free_path("listens");
    let listener = UnixListener::bind(&path).unwrap();
    let client = open("/dev/unix_cotsord");
    client.bind(&[], 0).unwrap();
    client
        .start_connect(&named(path.as_os_str().as_encoded_bytes()))
        .unwrap();
    client.wait(true, LIMIT).unwrap();
    client.receive_connect().unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    client
        .send(b"to a socket", Flags::default(), LIMIT)
        .unwrap();
    client.flush(LIMIT).unwrap();
    let mut buffer = [0; 11];
    socket.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"to a socket");
    drop(socket);
    assert_eq!(await_event(&client), Look::Release);
    std::fs::remove_file(&path).unwrap();

    let own = format!("\0xti-test-{}", std::process::id());
    let listener = open("/dev/unix_cotsord");
    assert_eq!(
        listener.bind(&named(own.as_bytes()), 1).unwrap().address,
        named(own.as_bytes())
    );
    let other = open("/dev/unix_cotsord");
    let busy = other.bind(&named(own.as_bytes()), 1).unwrap_err();
    assert_eq!(busy.tli, TliError::AddressBusy);
    let address = SocketAddr::from_abstract_name(&own[1..]).unwrap();
    let mut socket = UnixStream::connect_addr(&address).unwrap();
    let call = listener.listen(deadline()).unwrap();
    assert_eq!(call.address, named(b""), "it has no name");
    let server = open("/dev/unix_cotsord");
    listener.accept(&server, call.sequence).unwrap();
    socket.write_all(b"from a socket").unwrap();
    let got = server.receive_within(&mut buffer, LIMIT).unwrap();
    assert_eq!(&buffer[..got.len], b"from a sock");
}

#[test]
fn nobody_and_wrong_addresses_are_refused() {
    let client = open("/dev/unix_cotsord");
    client.bind(&[], 0).unwrap();
    for nobody in [named(b"/nowhere/at all"), named(b"\0xti nobody")] {
        client.start_connect(&nobody).unwrap();
        assert_eq!(await_event(&client), Look::Disconnect);
        client.receive_disconnect().unwrap();
        assert_eq!(client.state(), XtiState::Idle);
    }
    let of_internet = inet::encode("127.0.0.1:9".parse().unwrap());
    for wrong in [
        of_internet.clone(),
        vec![1],
        [vec![1, 0], vec![b'x'; 108]].concat(),
    ] {
        let refused = client.start_connect(&wrong).unwrap_err();
        assert_eq!(refused.tli, TliError::BadAddress, "{wrong:?}");
    }
    let datagrams = open("/dev/unix_clts");
    assert_eq!(
        datagrams.bind(&of_internet, 0).unwrap_err().tli,
        TliError::BadAddress
    );
    let udp = open("/dev/udp");
    assert_eq!(
        udp.bind(&named(b"/x"), 0).unwrap_err().tli,
        TliError::BadAddress
    );
    let tcp = open("/dev/tcp");
    assert_eq!(
        tcp.bind(&named(b"/x"), 0).unwrap_err().tli,
        TliError::BadAddress
    );
}

#[test]
fn options_are_those_that_such_sockets_have() {
    for device in ["/dev/unix_cotsord", "/dev/unix_clts"] {
        let end = open(device);
        end.bind(&[], 0).unwrap();
        let all = TransportOption {
            level: level::XTI_GENERIC,
            name: ALL_OPTIONS,
            status: None,
            value: Vec::new(),
        };
        let (options, worst) = end.manage_options(&[all], OptionsAction::Default).unwrap();
        let names: Vec<u32> = options.iter().map(|option| option.name).collect();
        assert_eq!(
            (names, worst),
            (vec![name::SNDBUF, name::RCVBUF], OptionStatus::Success)
        );
    }
}

#[test]
fn datagrams_of_this_host_arrive_with_their_senders_and_wait_for_room() {
    let (receiver, sender) = (open("/dev/unix_clts"), open("/dev/unix_clts"));
    let to = receiver.bind(&[], 0).unwrap().address;
    let from = sender.bind(&[], 0).unwrap().address;
    assert_ne!(to, from);
    const COUNT: u32 = 2000;
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                sender
                    .send_datagram(&to, &number.to_ne_bytes(), LIMIT)
                    .unwrap();
            }
            sender.flush(LIMIT).unwrap();
        });
        let (mut buffer, mut source) = ([0; 16], Vec::new());
        for number in 0..COUNT {
            let got = receiver
                .receive_datagram(&mut buffer, &mut source, LIMIT)
                .unwrap();
            assert_eq!(buffer[..got.len], number.to_ne_bytes(), "none is lost");
            assert_eq!(source, from);
        }
    });

    let path = free_path("datagrams");
    let socket = UnixDatagram::bind(&path).unwrap();
    let to = named(path.as_os_str().as_encoded_bytes());
    sender.send_datagram(&to, b"to a socket", LIMIT).unwrap();
    sender.flush(LIMIT).unwrap();
    let mut buffer = [0; 16];
    let (len, at) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(
        (&buffer[..len], at.as_abstract_name()),
        (&b"to a socket"[..], from.get(3..))
    );
    std::fs::remove_file(&path).unwrap();
    // Nobody is there any more.
    sender.send_datagram(&to, b"to nobody", LIMIT).unwrap();
    assert_eq!(await_event(&sender), Look::DatagramError);
}
