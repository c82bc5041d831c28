//! Connect: set-up, one request, one reply, tear-down, repeatedly.

use super::client::{DelayRecorder, REPLY_LOST_NS, REPLY_TIMEOUT_NS};
use super::message::Messages;
use super::meter::{Meter, MeteredCircuit};
use super::server::MessageExchange;
use super::slices::SliceRecorder;
use super::{WorkerFlags, is_retryable, sink};
use crate::clock::now_ns;
use control::{CircuitReport, Job};
use std::io;
use std::time::{Duration, Instant};
use towpath::{Listener, Options, Rendezvous, Transport};

/// Connects, sends a request, reads the reply and closes, until a limit is reached.
pub(crate) fn client(
    transport: &dyn Transport,
    rendezvous: &Rendezvous,
    options: &Options,
    job: &Job,
    flags: &WorkerFlags,
    meter: Option<&Meter<'_>>,
) -> CircuitReport {
    let mut messages = Messages::new(job);
    let mut buffer = vec![0; sink::buffer_len(job)];
    let exchange = MessageExchange::of_client(job, transport.class().stream);
    let start_ns = now_ns();
    let end_ns = start_ns + job.limits.time_ns;
    let mut slices = SliceRecorder::new(start_ns, job.limits.slice_ns);
    let mut delays = DelayRecorder::new(job.limits.messages);
    let mut report = CircuitReport {
        first_ns: start_ns,
        last_ns: start_ns,
        ..Default::default()
    };
    let reliable = transport.class().reliable;
    let reply_timeout_ns = if reliable {
        REPLY_TIMEOUT_NS
    } else {
        REPLY_LOST_NS
    } + 2 * job.path_delay_ns;
    while report.sent < job.limits.messages && report.last_ns < end_ns && !flags.is_stopped() {
        let message = messages.next();
        if !meter.is_none_or(|meter| meter.wait_until_due(message.len())) {
            break;
        }
        let began_ns = now_ns();
        let timed_out = || now_ns() > began_ns + reply_timeout_ns || flags.is_stopped();
        let once = || -> io::Result<Option<usize>> {
            let mut made = transport.connect(rendezvous, 0, options)?;
            let mut storage = None;
            let circuit = MeteredCircuit::wrap(made.as_mut(), meter, &mut storage);
            exchange.send(circuit, message, timed_out)?;
            exchange.receive(circuit, &mut buffer, timed_out)
        };
        let result = { once }();
        report.last_ns = now_ns();
        report.sent += 1;
        match result {
            Ok(Some(len)) => {
                delays.record(report.last_ns - began_ns);
                report.received += 1;
                report.received_bytes += len as u64;
                slices.record(report.last_ns, report.received, report.received_bytes);
            }
            Ok(None) => *report.measures.entry("lost".into()).or_default() += 1.0,
            Err(error) => {
                fail(&mut report, &error);
                break;
            }
        }
    }
    report.slices = slices.finish(report.last_ns, report.received, report.received_bytes);
    delays.finish(&mut report);
    report
}

fn fail(report: &mut CircuitReport, error: &io::Error) {
    let out_of_ports = matches!(
        error.kind(),
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse
    );
    if out_of_ports {
        report.invalid = Some(format!(
            "out of ports after {} connections; measure for a shorter time, or widen \
             net.ipv4.ip_local_port_range and allow net.ipv4.tcp_tw_reuse",
            report.received
        ));
    } else {
        report.error = Some(error.to_string());
    }
}

/// Accepts, replies and closes until the client is done.
pub(crate) fn server(
    listener: &mut dyn Listener,
    job: &Job,
    flags: &WorkerFlags,
    meter: Option<&Meter<'_>>,
    stream: bool,
    connectionless: bool,
) -> CircuitReport {
    let mut buffer = vec![0; sink::buffer_len(job)];
    let exchange = MessageExchange::of_server(job, stream);
    let mut report = CircuitReport {
        first_ns: now_ns(),
        ..Default::default()
    };
    let is_over = || flags.peer_sent().is_some() || flags.is_stopped();
    while !is_over() {
        let mut made = match listener.accept(Instant::now() + Duration::from_millis(20)) {
            Ok(circuit) => circuit,
            Err(error) if is_retryable(&error) || error.kind() == io::ErrorKind::TimedOut => {
                continue;
            }
            Err(error) => {
                report.error = Some(error.to_string());
                break;
            }
        };
        let mut storage = None;
        let circuit = MeteredCircuit::wrap(made.as_mut(), meter, &mut storage);
        let served = exchange
            .receive(circuit, &mut buffer, is_over)
            .and_then(|len| {
                let Some(len) = len else { return Ok(false) };
                let sent = exchange.send(circuit, &buffer[..len], is_over);
                sent.map(|()| true)
            });
        match served {
            Ok(true) => {
                report.received += 1;
                report.sent += 1;
                if !connectionless {
                    // The client closes first, so that TIME_WAIT stays on its side.
                    let _ = exchange.receive(circuit, &mut buffer, is_over);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                report.error = Some(error.to_string());
                break;
            }
            // The client reports broken connections.
            Ok(false) | Err(_) => {}
        }
    }
    report.last_ns = now_ns();
    report
}
