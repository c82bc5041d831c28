//! Primitives as octets: there and back, and what becomes of others.

use xti::tpi::{Information, Malformed, Primitive, ServiceType, number, parse};

fn all() -> Vec<Primitive> {
    [of_connections(), of_datagrams(), of_options()].concat()
}

fn of_datagrams() -> Vec<Primitive> {
    let address = vec![2, 0, 1, 2, 127, 0, 0, 1];
    let options = vec![20, 0, 0, 0, 7];
    vec![
        Primitive::DatagramRequest {
            destination: address.clone(),
            options: options.clone(),
        },
        Primitive::DatagramIndication {
            source: address.clone(),
            options: options.clone(),
        },
        Primitive::DatagramError {
            destination: address,
            options,
            errno: 97,
        },
    ]
}

fn of_options() -> Vec<Primitive> {
    let (options, flags) = (vec![16, 0, 0, 0, 6], 0x80);
    vec![
        Primitive::OptionsRequest {
            options: options.clone(),
            flags,
        },
        Primitive::OptionsAck { options, flags },
    ]
}

fn of_connections() -> Vec<Primitive> {
    let address = vec![2, 0, 1, 2, 127, 0, 0, 1];
    vec![
        Primitive::InfoRequest,
        Primitive::InfoAck(Information {
            tsdu: 0,
            etsdu: -1,
            connect: -2,
            disconnect: -2,
            address: 28,
            options: -3,
            tidu: 65_536,
            service: ServiceType::ConnectionsWithRelease,
            state: 9,
            flags: 1,
        }),
        Primitive::BindRequest {
            address: address.clone(),
            indications: 5,
        },
        Primitive::BindRequest {
            address: vec![],
            indications: 0,
        },
        Primitive::BindAck {
            address: address.clone(),
            indications: 5,
        },
        Primitive::UnbindRequest,
        Primitive::ConnectRequest {
            destination: address.clone(),
            options: Vec::new(),
        },
        Primitive::ConnectConfirm {
            responding: address.clone(),
            options: vec![7; 20],
        },
        Primitive::ConnectIndication {
            source: address.clone(),
            sequence: 7,
        },
        Primitive::ConnectResponse {
            acceptor: 3,
            options: vec![3; 16],
            sequence: 7,
        },
        Primitive::DisconnectRequest { sequence: 9 },
        Primitive::DisconnectIndication {
            reason: 104,
            sequence: 9,
        },
        Primitive::DataRequest { more: true },
        Primitive::DataIndication { more: false },
        Primitive::ReleaseRequest,
        Primitive::ReleaseIndication,
        Primitive::AddressRequest,
        Primitive::AddressAck {
            local: address.clone(),
            remote: vec![1, 2],
        },
        Primitive::OkAck {
            of: number::CONN_REQ,
        },
        Primitive::ErrorAck {
            of: number::BIND_REQ,
            tli: 8,
            errno: 13,
        },
    ]
}

#[test]
fn primitive_survives_its_octets() {
    for primitive in all() {
        assert_eq!(parse(&primitive.octets()), Ok(primitive));
    }
}

#[test]
fn primitive_cut_anywhere_is_refused_or_means_something_shorter() {
    for primitive in all() {
        let octets = primitive.octets();
        for len in 0..octets.len() {
            let cut = parse(&octets[..len]);
            assert!(
                cut.is_err() || len >= 4,
                "{primitive:?} cut to {len}: {cut:?}"
            );
            assert_ne!(
                cut,
                Ok(primitive.clone()),
                "cut to {len} of {}",
                octets.len()
            );
        }
    }
}

#[test]
fn address_outside_of_the_octets_is_an_error_of_that_request() {
    let words =
        |words: [u32; 4]| -> Vec<u8> { words.iter().flat_map(|word| word.to_ne_bytes()).collect() };
    for (len, at) in [(1, 16), (u32::MAX, 8), (8, u32::MAX), (17, 0), (1, 1 << 31)] {
        let octets = words([number::BIND_REQ, len, at, 0]);
        assert_eq!(parse(&octets), Err(Malformed::Address(number::BIND_REQ)));
    }
    assert_eq!(
        parse(&words([77, 0, 0, 0])),
        Err(Malformed::Fatal),
        "no such primitive"
    );
}
