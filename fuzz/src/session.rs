//! A session of a client with an agent, from arbitrary octets: frames, requests, their handling.

#![allow(dead_code, reason = "each target uses one of the two")]

use agent::server::session_state::{Action, SessionState, VerifiedPeer};
use control::frame::{FrameDecoder, REQUEST_MAX, encode};
use control::session::{FromAgent, ToAgent};
use control::{Caps, FromWorker, Job, ToWorker, WorkerQuota, WorkerReport};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// Octets as frames: an accepted message can be encoded again.
pub fn frames(octets: &[u8]) {
    let mut frames = FrameDecoder::new(REQUEST_MAX);
    for chunk in octets.chunks(7) {
        frames.push(chunk);
        while let Ok(Some(request)) = frames.next_message::<ToAgent>() {
            let again = encode(&request, REQUEST_MAX);
            assert!(again.is_ok(), "an accepted message fits a frame");
        }
    }
    let mut answers = FrameDecoder::new(REQUEST_MAX);
    answers.push(octets);
    while let Ok(Some(answer)) = answers.next_message::<FromAgent>() {
        if let FromAgent::FromWorker(_, message) = answer {
            let _ = control::validate::message(message, None);
        }
    }
}

/// Octets as requests of an admitted client: workers, circuits, bytes and rate never exceed the caps,
/// and every job communicates with the client only.
pub fn session(octets: &[u8]) {
    let client = VerifiedPeer {
        peer: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        local: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
    };
    let caps = Caps {
        rate_bps: Some(8_000_000),
        bytes: 1 << 30,
        workers: 3,
        ..Caps::default().with_circuits(4)
    };
    let mut state = SessionState::new(caps.clone(), client, |_, _| Ok(()));
    let mut frames = FrameDecoder::new(REQUEST_MAX);
    frames.push(octets);
    let mut moved = Moved::default();
    while let Ok(Some(request)) = frames.next_message::<ToAgent>() {
        let Ok(act) = state.handle_request(request) else {
            return;
        };
        let forwarded = match &act {
            Action::Forward(_, message) => Some(message.as_ref()),
            _ => None,
        };
        if let Some(ToWorker::Listen(job) | ToWorker::Connect(job, _)) = forwarded {
            let known = (Some(client.peer), Some(client.local));
            assert_eq!((job.peer, job.bind), known);
            let share = WorkerQuota {
                bytes: 1,
                pace_bytes_per_s: job.pace_bytes_per_s,
            };
            assert_eq!(caps.check(job, share), Ok(()));
        }
        match act {
            Action::Forward(worker, message) => match *message {
                ToWorker::Listen(job) | ToWorker::Connect(job, _) => moved.begin(worker, &job),
                ToWorker::Stop => moved.report(worker, &mut state),
                _ => {}
            },
            Action::EndWorker(worker) => moved.end(worker, &mut state),
            Action::Leave => return,
            _ => {}
        }
        within(&state, &caps);
        assert!(moved.bytes + moved.allowed() <= caps.bytes);
        assert_eq!(state.bytes_left(), caps.bytes - moved.bytes);
    }
}

fn within(state: &SessionState, caps: &Caps) {
    assert!(state.workers() <= caps.workers as usize);
    let given = || (0..64).filter_map(|number| state.job(number));
    assert!(given().map(Job::circuits).sum::<u64>() <= 2 * u64::from(caps.circuits));
    assert!(given().all(|job| job.allowance_bytes.is_some()));
    let senders = || given().filter(|job| job.sends());
    let paces = senders().filter_map(|job| job.pace_bytes_per_s);
    assert!(paces.sum::<u64>() <= caps.bytes_per_s().unwrap_or(0));
    assert!(senders().all(|job| job.pace_bytes_per_s.is_some()));
}

/// Workers that use up their allowance, whether they report it or not.
#[derive(Default)]
struct Moved {
    bytes: u64,
    workers: BTreeMap<u32, u64>,
}

impl Moved {
    fn begin(&mut self, worker: u32, job: &Job) {
        let most = job.allowance_bytes.expect("every job has an allowance");
        self.workers.insert(worker, most);
    }

    /// Allowance of the workers that have not reported.
    fn allowed(&self) -> u64 {
        self.workers.values().sum()
    }

    /// A worker that is stopped reports half of its allowance.
    fn report(&mut self, worker: u32, state: &mut SessionState) {
        let Some(most) = self.workers.remove(&worker) else {
            return;
        };
        self.bytes += most / 2;
        let report = WorkerReport {
            moved_bytes: most / 2,
            ..WorkerReport::default()
        };
        state.handle_worker_message(worker, FromWorker::Finished(Box::new(report)));
    }

    /// A worker is ended before its report, or after it with an account above what it moved.
    fn end(&mut self, worker: u32, state: &mut SessionState) {
        let unreported = self.workers.remove(&worker);
        self.bytes += unreported.unwrap_or(0);
        let reported = state.job(worker).is_some();
        state.worker_ended(worker, unreported.unwrap_or(u64::from(reported) << 20));
    }
}
