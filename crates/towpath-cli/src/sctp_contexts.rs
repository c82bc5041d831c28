//! `towpath sctp contexts`: associations and paths of live endpoints.

use crate::live_endpoints::Asking;
use crate::xtp_command::{counts_text, duration_text, push_line, strip_control_characters};
use towpath::sctp::contexts::{
    AssociationPath, AssociationReport, AssociationsReport, query, query_all,
};

/// The help's last part.
pub const CONTEXTS_HELP: &str = "Endpoints of `towpath sctp echo`, `discard` and `send` can be queried, and those of any program that
uses towpath::sctp with TOWPATH_CONTEXTS=on in its environment. They answer queries of their own user
only, through sockets in $XDG_RUNTIME_DIR/towpath (or /tmp/towpath-UID).

Examples:
  towpath sctp contexts                    all endpoints
  towpath sctp contexts 4711               the endpoints of a process
  towpath sctp contexts --json";

/// `towpath sctp contexts`.
pub const ENDPOINTS: Asking<AssociationsReport> = Asking {
    protocol: "SCTP",
    command: "towpath sctp echo",
    query,
    query_all,
    text: endpoint_text,
};

/// An endpoint, its associations and their paths.
fn endpoint_text(report: &AssociationsReport) -> String {
    let mut text = format!(
        "process {}: SCTP at {} for {}, {} associations\n",
        report.process,
        strip_control_characters(&report.addresses.join(",")),
        duration_text(report.age_ns),
        report.associations_total
    );
    for (what, counts) in [
        ("counters", &report.counters),
        ("dropped", &report.discards),
    ] {
        if !counts.is_empty() {
            push_line(&mut text, what, &counts_text(counts, u64::to_string));
        }
    }
    for association in &report.associations {
        add_association(&mut text, association);
    }
    let left = report
        .associations_total
        .saturating_sub(report.associations.len());
    if left > 0 {
        push_line(&mut text, "", &format!("and {left} more associations"));
    }
    text
}

fn add_association(text: &mut String, it: &AssociationReport) {
    let words = format!(
        "{} {}, opened {}, ports {} and {}, tags {} and {}",
        it.association,
        strip_control_characters(&it.state),
        if it.opened_here { "here" } else { "there" },
        it.local_port,
        it.peer_port,
        strip_control_characters(&it.local_tag),
        strip_control_characters(&it.peer_tag)
    );
    push_line(text, "association", &words);
    let words = format!(
        "{} streams, {} bytes unacknowledged, receive window {}, {} timeouts in a row",
        it.outbound_streams, it.unacknowledged_bytes, it.receive_window, it.errors
    );
    push_line(text, "  sends", &words);
    for path in &it.paths {
        push_line(text, "  path", &path_text(path));
    }
}

fn path_text(path: &AssociationPath) -> String {
    let role = match (path.is_primary, path.carries_data) {
        (true, true) => ", primary, carries data",
        (true, false) => ", primary",
        (false, true) => ", carries data",
        (false, false) => "",
    };
    format!(
        "{} to {}: {}{role}, RTT {}, RTO {}, path MTU {}, congestion window {}, {} in flight, \
         {} timeouts",
        strip_control_characters(&path.local),
        strip_control_characters(&path.remote),
        strip_control_characters(&path.state),
        duration_text(path.srtt_ns),
        duration_text(path.rto_ns),
        path.path_mtu,
        path.congestion_window,
        path.flight,
        path.errors
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn report_names_associations_and_paths() {
        let report = AssociationsReport {
            process: 4711,
            addresses: vec!["10.0.0.2:9899".to_owned(), "10.1.0.2:9899".to_owned()],
            age_ns: 5_000_000_000,
            associations_total: 2,
            associations: vec![AssociationReport {
                association: 1,
                state: "established".to_owned(),
                opened_here: false,
                local_port: 5000,
                peer_port: 50_001,
                local_tag: "0000000a".to_owned(),
                peer_tag: "0000000b".to_owned(),
                outbound_streams: 16,
                unacknowledged_bytes: 7,
                receive_window: 65_536,
                errors: 0,
                paths: vec![AssociationPath {
                    local: "10.0.0.2:9899".to_owned(),
                    remote: "10.0.0.1:9899".to_owned(),
                    state: "potentially failed".to_owned(),
                    is_primary: true,
                    carries_data: false,
                    srtt_ns: 1_500_000,
                    rto_ns: 200_000_000,
                    path_mtu: 1372,
                    congestion_window: 4380,
                    flight: 1448,
                    errors: 1,
                }],
            }],
            counters: BTreeMap::new(),
            discards: BTreeMap::from([("out_of_the_blue".to_owned(), 3)]),
        };
        let text = endpoint_text(&report);
        for part in [
            "process 4711: SCTP at 10.0.0.2:9899,10.1.0.2:9899",
            "out of the blue 3",
            "1 established, opened there, ports 5000 and 50001",
            "potentially failed, primary, RTT 1.5 ms, RTO 200.0 ms, path MTU 1372, congestion window 4380",
            "and 1 more associations",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
