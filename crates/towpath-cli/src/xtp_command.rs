//! `towpath xtp`: the state of live endpoints; router and relay are in `xtp_router`, questions to hosts in `xtp_ping`.

use crate::CliError;
use crate::live_endpoints::{Asking, LiveArgs};
use crate::xtp_group_text::{add_receiver, add_sender};
use clap::Subcommand;
use std::collections::BTreeMap;
use std::fmt::Write;
use towpath::xtp::contexts::{AssociationReport, EndpointReport, RingsReport, query, query_all};

/// Subcommands of `towpath xtp`.
#[derive(Clone, Debug, Subcommand)]
pub enum XtpCommand {
    /// Show the associations, group streams, timers and counters of live endpoints.
    #[command(after_help = CONTEXTS_HELP)]
    Contexts(LiveArgs),
    /// Ask hosts whether they answer, and how soon, also along a path of routers (MAINT of XTP 3.x).
    Ping(crate::xtp_ping::PingArgs),
    /// Ask an endpoint or router of another host for its contexts, routes or counters (MGMT of XTP 3.x).
    Ask(crate::xtp_ask::AskArgs),
    /// Change rates, priorities and timers of a live endpoint of this host.
    Set(crate::xtp_set::SetArgs),
    /// Run an XTP router, which forwards packets between networks by their routes.
    Forwarder(crate::xtp_router::RouterArgs),
    /// Run a relay, which repeats a group's packets to hosts that multicast does not reach.
    Relay(crate::xtp_router::RelayArgs),
}

const CONTEXTS_HELP: &str = "Endpoints of `towpath forward` and `towpath cp` can be queried, and those of any program that uses
the library or libtowpath with TOWPATH_CONTEXTS=on in its environment, races included. They answer
queries of their own user only, through sockets in $XDG_RUNTIME_DIR/towpath (or /tmp/towpath-UID).

Examples:
  towpath xtp contexts                    all endpoints
  towpath xtp contexts 4711               the endpoints of a process
  towpath xtp contexts --json
  TOWPATH_CONTEXTS=on ./server            a C program with libtowpath that can be queried";

/// Runs the command.
pub fn run(command: &XtpCommand) -> Result<u8, CliError> {
    match command {
        XtpCommand::Contexts(args) => ENDPOINTS.run(args),
        XtpCommand::Ping(args) => crate::xtp_ping::run(args),
        XtpCommand::Ask(args) => crate::xtp_ask::run(args),
        XtpCommand::Set(args) => crate::xtp_set::run(args),
        XtpCommand::Forwarder(args) => crate::xtp_router::run_router(args),
        XtpCommand::Relay(args) => crate::xtp_router::run_relay(args),
    }
}

const ENDPOINTS: Asking<EndpointReport> = Asking {
    protocol: "XTP",
    command: "towpath forward",
    query,
    query_all,
    text: endpoint_text,
};

/// An endpoint and its associations.
fn endpoint_text(report: &EndpointReport) -> String {
    let mut text = format!(
        "{}, process {}: XTP {} at {} for {}, {} associations\n",
        strip_control_characters(&report.program),
        report.process,
        strip_control_characters(&report.dialect),
        strip_control_characters(&report.address),
        duration_text(report.age_ns),
        report.associations_total
    );
    for (what, counts) in [
        ("counters", &report.counters),
        ("holdings", &report.holdings),
        ("dropped", &report.rejects),
    ] {
        if !counts.is_empty() {
            push_line(&mut text, what, &counts_text(counts, u64::to_string));
        }
    }
    for rings in report.shortcut.iter().flatten() {
        push_line(&mut text, "shortcut", &rings_text(rings));
    }
    for association in &report.associations {
        add_association(&mut text, association);
    }
    for sender in &report.group_senders {
        add_sender(&mut text, sender);
    }
    for receiver in &report.group_receivers {
        add_receiver(&mut text, receiver);
    }
    let streams = report.group_senders.len() + report.group_receivers.len();
    let listed = report.associations.len() + streams;
    let left = report.associations_total.saturating_sub(listed);
    if left > 0 {
        push_line(&mut text, "", &format!("and {left} more associations"));
    }
    text
}

