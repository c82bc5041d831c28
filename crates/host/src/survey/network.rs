//! Settings of the network stack.

use crate::kernel_files::KernelFiles;

/// Readings of the network stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    /// TCP's default congestion control.
    pub(crate) congestion: Option<String>,
    /// Those the kernel has loaded.
    pub(crate) congestion_available: Option<String>,
    /// Largest receive buffer a user may set, bytes.
    pub(crate) receive_buffer_max: Option<u64>,
    /// Largest send buffer a user may set, bytes.
    pub(crate) send_buffer_max: Option<u64>,
    /// Default receive buffer of a UDP socket, bytes.
    pub(crate) receive_buffer_default: Option<u64>,
    /// TCP's receive buffer: minimum, default, maximum, bytes.
    pub(crate) tcp_receive_buffer: Option<Vec<u64>>,
    /// TCP's send buffer: minimum, default, maximum, bytes.
    pub(crate) tcp_send_buffer: Option<Vec<u64>>,
    /// UDP's memory over all sockets: minimum, pressure, maximum, pages.
    pub(crate) udp_memory: Option<Vec<u64>>,
    /// First and last ephemeral port.
    pub(crate) ports: Option<Vec<u64>>,
    /// Whether ports in TIME_WAIT may be reused: 0 no, 1 yes, 2 on the loopback.
    pub(crate) time_wait_reuse: Option<u8>,
    /// Length of a processor's input queue, packets.
    pub(crate) backlog: Option<u64>,
    /// MTU of the loopback, bytes.
    pub(crate) loopback_mtu: Option<u64>,
    /// The loopback is up.
    pub(crate) loopback_up: Option<bool>,
    /// Queueing discipline of new interfaces.
    pub(crate) queueing: Option<String>,
    /// Microseconds the kernel busy-polls for a blocking reader.
    pub(crate) busy_read_us: Option<u64>,
    /// The stack has IPv6.
    pub(crate) ipv6: bool,
    /// The stack has multipath TCP, and it is on.
    pub(crate) mptcp: Option<bool>,
}

impl Network {
    pub(crate) fn of(files: &KernelFiles) -> Network {
        let core = |name: &str| format!("proc/sys/net/core/{name}");
        let ipv4 = |name: &str| format!("proc/sys/net/ipv4/{name}");
        let flags = files.line("sys/class/net/lo/flags");
        Network {
            congestion: files.line(&ipv4("tcp_congestion_control")),
            congestion_available: files.line(&ipv4("tcp_available_congestion_control")),
            receive_buffer_max: files.number(&core("rmem_max")),
            send_buffer_max: files.number(&core("wmem_max")),
            receive_buffer_default: files.number(&core("rmem_default")),
            tcp_receive_buffer: files.numbers(&ipv4("tcp_rmem")),
            tcp_send_buffer: files.numbers(&ipv4("tcp_wmem")),
            udp_memory: files.numbers(&ipv4("udp_mem")),
            ports: files.numbers(&ipv4("ip_local_port_range")),
            time_wait_reuse: files.number(&ipv4("tcp_tw_reuse")),
            backlog: files.number(&core("netdev_max_backlog")),
            loopback_mtu: files.number("sys/class/net/lo/mtu"),
            loopback_up: flags.and_then(|flags| is_up(&flags)),
            queueing: files.line(&core("default_qdisc")),
            busy_read_us: files.number(&core("busy_read")),
            ipv6: files.exists("proc/net/if_inet6"),
            mptcp: files
                .number::<u8>("proc/sys/net/mptcp/enabled")
                .map(|on| on == 1),
        }
    }

    /// Number of ephemeral ports.
    pub(crate) fn port_count(&self) -> Option<u64> {
        match self.ports.as_deref()? {
            [first, last] => Some(last.saturating_add(1).saturating_sub(*first)),
            _ => None,
        }
    }
}

/// IFF_UP is the lowest bit.
fn is_up(flags: &str) -> Option<bool> {
    let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
    Some(flags & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_range_is_inclusive() {
        let network = Network {
            ports: Some(vec![10, 19]),
            ..Network::default()
        };
        assert_eq!(network.port_count(), Some(10));
    }

    #[test]
    fn iff_up_flag_is_parsed() {
        assert_eq!(is_up("0x9"), Some(true));
        assert_eq!(is_up("0x8"), Some(false));
        assert_eq!(is_up("?"), None);
    }
}
