//! What `towpath xtp contexts` prints of streams to and from groups.

use crate::xtp_command::{counts_text, duration_text, push_line, strip_control_characters};
use std::collections::BTreeMap;
use std::fmt::Write;
use towpath::xtp::contexts::{GroupMemberReport, GroupReceiverReport, GroupSenderReport};

/// Appends a stream to a group, and its members.
pub(crate) fn add_sender(text: &mut String, it: &GroupSenderReport) {
    let _ = writeln!(
        text,
        "  stream {} to group {}, {}, key {}",
        it.circuit,
        strip_control_characters(&it.group),
        strip_control_characters(&it.reliability),
        strip_control_characters(&it.key),
    );
    push_line(text, "  state", &strip_control_characters(&it.state));
    let rate = it.rate_bytes_per_s.map_or(String::new(), |rate| {
        format!("; rate {} bit/s", u64::from(rate) * 8)
    });
    push_line(
        text,
        "  sends",
        &format!(
            "next {}, acknowledged {}, allocation {}, of {} written; {} bytes lost; sync {}, {} \
             status requests open{rate}",
            it.send_next,
            it.send_acknowledged,
            it.send_allocation,
            it.send_end,
            it.send_lost_bytes,
            it.sync,
            it.requests
        ),
    );
    let rtt = it.rtt_ns.map_or("not measured".to_owned(), |ns| {
        let variation = duration_text(it.rtt_variation_ns);
        format!("{}, variation {variation}", duration_text(ns))
    });
    let silence = duration_text(it.silence_ns);
    push_line(text, "  RTT", &format!("{rtt}; last answer {silence} ago"));
    add_timers(text, &it.timers_ns);
    for member in &it.members {
        push_line(text, "  member", &member_text(member));
    }
}

fn member_text(it: &GroupMemberReport) -> String {
    let mut words = format!(
        "{}: {}, received {} to {}",
        strip_control_characters(&it.address),
        strip_control_characters(&it.state),
        it.start,
        it.received
    );
    if let Some(allocation) = it.allocation {
        let _ = write!(words, ", allocation {allocation}");
    }
    if it.unanswered > 0 {
        let _ = write!(words, ", {} requests not answered", it.unanswered);
    }
    if it.lacked_bytes > 0 {
        let _ = write!(words, ", lacked {} bytes", it.lacked_bytes);
    }
    words
}

/// Appends a stream from a group's sender.
pub(crate) fn add_receiver(text: &mut String, it: &GroupReceiverReport) {
    let _ = writeln!(
        text,
        "  stream {} from {}, {}, {}",
        it.circuit,
        strip_control_characters(&it.sender),
        if it.counted { "counted" } else { "not counted" },
        if it.validated {
            "validated"
        } else {
            "unvalidated"
        },
    );
    push_line(
        text,
        "  state",
        &format!(
            "{}, {} requests to join sent",
            strip_control_characters(&it.state),
            it.joins
        ),
    );
    let (own, sender) = (&it.key, &it.sender_key);
    let (own, sender) = (
        strip_control_characters(own),
        strip_control_characters(sender),
    );
    push_line(text, "  keys", &format!("own {own}, sender's {sender}"));
    push_line(
        text,
        "  receives",
        &format!(
            "next {}, allocation {}, unread {}, reassembly queue {}, {} answers damped; last packet \
             {} ago",
            it.receive_next,
            it.receive_allocation,
            it.unread_bytes,
            it.held_bytes,
            it.damped,
            duration_text(it.silence_ns)
        ),
    );
    add_timers(text, &it.timers_ns);
}

fn add_timers(text: &mut String, timers_ns: &BTreeMap<String, u64>) {
    if !timers_ns.is_empty() {
        let left = |ns: &u64| format!("in {}", duration_text(*ns));
        push_line(text, "  timers", &counts_text(timers_ns, left));
    }
}
