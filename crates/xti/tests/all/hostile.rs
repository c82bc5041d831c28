//! Users who do not keep to the interface: an error that says so, or a stream that fails; the
//! provider lives on.

use std::sync::Arc;
use streams::{Error, Hysteresis, MessageKind, Priority, Runtime, StreamId, Want};
use xti::tpi::{Primitive, number, parse};
use xti::{StreamOptions, TliError, inet};

fn open() -> (Runtime, StreamId) {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let setup: inet::Setup = Arc::new(|_| Ok(()));
    let provider = inet::SocketProvider::new(setup, StreamOptions::default().marks);
    let stream = runtime.open(Box::new(provider)).unwrap();
    (runtime, stream)
}

fn put(runtime: &mut Runtime, stream: StreamId, octets: &[u8]) {
    runtime
        .put_message(stream, Some(octets), None, Priority::Band(0))
        .unwrap();
    runtime.run(100);
}

fn answer(runtime: &mut Runtime, stream: StreamId) -> Option<Primitive> {
    let message = runtime.take_blocks(stream, Want::High).ok()?;
    parse(message.control.as_ref()?.octets()).ok()
}

fn refusal(of: u32, tli: TliError) -> Option<Primitive> {
    Some(Primitive::ErrorAck {
        of,
        tli: tli as u32,
        errno: 0,
    })
}

/// A request to be bound to any address.
fn bind_request() -> Vec<u8> {
    let (address, indications) = (Vec::new(), 0);
    Primitive::BindRequest {
        address,
        indications,
    }
    .octets()
}

#[test]
fn request_out_of_state_is_refused_by_name() {
    let requests = [
        Primitive::UnbindRequest,
        Primitive::ConnectRequest {
            destination: vec![],
            options: Vec::new(),
        },
        Primitive::ConnectResponse {
            acceptor: 1,
            options: Vec::new(),
            sequence: 1,
        },
        Primitive::DisconnectRequest { sequence: 1 },
    ];
    for request in requests {
        let (mut runtime, stream) = open();
        put(&mut runtime, stream, &request.octets());
        let refused = refusal(request.number(), TliError::OutOfState);
        assert_eq!(answer(&mut runtime, stream), refused);
        put(&mut runtime, stream, &bind_request());
        assert!(matches!(
            answer(&mut runtime, stream),
            Some(Primitive::BindAck { .. })
        ));
    }
}

#[test]
fn data_before_a_connection_fail_the_stream_and_in_idle_they_vanish() {
    for octets in [
        Primitive::DataRequest { more: false }.octets(),
        Primitive::ReleaseRequest.octets(),
    ] {
        let (mut runtime, stream) = open();
        put(&mut runtime, stream, &octets);
        assert_eq!(
            runtime.write(stream, b"x"),
            Err(Error::Failed(71)),
            "EPROTO"
        );
    }
    let (mut runtime, stream) = open();
    put(&mut runtime, stream, &bind_request());
    answer(&mut runtime, stream);
    runtime.write(stream, b"crossed a disconnection").unwrap();
    runtime.run(100);
    assert_eq!(runtime.first_kind(stream), Ok(None), "silence");
}

#[test]
fn octets_that_are_no_primitive_fail_the_stream() {
    for octets in [
        &[][..],
        &[1, 2],
        &u32::MAX.to_ne_bytes(),
        &number::BIND_REQ.to_ne_bytes(),
        &number::OK_ACK.to_ne_bytes(),
    ] {
        let (mut runtime, stream) = open();
        put(&mut runtime, stream, octets);
        assert_eq!(
            runtime.read(stream, &mut [0; 4]),
            Err(Error::Failed(71)),
            "{octets:?}"
        );
    }
}

#[test]
fn address_that_is_none_is_refused() {
    let (mut runtime, stream) = open();
    for address in [vec![9; 16], vec![2, 0]] {
        let bind = Primitive::BindRequest {
            address,
            indications: 1,
        };
        put(&mut runtime, stream, &bind.octets());
        let refused = refusal(number::BIND_REQ, TliError::BadAddress);
        assert_eq!(answer(&mut runtime, stream), refused);
    }
}

#[test]
fn options_that_are_none_are_refused_and_the_stream_lives_on() {
    let (mut runtime, stream) = open();
    let option = |len: u32| [len, 6, 1, 0].map(u32::to_ne_bytes).concat();
    let bad = [
        vec![],
        vec![0; 8],
        option(15),
        option(17),
        option(u32::MAX),
        option(0),
        [option(16), vec![1]].concat(),
        option(16).repeat(33),
    ];
    for options in bad {
        let request = Primitive::OptionsRequest { options, flags: 4 };
        put(&mut runtime, stream, &request.octets());
        let refused = refusal(number::OPTMGMT_REQ, TliError::BadOption);
        assert_eq!(answer(&mut runtime, stream), refused, "{request:?}");
    }
    for flags in [0, 0xc, 0x20, u32::MAX] {
        let options = option(16);
        let request = Primitive::OptionsRequest { options, flags };
        put(&mut runtime, stream, &request.octets());
        let refused = refusal(number::OPTMGMT_REQ, TliError::BadFlag);
        assert_eq!(answer(&mut runtime, stream), refused, "{flags:#x}");
    }
    let outside = [number::OPTMGMT_REQ, 16, u32::MAX, 4].map(u32::to_ne_bytes);
    put(&mut runtime, stream, &outside.concat());
    let refused = refusal(number::OPTMGMT_REQ, TliError::BadOption);
    assert_eq!(answer(&mut runtime, stream), refused);
    let good = Primitive::OptionsRequest {
        options: option(16),
        flags: 0x80,
    };
    put(&mut runtime, stream, &good.octets());
    assert!(matches!(
        answer(&mut runtime, stream),
        Some(Primitive::OptionsAck { flags: 0x20, .. })
    ));
}

/// SplitMix64.
pub fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Octets that begin as a primitive and go on at random; never one that connects or binds to
/// somewhere else than the loopback.
fn octets(seed: &mut u64) -> Vec<u8> {
    let kinds = [1, 2, 3, 5, 7, 9, 10, 11, 12, 13, 14, 17, 18, 19, 24, 25, 99];
    let kind: u32 = kinds[(random(seed) % kinds.len() as u64) as usize];
    let mut octets = kind.to_ne_bytes().to_vec();
    for _ in 0..random(seed) % 30 {
        octets.push((random(seed) % 5) as u8);
    }
    octets
}

#[test]
fn random_messages_never_end_the_provider() {
    let mut seed = 5;
    for _ in 0..500 {
        let (mut runtime, stream) = open();
        for _ in 0..20 {
            let priority = if random(&mut seed).is_multiple_of(3) {
                Priority::High
            } else {
                Priority::Band(0)
            };
            let octets = octets(&mut seed);
            match runtime.put_message(stream, Some(&octets), Some(b"data"), priority) {
                Ok(()) | Err(Error::Failed(71) | Error::WouldBlock) => {}
                Err(error) => panic!("{error}"),
            }
            runtime.run(100);
            while runtime
                .take_blocks(stream, Want::Any)
                .is_ok_and(|message| message.kind() != MessageKind::Error)
            {}
        }
        runtime.close(stream).unwrap();
    }
}
