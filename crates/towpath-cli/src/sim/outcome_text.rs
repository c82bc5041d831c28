//! The outcome of a run as text.

use scenario::RunOutcome;
use std::fmt::Write;

/// The outcome as text.
pub fn text(outcome: &RunOutcome) -> String {
    let mut out = String::new();
    let total = &outcome.total;
    let _ = writeln!(
        out,
        "{}, seed {}: {} after {:.3} s\n{} messages produced, {} settled, {} received; \
         {:.0} user bytes/s",
        outcome.scenario,
        outcome.seed,
        ended(outcome.ending),
        outcome.elapsed_s,
        total.offered,
        total.settled,
        total.received,
        total.throughput_bps
    );
    if let Some(delay) = &total.delay {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
        let _ = writeln!(
            out,
            "delay us: mean {:.1}, median {}, 90 % {}, 99 % {}, 99.9 % {}, largest {:.1}",
            delay.mean_us,
            shown(delay.p50_us),
            shown(delay.p90_us),
            shown(delay.p99_us),
            shown(delay.p999_us),
            delay.max_us
        );
    }
    if let Some(ether) = &outcome.ether {
        let _ = writeln!(
            out,
            "ether: {:.1} % frames, {:.1} % collisions; {} sent, {} collided, {} dropped",
            ether.utilisation * 100.0,
            ether.collided * 100.0,
            ether.sent,
            ether.collisions,
            ether.dropped
        );
    }
    stations(&mut out, outcome);
    circuits(&mut out, outcome);
    out.trim_end().to_owned()
}

fn ended(ending: &str) -> &'static str {
    match ending {
        "complete" => "complete",
        "stuck" => "DEADLOCKED, messages are outstanding and no event is pending",
        _ => "time limit reached",
    }
}

/// Stations and circuits shown; --json has all.
const SHOWN: usize = 12;

fn stations(out: &mut String, outcome: &RunOutcome) {
    out.push_str("\nstation  writer reader sender receiver   queue mean/max   packets  retrans\n");
    for (number, station) in outcome.stations.iter().take(SHOWN).enumerate() {
        let [writer, reader, sender, receiver] = station.busy.map(|share| share * 100.0);
        let _ = writeln!(
            out,
            "{number:>7} {writer:>6.1}% {reader:>5.1}% {sender:>5.1}% {receiver:>7.1}% {:>9.2} \
             {:>6} {:>9} {:>7}",
            station.controller_mean,
            station.controller_max,
            station.packets_built,
            station.retransmissions
        );
    }
    more(out, outcome.stations.len());
}

fn circuits(out: &mut String, outcome: &RunOutcome) {
    out.push_str("\ncircuit  to  messages     bytes/s   after warm-up        delay us\n");
    let receivers = outcome.circuits.iter().enumerate();
    let receivers: Vec<_> = receivers
        .flat_map(|(number, circuit)| circuit.receivers.iter().map(move |r| (number, r)))
        .collect();
    for (number, receiver) in receivers.iter().take(SHOWN) {
        let steady = match (receiver.steady_bps, receiver.steady_error_bps) {
            (Some(mean), Some(error)) => format!("{mean:.0} +- {error:.0}"),
            _ => receiver.settling.to_owned(),
        };
        let delay = receiver.delay.as_ref().map_or(0.0, |delay| delay.mean_us);
        let _ = write!(
            out,
            "{number:>7} {:>3} {:>9} {:>11.0} {steady:>20} {delay:>11.1}",
            receiver.station, receiver.messages, receiver.throughput_bps
        );
        if receiver.gaps + receiver.wrong_bytes > 0 {
            let _ = write!(
                out,
                "  {} gaps, {} wrong bytes",
                receiver.gaps, receiver.wrong_bytes
            );
        }
        out.push('\n');
    }
    more(out, receivers.len());
}

fn more(out: &mut String, count: usize) {
    if count > SHOWN {
        let _ = writeln!(out, "        and {} more; see --json", count - SHOWN);
    }
}
