//! `tirdwr` and `timod` on streams over providers.

use crate::kit::{LIMIT, ask, deadline};
use std::io::{Read, Write};
use std::sync::Arc;
use streams::{Error, Hysteresis, Runtime};
use xti::modules::{Timod, command};
use xti::tpi::{Primitive, parse};
use xti::{
    Flags, Look, ServiceType, StreamOptions, TliError, XtiEndpoint, XtiState, inet, loopback,
};

/// Connections over TCP and over the loop-back.
fn pairs() -> Vec<(XtiEndpoint, XtiEndpoint)> {
    let options = StreamOptions::default();
    let open = || {
        let service = ServiceType::ConnectionsWithRelease;
        XtiEndpoint::open_loopback(service, loopback::RING_OCTETS, options).unwrap()
    };
    let listener = open();
    let address = listener.bind(&[], 1).unwrap().address;
    let client = open();
    client.bind(&[], 0).unwrap();
    client.start_connect(&address).unwrap();
    let call = listener.listen(deadline()).unwrap();
    let server = open();
    listener.accept(&server, call.sequence).unwrap();
    client.receive_connect().unwrap();
    vec![crate::kit::pair(options), (client, server)]
}

#[test]
fn connection_is_read_and_written_until_its_end() {
    for (client, server) in pairs() {
        client.send(b"before", Flags::default(), LIMIT).unwrap();
        client.flush(LIMIT).unwrap();
        let Ok(mut bytes) = server.into_byte_stream(LIMIT) else {
            panic!("nothing but data waits");
        };
        bytes.write_all(b"to a user of XTI").unwrap();
        bytes.write_all(b"").unwrap();
        bytes.flush().unwrap();
        let mut buffer = [0; 64];
        let got = client.receive_within(&mut buffer, LIMIT).unwrap();
        assert_eq!(&buffer[..got.len], b"to a user of XTI");
        client.send(b" and after", Flags::default(), LIMIT).unwrap();
        client.send_release().unwrap();
        let mut all = Vec::new();
        bytes.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"before and after");
        let end = bytes.into_endpoint().unwrap();
        assert_eq!(end.state(), XtiState::Idle);
        loop {
            match client.look() {
                Some(event) => break assert_eq!(event, Look::Release),
                None => client.wait(false, LIMIT).unwrap(),
            }
        }
        client.receive_release().unwrap();
        assert_eq!(client.state(), XtiState::Idle);
    }
}

#[test]
fn connection_that_is_aborted_reads_as_ended_and_one_that_is_dropped_aborts() {
    for (client, server) in pairs() {
        let Ok(mut bytes) = server.into_byte_stream(LIMIT) else {
            panic!("nothing waits");
        };
        client.send_disconnect(None).unwrap();
        assert_eq!(bytes.read(&mut [0; 8]).unwrap(), 0);
        assert!(bytes.write(b"x").is_err(), "it hung up");
    }
    for (client, server) in pairs() {
        drop(server.into_byte_stream(LIMIT));
        loop {
            match client.look() {
                Some(event) => break assert_eq!(event, Look::Disconnect),
                None => client.wait(false, LIMIT).unwrap(),
            }
        }
    }
}

#[test]
fn event_that_waits_refuses_the_module_and_the_endpoint_stays() {
    for (client, server) in pairs() {
        client.send_release().unwrap();
        while server.look().is_none() {
            server.wait(false, LIMIT).unwrap();
        }
        let Err((error, server)) = server.into_byte_stream(LIMIT) else {
            panic!("a release waits");
        };
        assert_eq!((error.tli, error.errno), (TliError::System, 71));
        server.receive_release().unwrap();
        let Err((error, _)) = server.into_byte_stream(LIMIT) else {
            panic!("it carries no data any more");
        };
        assert_eq!(error.tli, TliError::OutOfState);
    }
}

