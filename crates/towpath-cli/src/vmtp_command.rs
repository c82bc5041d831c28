//! `towpath vmtp`: entities, calls and clients of live VMTP endpoints.

use crate::CliError;
use crate::live_endpoints::{Asking, LiveArgs};
use crate::xtp_command::{duration_text, push_line, strip_control_characters};
use clap::Subcommand;
use towpath::vmtp::entities::{EntitiesReport, TransactionReport, query, query_all};

/// Subcommands of `towpath vmtp`.
#[derive(Clone, Debug, Subcommand)]
pub enum VmtpCommand {
    /// Show the entities, calls and clients of live endpoints.
    #[command(after_help = ENTITIES_HELP)]
    Entities(LiveArgs),
}

const ENTITIES_HELP: &str = "`towpath blocks serve` can be queried, and any program that uses the library or libtowpath with
TOWPATH_CONTEXTS=on in its environment. Endpoints answer queries of their own user only, through
sockets in $XDG_RUNTIME_DIR/towpath (or /tmp/towpath-UID).

Examples:
  towpath vmtp entities                    all endpoints
  towpath vmtp entities 4711               the endpoints of a process
  towpath vmtp entities --json";

/// Runs the command.
pub fn run(command: &VmtpCommand) -> Result<u8, CliError> {
    let VmtpCommand::Entities(args) = command;
    ENDPOINTS.run(args)
}

const ENDPOINTS: Asking<EntitiesReport> = Asking {
    protocol: "VMTP",
    command: "towpath blocks serve",
    query,
    query_all,
    text: endpoint_text,
};

/// An endpoint, its entities and transactions.
fn endpoint_text(report: &EntitiesReport) -> String {
    let mut text = format!(
        "process {}: VMTP at {} for {}, {} entities, {} clients known\n",
        report.process,
        strip_control_characters(&report.address),
        duration_text(report.age_ns),
        report.entities_total,
        report.records_total
    );
    let counters = format!(
        "{} packets built, {} parsed, {} dropped, {} sent again",
        report.packets_built,
        report.packets_parsed,
        report.packets_discarded,
        report.retransmissions
    );
    push_line(&mut text, "counters", &counters);
    for entity in &report.entities {
        let groups = match entity.groups.as_slice() {
            [] => String::new(),
            groups => format!(", in {}", strip_control_characters(&groups.join(", "))),
        };
        let words = format!(
            "{}, {} of {} clients call{groups}",
            strip_control_characters(&entity.entity),
            entity.calling,
            entity.clients
        );
        push_line(&mut text, "entity", &words);
    }
    for call in &report.calls {
        push_line(&mut text, "call", &transaction_text(call, "to"));
    }
    for record in &report.records {
        push_line(&mut text, "client", &transaction_text(record, "from"));
    }
    let left = report.records_total.saturating_sub(report.records.len());
    if left > 0 {
        push_line(&mut text, "", &format!("and {left} more clients"));
    }
    text
}

fn transaction_text(it: &TransactionReport, direction: &str) -> String {
    let timeout = it.timeout_ns.map_or(String::new(), |ns| {
        format!(", timer in {}", duration_text(ns))
    });
    format!(
        "{} to {}, {direction} {}: transaction {:#010x} {}{timeout}",
        strip_control_characters(&it.client),
        strip_control_characters(&it.server),
        strip_control_characters(&it.peer),
        it.transaction,
        strip_control_characters(&it.state)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath::vmtp::entities::EntityReport;

    #[test]
    fn report_names_entities_calls_and_clients() {
        let transaction = |state: &str| TransactionReport {
            client: "00000001".to_owned(),
            server: "00000002".to_owned(),
            peer: "10.0.0.1:5".to_owned(),
            transaction: 0x1234,
            state: state.to_owned(),
            timeout_ns: Some(1_000_000),
        };
        let report = EntitiesReport {
            process: 4711,
            address: "10.0.0.2:4081".to_owned(),
            age_ns: 5_000_000_000,
            entities_total: 1,
            entities: vec![EntityReport {
                entity: "00000002".to_owned(),
                clients: 3,
                calling: 1,
                groups: vec!["40000001".to_owned()],
            }],
            calls: vec![transaction("awaiting-response")],
            records_total: 2,
            records: vec![transaction("processing")],
            packets_built: 1,
            packets_parsed: 2,
            packets_discarded: 3,
            retransmissions: 4,
        };
        let text = endpoint_text(&report);
        for part in [
            "process 4711: VMTP at 10.0.0.2:4081",
            "1 of 3 clients call, in 40000001",
            "to 10.0.0.1:5: transaction 0x00001234 awaiting-response",
            "from 10.0.0.1:5: transaction 0x00001234 processing, timer in",
            "and 1 more clients",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
