//! sink: receives until the end.

use super::slices::Slices;
use super::{Flags, RunLength, is_pause};
use crate::clock::now_ns;
use control::{CircuitReport, Job};
use std::time::{Duration, Instant};
use towpath::Circuit;

/// Silence after the peer's last message that ends a circuit which tells no end itself, besides the
/// longest way a packet may have.
const QUIET: Duration = Duration::from_millis(15);

/// Silence after which a circuit that should tell its end is given up.
const GIVE_UP: Duration = Duration::from_secs(8);

/// Receives until the peer ended, or until it is done and nothing more comes.
pub(crate) fn run(
    circuit: &mut dyn Circuit,
    job: &Job,
    flags: &Flags,
    stream: bool,
    connectionless: bool,
) -> CircuitReport {
    let mut buffer = vec![0; buffer_len(job)];
    let start_ns = now_ns();
    let mut slices = Slices::new(start_ns, job.limits.slice_ns);
    let mut length = RunLength::new(start_ns);
    let mut report = CircuitReport {
        first_ns: start_ns,
        last_ns: start_ns,
        ..Default::default()
    };
    let mut quiet = None;
    let wait = if connectionless { QUIET } else { GIVE_UP } + Duration::from_nanos(job.path_ns);
    loop {
        match circuit.recv_run(&mut buffer, length.messages) {
            Ok(Some(arrived)) => {
                report.received += arrived.messages;
                report.received_bytes += arrived.bytes;
                report.calls += arrived.calls;
                report.last_ns = now_ns();
                length.adapt(report.last_ns);
                slices.record(report.last_ns, report.received, report.received_bytes);
                quiet = None;
            }
            Ok(None) => break,
            Err(error) if is_pause(&error) => {
                if is_over(flags, &mut quiet, wait) {
                    break;
                }
            }
            Err(error) => {
                report.error = Some(error.to_string());
                break;
            }
        }
        // A link may deliver twice: then the number of messages says nothing.
        let counts = !stream && (job.is_within_host() || !connectionless);
        if flags.is_stopped() || (counts && all_here(flags, &report)) {
            break;
        }
    }
    report.slices = slices.finish(report.last_ns, report.received, report.received_bytes);
    report
}

/// Room for a byte stream's read or the longest message.
pub(crate) fn buffer_len(job: &Job) -> usize {
    job.longest().max(job.settings.read_len).max(65_536) as usize
}

fn all_here(flags: &Flags, report: &CircuitReport) -> bool {
    flags
        .peer_sent()
        .is_some_and(|sent| report.received >= sent)
}

/// Whether the silence has lasted long enough after the peer's last message.
fn is_over(flags: &Flags, quiet: &mut Option<Instant>, wait: Duration) -> bool {
    if flags.peer_sent().is_none() {
        return false;
    }
    let since = quiet.get_or_insert_with(Instant::now).elapsed();
    since >= wait
}