/// What a user has of a message goes on where he stopped, and what was looked at stays; boundaries are lost.
#[test]
fn data_that_wait_are_read_from_where_the_user_stopped() {
    for (client, server) in pairs() {
        let more = Flags {
            more: true,
            ..Flags::default()
        };
        for (octets, flags) in [
            (&b"first"[..], more),
            (b" and", Flags::default()),
            (b" third", more),
        ] {
            client.send(octets, flags, LIMIT).unwrap();
        }
        client.flush(LIMIT).unwrap();
        let mut buffer = [0; 3];
        assert_eq!(server.receive_within(&mut buffer, LIMIT).unwrap().len, 3);
        assert!(matches!(server.look(), None | Some(Look::Data)));
        let Ok(mut bytes) = server.into_byte_stream(LIMIT) else {
            panic!("data wait, and nothing else");
        };
        client.send(b" fourth", Flags::default(), LIMIT).unwrap();
        client.send_release().unwrap();
        let mut rest = Vec::new();
        bytes.read_to_end(&mut rest).unwrap();
        assert_eq!(String::from_utf8(rest).unwrap(), "st and third fourth");
    }
}

/// Expedited data wait behind ordinary ones: nothing is taken over, and all is received as it came.
#[test]
fn expedited_data_that_wait_refuse_the_module_and_nothing_is_lost() {
    let Some((client, server)) = pairs().pop() else {
        panic!("the loop-back");
    };
    let urgent = Flags {
        expedited: true,
        ..Flags::default()
    };
    client.send(b"ordinary", Flags::default(), LIMIT).unwrap();
    client.send(b"urgent", urgent, LIMIT).unwrap();
    while server.look() != Some(Look::Expedited) {
        server.wait(false, LIMIT).unwrap();
    }
    let Err((error, server)) = server.into_byte_stream(LIMIT) else {
        panic!("a read could not tell");
    };
    assert_eq!((error.tli, error.errno), (TliError::System, 71));
    let mut buffer = [0; 16];
    for (octets, expedited) in [(&b"urgent"[..], true), (b"ordinary", false)] {
        let got = server.receive_within(&mut buffer, LIMIT).unwrap();
        assert_eq!((&buffer[..got.len], got.expedited), (octets, expedited));
    }
}

#[test]
fn requests_of_a_head_are_answered_with_the_provider_s_acknowledgements() {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let setup: inet::Setup = Arc::new(|_| Ok(()));
    let provider = inet::SocketProvider::new(setup, StreamOptions::default().marks);
    let stream = runtime.open(Box::new(provider)).unwrap();
    runtime.push(stream, Box::<Timod>::default()).unwrap();
    let mut ask = |command, octets: &[u8]| ask(&mut runtime, stream, command, octets);
    let (value, octets) = ask(command::GETINFO, &[]).unwrap();
    assert_eq!(value, 0);
    assert!(matches!(parse(&octets), Ok(Primitive::InfoAck(_))));
    let out_of_state = TliError::OutOfState as i32;
    assert_eq!(ask(command::UNBIND, &[]).unwrap().0, out_of_state);
    let bind = Primitive::BindRequest {
        address: crate::kit::loopback(),
        indications: 1,
    };
    let (value, octets) = ask(command::BIND, &bind.octets()).unwrap();
    let Ok(Primitive::BindAck { address, .. }) = parse(&octets) else {
        panic!("{octets:?}");
    };
    assert_eq!(value, 0);
    assert_eq!(ask(command::GETMYNAME, &[]), Ok((0, address)));
    assert_eq!(ask(command::GETPEERNAME, &[]), Ok((0, Vec::new())));
    let (_, octets) = ask(command::GETADDRS, &[]).unwrap();
    assert!(matches!(parse(&octets), Ok(Primitive::AddressAck { .. })));
    // Data that are no primitive, another one, and a command of nobody.
    assert_eq!(ask(command::BIND, b"none"), Err(Error::Failed(22)));
    assert_eq!(
        ask(command::SETMYNAME, &bind.octets()),
        Err(Error::Failed(22))
    );
    assert_eq!(ask(1, &[]), Err(Error::Refused));
    let connect = Primitive::ConnectRequest {
        destination: vec![9; 3],
        options: Vec::new(),
    };
    let (value, _) = ask(command::SETPEERNAME, &connect.octets()).unwrap();
    assert_eq!(value, TliError::BadAddress as i32);
    let (value, octets) = ask(command::UNBIND, &[]).unwrap();
    assert_eq!(value, 0);
    assert!(matches!(parse(&octets), Ok(Primitive::OkAck { .. })));
}