/// Rings of shared memory with a peer.
fn rings_text(rings: &RingsReport) -> String {
    format!(
        "to {}: {} calls sent {} octets, {} calls received {}; {} calls went by UDP",
        strip_control_characters(&rings.peer),
        rings.sends,
        rings.octets_sent,
        rings.receives,
        rings.octets_received,
        rings.spills
    )
}

/// Appends a line with its label in front.
pub(crate) fn push_line(text: &mut String, what: &str, words: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  {what:<9} {words}");
}

fn add_association(text: &mut String, it: &AssociationReport) {
    let opened = if it.initiator { "here" } else { "there" };
    let _ = writeln!(
        text,
        "  association {} {} {}, {}, opened {opened}{}",
        it.circuit,
        if it.initiator { "to" } else { "from" },
        strip_control_characters(&it.peer),
        strip_control_characters(&it.service),
        it.sort
            .map_or(String::new(), |sort| format!(", sort {sort}"))
    );
    let close: Vec<String> = it
        .close
        .iter()
        .map(|bit| strip_control_characters(bit))
        .collect();
    let close = match close.as_slice() {
        [] => String::new(),
        bits => format!(": {}", bits.join(", ")),
    };
    let peer = it.remote_key.as_deref().unwrap_or("not known");
    push_line(
        text,
        "  state",
        &format!("{}{close}", strip_control_characters(&it.state)),
    );
    push_line(
        text,
        "  keys",
        &format!(
            "own {}, peer's {}, route {}",
            strip_control_characters(&it.key),
            strip_control_characters(peer),
            it.route
        ),
    );
    push_line(text, "  sends", &send_state_text(it));
    push_line(
        text,
        "  receives",
        &format!(
            "next {}, allocation {}, unread {}, reassembly queue {}",
            it.receive_next, it.receive_allocation, it.unread_bytes, it.held_bytes
        ),
    );
    let rtt = it.rtt_ns.map_or("not measured".to_owned(), |ns| {
        format!(
            "{}, variation {}",
            duration_text(ns),
            duration_text(it.rtt_variation_ns)
        )
    });
    push_line(
        text,
        "  RTT",
        &format!("{rtt}; last packet {} ago", duration_text(it.silence_ns)),
    );
    if !it.timers_ns.is_empty() {
        push_line(
            text,
            "  timers",
            &counts_text(&it.timers_ns, |ns| format!("in {}", duration_text(*ns))),
        );
    }
}

fn send_state_text(it: &AssociationReport) -> String {
    let mut words = format!(
        "next {}, acknowledged {}, allocation {}, of {} written; {} retransmissions, {} bytes lost; \
         sync {}, {} status requests open",
        it.send_next,
        it.send_acknowledged,
        it.send_allocation,
        it.send_end,
        it.retransmissions,
        it.send_lost_bytes,
        it.sync,
        it.requests
    );
    if let Some(window) = it.congestion_window {
        let _ = write!(words, "; congestion window {window}");
    }
    if let Some(rate) = it.rate_bytes_per_s {
        let _ = write!(words, "; rate {} bit/s", u64::from(rate) * 8);
    }
    words
}

pub(crate) fn counts_text(counts: &BTreeMap<String, u64>, say: impl Fn(&u64) -> String) -> String {
    let counts = counts.iter();
    let words: Vec<String> = counts
        .map(|(name, count)| {
            format!(
                "{} {}",
                strip_control_characters(name).replace('_', " "),
                say(count)
            )
        })
        .collect();
    words.join(", ")
}

/// A duration in a suitable unit.
pub(crate) fn duration_text(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// Text of another process without control characters.
pub(crate) fn strip_control_characters(text: &str) -> String {
    let replace = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_pick_unit_and_control_characters_are_stripped() {
        assert_eq!(duration_text(1500), "1.5 us");
        assert_eq!(duration_text(1_500_000), "1.5 ms");
        assert_eq!(duration_text(61_500_000_000), "61.5 s");
        assert_eq!(strip_control_characters("a\x1b[2Jb\n"), "a?[2Jb?");
    }
}
