//! `sockmod` on streams over providers.

use crate::kit::{LIMIT, ask, deadline, loopback, open};
use std::sync::Arc;
use streams::{Error, Hysteresis, Runtime};
use xti::modules::{Sockmod, so_state, sockmod_command as command, state_and_params};
use xti::tpi::{Information, Primitive, parse};
use xti::{Flags, Shutdown, StreamOptions, TliError, XtiEndpoint, inet};

const INET: u32 = 2;

/// Two sockets with a connection.
fn pair() -> (XtiEndpoint, XtiEndpoint) {
    let socket = || {
        let end = open(StreamOptions::default());
        end.push_sockmod(INET).unwrap();
        end
    };
    let listener = socket();
    let address = listener.socket_listen(&loopback(), 4).unwrap();
    assert_eq!(listener.socket_state(), Ok(so_state::BOUND));
    let client = socket();
    client.bind(&[], 0).unwrap();
    client.connect(&address, deadline()).unwrap();
    let call = listener.listen(deadline()).unwrap();
    let server = socket();
    listener.accept(&server, call.sequence).unwrap();
    server.socket_accepted(&call.address).unwrap();
    (client, server)
}

fn receive_all(end: &XtiEndpoint) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 100]);
    loop {
        match end.receive_within(&mut buffer, LIMIT).unwrap().len {
            0 => return all,
            len => all.extend_from_slice(&buffer[..len]),
        }
    }
}

#[test]
fn each_direction_of_a_socket_ends_by_its_shutdown_behind_the_data() {
    let (client, server) = pair();
    assert_eq!(
        client.socket_state().unwrap() & so_state::CONNECTED,
        so_state::CONNECTED
    );
    client.send(b"asked", Flags::default(), LIMIT).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    client.run();
    assert_eq!(receive_all(&server), b"asked");
    // The head learns it from the module, which the first write meets.
    client.send(b"x", Flags::default(), LIMIT).unwrap();
    client.run();
    let error = client.send(b"x", Flags::default(), LIMIT).unwrap_err();
    assert_eq!((error.tli, error.errno), (TliError::System, 32));
    server.send(b"answered", Flags::default(), LIMIT).unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    server.run();
    assert_eq!(receive_all(&client), b"answered");
    let ended = so_state::CANNOT_SEND | so_state::CANNOT_RECEIVE;
    assert_eq!(server.socket_state().unwrap() & ended, ended);
}

#[test]
fn reset_connection_is_an_error_of_its_socket_and_a_refused_one_of_its_connect() {
    let (client, server) = pair();
    server.send_disconnect(None).unwrap();
    let error = client.receive_within(&mut [0; 8], LIMIT).unwrap_err();
    assert_eq!((error.tli, error.errno), (TliError::System, 104));
    let error = client.send(b"x", Flags::default(), LIMIT).unwrap_err();
    assert_eq!((error.tli, error.errno), (TliError::System, 32));

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = inet::encode(free.local_addr().unwrap());
    drop(free);
    let end = open(StreamOptions::default());
    end.push_sockmod(INET).unwrap();
    end.bind(&[], 0).unwrap();
    let refused = end.connect(&nobody, deadline()).unwrap_err();
    assert_eq!(refused.tli, TliError::Look);
    assert_eq!(end.receive_disconnect().unwrap().reason, 111);
    assert_eq!(end.socket_state().unwrap() & so_state::CONNECTING, 0);
}

