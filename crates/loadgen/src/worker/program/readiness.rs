//! When a server is ready, without a connection that it would take for its client's.

use super::process::RunningProgram;
use control::Readiness;
use std::net::IpAddr;

/// State LISTEN of TCP, and that of an unconnected UDP socket, in /proc/net.
const TCP_LISTEN: &str = "0A";
const UDP_UNCONNECTED: &str = "07";

/// Watches for a server's readiness.
pub(super) struct Watch<'a> {
    readiness: &'a Readiness,
    address: IpAddr,
    port: u16,
}

impl Watch<'_> {
    /// Watches a server that is to use `port` of `address`.
    pub(super) fn new(readiness: &Readiness, address: IpAddr, port: u16) -> Watch<'_> {
        Watch {
            readiness,
            address,
            port,
        }
    }

    /// Whether it is ready now.
    pub(super) fn is_ready(&self, program: &RunningProgram) -> bool {
        let bound = |protocol: &str, state: &str| {
            // A socket of IPv6 may serve IPv4 as well.
            let tables = [protocol.to_owned(), format!("{protocol}6")];
            tables.iter().any(|table| {
                let text = std::fs::read_to_string(format!("/proc/self/net/{table}"));
                text.is_ok_and(|text| has_socket(&text, self.port, state))
            })
        };
        match self.readiness {
            Readiness::Tcp => bound("tcp", TCP_LISTEN),
            Readiness::Udp => bound("udp", UDP_UNCONNECTED),
            Readiness::Line(wanted) => program.said(wanted),
        }
    }

    /// What was waited for.
    pub(super) fn wanted(&self) -> String {
        let (address, port) = (self.address, self.port);
        match self.readiness {
            Readiness::Tcp => format!("nothing listens at port {port} of {address} (TCP)"),
            Readiness::Udp => format!("nothing is bound to port {port} of {address} (UDP)"),
            Readiness::Line(wanted) => format!("no line of its output has \"{wanted}\""),
        }
    }
}

/// Whether a table of /proc/net has a socket with this local port in this state.
fn has_socket(table: &str, port: u16, state: &str) -> bool {
    let wanted = format!("{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|local| local.rsplit_once(':'));
        let found = fields.nth(1);
        local.is_some_and(|(_, port)| port == wanted) && found == Some(state)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_is_found_by_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue\n   \
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n   \
             1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000\n";
        assert!(has_socket(table, 8080, TCP_LISTEN));
        assert!(!has_socket(table, 8081, TCP_LISTEN));
        assert!(!has_socket(table, 80, TCP_LISTEN));
    }
}
