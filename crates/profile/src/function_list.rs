//! Which functions of the kernel are counted.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Patterns of the network stack's functions, from the system calls to the devices. Those that a kernel
/// has no function for are passed over.
const NETWORK: &str = "
    *_sys_read *_sys_readv *_sys_write *_sys_writev *_sys_send* *_sys_recv* *_sys_splice *_sys_sendfile*
    *_sys_*poll* *_sys_epoll_* __sys_send* __sys_recv* ksys_read ksys_write vfs_read vfs_write
    move_addr_to_kernel move_addr_to_user sockfd_lookup_light import_*
    sock_* __sock_* security_socket_* inet_* inet6_* unix_* packet_* tpacket_* sk_* __sk_* lock_sock* release_sock
    tcp_* __tcp_* bpf_skops_* udp_* udp4_* udpv6_* __udp* sctp_* raw_sendmsg raw_recvmsg
    ip_* __ip_* ip6_* ipv6_* ipv4_* nf_* fib_*
    *dev_queue_xmit* dev_hard_start_xmit validate_xmit_* *netif_r* enqueue_to_backlog process_backlog *napi_poll
    net_rx_action loopback_* veth_* eth_type_trans *do_softirq
    skb_* __skb_* *alloc_skb* *build_skb* kfree_skb* consume_skb __copy_skb_header datagram_poll
    _copy_from_iter* _copy_to_iter* copy_page_* simple_copy_to_iter csum_* __wsum_*
";

/// Most patterns of a list, and most characters of one.
const PATTERNS_MAX: usize = 256;
const PATTERN_LENGTH_MAX: usize = 128;

/// Which functions of the kernel are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FunctionList {
    /// The network stack.
    #[default]
    Network,
    /// Every function that can be traced.
    All,
    /// Those that match a pattern of the user's; each matches one at least.
    Patterns(Vec<String>),
}

impl FunctionList {
    /// The patterns; none for all functions.
    pub fn patterns(&self) -> Vec<&str> {
        match self {
            FunctionList::Network => NETWORK.split_whitespace().collect(),
            FunctionList::All => Vec::new(),
            FunctionList::Patterns(patterns) => patterns.iter().map(String::as_str).collect(),
        }
    }
}

impl FromStr for FunctionList {
    type Err = String;

    /// `network`, `all`, or patterns separated by commas. The kernel takes more than patterns in their place,
    /// such as commands that stop all tracing, so that only names with wildcards pass.
    fn from_str(text: &str) -> Result<FunctionList, String> {
        match text {
            "network" => return Ok(FunctionList::Network),
            "all" => return Ok(FunctionList::All),
            _ => {}
        }
        let patterns: Vec<String> = text.split(',').map(str::to_owned).collect();
        if patterns.len() > PATTERNS_MAX {
            return Err(format!(
                "{} patterns; give {PATTERNS_MAX} at most, or all",
                patterns.len()
            ));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.*?".contains(c);
        let wrong = patterns.iter().find(|pattern| {
            !(1..=PATTERN_LENGTH_MAX).contains(&pattern.len()) || !pattern.chars().all(is_plain)
        });
        match wrong {
            Some(pattern) => Err(format!(
                "'{pattern}' is no pattern of functions; give network, all, or names with * and ? such as tcp_*,ip_output"
            )),
            None => Ok(FunctionList::Patterns(patterns)),
        }
    }
}

impl Serialize for FunctionList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for FunctionList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FunctionList::Network => f.write_str("network"),
            FunctionList::All => f.write_str("all"),
            FunctionList::Patterns(patterns) => f.write_str(&patterns.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_words_or_patterns() {
        for text in ["network", "all", "tcp_*,ip_output"] {
            let list: FunctionList = text.parse().expect("a list");
            assert_eq!(list.to_string(), text);
        }
        assert!(FunctionList::All.patterns().is_empty());
        let network = FunctionList::Network.to_string();
        assert_eq!(network.parse(), Ok(FunctionList::Network));
        for pattern in FunctionList::Network.patterns() {
            assert!(pattern.parse::<FunctionList>().is_ok(), "{pattern}");
        }
    }

    #[test]
    fn commands_of_the_kernel_are_no_patterns() {
        let long = "a".repeat(PATTERN_LENGTH_MAX + 1);
        let many = vec!["a"; PATTERNS_MAX + 1].join(",");
        for text in [
            "",
            "tcp_*,",
            "!tcp_*",
            "tcp_*:traceoff",
            "a b",
            "a\nb",
            &long,
            &many,
        ] {
            assert!(text.parse::<FunctionList>().is_err(), "{text:?}");
        }
    }
}