#[test]
fn datagram_socket_with_a_peer_writes_to_it_and_hears_no_other() {
    let open = || {
        let end = XtiEndpoint::open_device("/dev/udp", StreamOptions::default()).unwrap();
        end.push_sockmod(INET).unwrap();
        let address = end.bind(&loopback(), 0).unwrap().address;
        (end, address)
    };
    let ((near, near_at), (far, far_at), (other, _)) = (open(), open(), open());
    near.socket_link(Some(&far_at)).unwrap();
    let (mut buffer, mut source) = ([0; 100], Vec::new());
    near.socket_write(b"to the peer").unwrap();
    near.run();
    let got = far
        .receive_datagram(&mut buffer, &mut source, LIMIT)
        .unwrap();
    assert_eq!(
        (&buffer[..got.len], &source),
        (&b"to the peer"[..], &near_at)
    );
    other.send_datagram(&near_at, b"of another", LIMIT).unwrap();
    other.run();
    far.send_datagram(&near_at, b"of the peer", LIMIT).unwrap();
    far.run();
    let got = near
        .receive_datagram(&mut buffer, &mut source, LIMIT)
        .unwrap();
    assert_eq!(&buffer[..got.len], b"of the peer");
    near.socket_link(None).unwrap();
    other.send_datagram(&near_at, b"of another", LIMIT).unwrap();
    other.run();
    let got = near
        .receive_datagram(&mut buffer, &mut source, LIMIT)
        .unwrap();
    assert_eq!(&buffer[..got.len], b"of another");
}

#[test]
fn requests_are_answered_or_refused_with_the_system_s_numbers() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let provider = inet::SocketProvider::new(Arc::new(|_| Ok(())), StreamOptions::default().marks);
    let stream = runtime.open(Box::new(provider)).unwrap();
    let end = open(StreamOptions::default());
    let information: Information = end.information();
    runtime
        .push(stream, Box::new(Sockmod::new(information)))
        .unwrap();
    assert_eq!(runtime.modules(stream).unwrap(), ["sockmod", "inet"]);
    let words = |words: [u32; 3]| words.map(u32::to_ne_bytes).concat();
    let runtime = &mut runtime;
    assert_eq!(
        ask(runtime, stream, command::SOCKPARAMS, &words([2, 2, 0])),
        Err(Error::Failed(91))
    );
    assert_eq!(
        ask(runtime, stream, command::SOCKPARAMS, &[1; 5]),
        Err(Error::Failed(22))
    );
    assert_eq!(
        ask(runtime, stream, command::SOCKPARAMS, &words([2, 1, 6])),
        Ok((0, vec![]))
    );
    assert_eq!(
        ask(runtime, stream, command::SHUTDOWN, &1u32.to_ne_bytes()),
        Err(Error::Failed(107))
    );
    assert_eq!(
        ask(runtime, stream, command::SHUTDOWN, &9u32.to_ne_bytes()),
        Err(Error::Failed(22))
    );
    assert_eq!(
        ask(runtime, stream, command::TCL_LINK, b"peer"),
        Err(Error::Failed(22))
    );
    assert_eq!(
        ask(runtime, stream, command::GETINTRANSIT, &[]),
        Ok((0, vec![]))
    );
    assert_eq!(
        ask(runtime, stream, command::SETMYNAME, &[]),
        Err(Error::Failed(22))
    );
    assert_eq!(ask(runtime, stream, 0x1234, &[]), Err(Error::Refused));
    assert_eq!(
        ask(runtime, stream, command::LISTEN, b"no primitive"),
        Err(Error::Failed(22))
    );
    let listen = Primitive::BindRequest {
        address: loopback(),
        indications: 3,
    };
    let (value, octets) = ask(runtime, stream, command::LISTEN, &listen.octets()).unwrap();
    assert_eq!(value, 0);
    assert!(matches!(
        parse(&octets),
        Ok(Primitive::BindAck { indications: 3, .. })
    ));
    let (value, _) = ask(runtime, stream, command::LISTEN, &listen.octets()).unwrap();
    assert_eq!(value, TliError::OutOfState as i32);
    let (_, octets) = ask(runtime, stream, command::GETUDATA, &[]).unwrap();
    assert_eq!(octets.len(), 44);
    assert_eq!(
        state_and_params(&octets),
        Some((so_state::BOUND, [2, 1, 6]))
    );
    assert_eq!(state_and_params(&octets[..43]), None);
}
