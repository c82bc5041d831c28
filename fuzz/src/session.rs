//! A client's session with an agent, from octets: frames, requests, and what an agent makes of them.

#![allow(dead_code, reason = "each target uses one of the two")]

use agent::server::state::{Acquaintance, Act, State};
use control::frame::{Frames, REQUEST_MAX, encode};
use control::session::{FromAgent, ToAgent, WORKERS_MAX};
use control::{Caps, Role, ToWorker};
use std::net::{IpAddr, Ipv4Addr};

/// Octets as frames: what is accepted is written again as it was read.
pub fn frames(octets: &[u8]) {
    let mut frames = Frames::new(REQUEST_MAX);
    for piece in octets.chunks(7) {
        frames.push(piece);
        while let Ok(Some(request)) = frames.take::<ToAgent>() {
            let again = encode(&request, REQUEST_MAX);
            assert!(again.is_ok(), "what fitted once fits again");
        }
    }
    let mut answers = Frames::new(REQUEST_MAX);
    answers.push(octets);
    while let Ok(Some(answer)) = answers.take::<FromAgent>() {
        if let FromAgent::Said(_, message) = answer {
            let _ = control::vet::message(message, None);
        }
    }
}

/// Octets as requests of a client whose turn it is: whatever it asks, there are never more workers,
/// circuits, bytes or octets a second than may be, and no job speaks with anybody but the client.
pub fn session(octets: &[u8]) {
    let client = Acquaintance {
        peer: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        local: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
    };
    let caps = Caps {
        rate_bps: Some(8_000_000),
        bytes: 1 << 30,
        ..Caps::default().with_circuits(4)
    };
    let mut state = State::new(caps.clone(), client, |_| Ok(()));
    let mut frames = Frames::new(REQUEST_MAX);
    frames.push(octets);
    while let Ok(Some(request)) = frames.take::<ToAgent>() {
        let Ok(act) = state.request(request) else {
            return;
        };
        assert!(state.workers() <= WORKERS_MAX as usize);
        let given = || (0..64).filter_map(|number| state.job(number));
        let circuits = given()
            .flat_map(|job| &job.legs)
            .map(|leg| u64::from(leg.circuits));
        assert!(circuits.sum::<u64>() <= 2 * u64::from(caps.circuits));
        let senders = || given().filter(|job| job.role != Role::Sink);
        let paces = senders().filter_map(|job| job.pace_bytes_per_s);
        assert!(paces.sum::<u64>() <= caps.bytes_per_s().unwrap_or(0));
        assert!(senders().all(|job| job.pace_bytes_per_s.is_some()));
        match act {
            Act::Tell(_, ToWorker::Listen(job) | ToWorker::Connect(job, _)) => {
                assert_eq!(
                    (job.peer, job.bind),
                    (Some(client.peer), Some(client.local))
                );
                assert_eq!(caps.check(&job, 1), Ok(()));
            }
            Act::End(worker) => state.ended(worker),
            Act::Leave => return,
            _ => {}
        }
    }
}
