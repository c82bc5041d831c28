//! The functions of the fuzz targets on random octets, and on requests that were changed in places.

#[allow(clippy::duplicate_mod, reason = "the fuzz targets run it too")]
#[path = "../../../../fuzz/src/xti.rs"]
pub mod targets;

use crate::hostile::random;
use xti::sctp;
use xti::tpi::{Primitive, TransportOption, level, name, write_options};

/// Octets, a few of which are others now.
fn mutated(mut octets: Vec<u8>, seed: &mut u64) -> Vec<u8> {
    for _ in 0..random(seed) % 4 {
        let at = random(seed) as usize % octets.len();
        octets[at] = [0, 1, 4, 16, 255, random(seed) as u8][random(seed) as usize % 6];
    }
    let len = octets.len() - random(seed) as usize % 2 * (random(seed) as usize % octets.len());
    octets.truncate(len);
    octets
}

#[test]
fn options_of_any_octets_are_answered() {
    let option = |level, name, value: &[u8]| TransportOption {
        level,
        name,
        status: None,
        value: value.to_vec(),
    };
    let (linger, buffer) = ([1, 0, 0, 0, 3, 0, 0, 0], [0, 64, 0, 0]);
    let generic = |name, value| option(level::XTI_GENERIC, name, value);
    let of_sctp = |name, value| option(level::INET_SCTP, name, value);
    let good = [
        write_options(&[
            generic(name::LINGER, &linger),
            generic(name::SNDBUF, &buffer),
        ]),
        write_options(&[
            of_sctp(sctp::name::SID, &[3]),
            of_sctp(sctp::name::RTO_MAX, &buffer),
        ]),
    ];
    let (mut seed, mut answered) = (11, 0);
    for round in 0..3000u32 {
        // The second twelve are for the provider with options of SCTP.
        let action = (round % 24) as u8;
        let of_provider = good[usize::from(action / 12)].clone();
        let octets = [vec![action], mutated(of_provider, &mut seed)].concat();
        answered += u32::from(targets::options(&octets));
    }
    assert!(answered > 100, "{answered} of 3,000 were options");
}

#[test]
fn messages_of_any_octets_are_answered_or_end_the_stream() {
    let good = [
        Primitive::InfoRequest,
        Primitive::BindRequest {
            address: Vec::new(),
            indications: 1,
        },
        Primitive::ConnectRequest {
            destination: b"nobody".to_vec(),
            options: Vec::new(),
        },
        Primitive::AddressRequest,
        Primitive::DisconnectRequest { sequence: 1 },
        Primitive::ConnectResponse {
            acceptor: 1,
            options: Vec::new(),
            sequence: 1,
        },
        Primitive::ExpeditedRequest { more: true },
        Primitive::UnbindRequest,
        Primitive::ReleaseRequest,
    ];
    let (mut seed, mut answered) = (12, 0);
    for _ in 0..1000 {
        let mut script = Vec::new();
        for number in 0..8 {
            // The first two are as they should be: what comes next meets an end with an address.
            let message = match number {
                0 | 1 => good[number].octets(),
                _ => {
                    let chosen = &good[random(&mut seed) as usize % good.len()];
                    mutated(chosen.octets(), &mut seed)
                }
            };
            script.push(message.len() as u8);
            script.extend(message);
        }
        answered += targets::messages(&script);
    }
    assert!(answered > 2200, "{answered} of 8,000 were answered");
}
