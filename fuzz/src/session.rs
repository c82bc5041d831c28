//! A client's session with an agent, from octets: frames, requests, and what an agent makes of them.

#![allow(dead_code, reason = "each target uses one of the two")]

use agent::server::state::{Acquaintance, Act, State};
use control::frame::{Frames, REQUEST_MAX, encode};
use control::session::{FromAgent, ToAgent, WORKERS_MAX};
use control::{Caps, ToWorker};
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

/// Octets as requests of a client whose turn it is: whatever it asks, there are never more workers than
/// two, and no job leaves the caps or speaks with anybody but the client.
pub fn session(octets: &[u8]) {
    let client = Acquaintance {
        peer: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        local: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
    };
    let caps = Caps::default().with_circuits(4);
    let mut state = State::new(caps.clone(), client, |_| Ok(()));
    let mut frames = Frames::new(REQUEST_MAX);
    frames.push(octets);
    while let Ok(Some(request)) = frames.take::<ToAgent>() {
        let Ok(act) = state.request(request) else {
            return;
        };
        assert!(state.workers() <= WORKERS_MAX as usize);
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
