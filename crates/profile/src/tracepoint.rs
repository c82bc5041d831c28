//! Counters of kernel tracepoints.

use crate::error::ProfileError;
use crate::sys::{Event, EventKind};
use crate::tracefs::Tracefs;
use std::collections::BTreeMap;
use std::fs;

/// Tracepoints that are counted, and their meaning.
const POINTS: [(&str, &str); 12] = [
    ("raw_syscalls/sys_enter", "system calls"),
    ("sock/sock_send_length", "sends on a socket"),
    ("sock/sock_recv_length", "receives on a socket"),
    ("net/net_dev_queue", "packets given to a device"),
    ("net/netif_receive_skb", "packets taken from a device"),
    ("skb/consume_skb", "packet buffers given back"),
    ("kmem/kmem_cache_alloc", "objects allocated"),
    ("kmem/kmalloc", "memory blocks allocated"),
    ("irq/softirq_entry", "software interrupts"),
    ("sched/sched_waking", "threads woken"),
    ("sched/sched_switch", "times off the processor"),
    ("exceptions/page_fault_user", "page faults"),
];

/// Tracepoints that each call of a routine passes once, and the routine.
const ROUTINES: [(&str, &str); 43] = [
    ("syscalls/sys_enter_read", "sys_read"),
    ("syscalls/sys_enter_readv", "sys_readv"),
    ("syscalls/sys_enter_write", "sys_write"),
    ("syscalls/sys_enter_writev", "sys_writev"),
    ("syscalls/sys_enter_sendto", "sys_sendto"),
    ("syscalls/sys_enter_sendmsg", "sys_sendmsg"),
    ("syscalls/sys_enter_sendmmsg", "sys_sendmmsg"),
    ("syscalls/sys_enter_recvfrom", "sys_recvfrom"),
    ("syscalls/sys_enter_recvmsg", "sys_recvmsg"),
    ("syscalls/sys_enter_recvmmsg", "sys_recvmmsg"),
    ("syscalls/sys_enter_splice", "sys_splice"),
    ("syscalls/sys_enter_sendfile64", "sys_sendfile64"),
    ("syscalls/sys_enter_poll", "sys_poll"),
    ("syscalls/sys_enter_ppoll", "sys_ppoll"),
    ("syscalls/sys_enter_epoll_wait", "sys_epoll_wait"),
    ("syscalls/sys_enter_futex", "sys_futex"),
    ("sock/sock_send_length", "__sock_sendmsg"),
    ("sock/sock_recv_length", "sock_recvmsg"),
    ("sock/sk_data_ready", "sock_def_readable"),
    ("tcp/tcp_sendmsg_locked", "tcp_sendmsg_locked"),
    ("tcp/tcp_probe", "tcp_rcv_established"),
    ("tcp/tcp_rcv_space_adjust", "tcp_rcv_space_adjust"),
    ("tcp/tcp_retransmit_skb", "__tcp_retransmit_skb"),
    ("fib/fib_table_lookup", "fib_table_lookup"),
    ("net/net_dev_queue", "__dev_queue_xmit"),
    ("net/net_dev_start_xmit", "dev_hard_start_xmit"),
    ("net/netif_rx", "netif_rx_internal"),
    ("net/netif_receive_skb", "__netif_receive_skb_core"),
    ("napi/napi_poll", "__napi_poll"),
    ("skb/skb_copy_datagram_iovec", "skb_copy_datagram_iter"),
    ("skb/consume_skb", "consume_skb"),
    ("skb/kfree_skb", "kfree_skb_reason"),
    ("kmem/kmem_cache_alloc", "kmem_cache_alloc"),
    ("kmem/kmem_cache_free", "kmem_cache_free"),
    ("kmem/kmalloc", "kmalloc"),
    ("kmem/kfree", "kfree"),
    ("kmem/mm_page_alloc", "__alloc_pages"),
    ("timer/timer_start", "enqueue_timer"),
    ("irq/softirq_raise", "raise_softirq"),
    ("irq/softirq_entry", "handle_softirqs"),
    ("sched/sched_waking", "try_to_wake_up"),
    ("sched/sched_switch", "__schedule"),
    ("exceptions/page_fault_user", "exc_page_fault"),
];

/// IDs of the tracepoints that this kernel has and this user may see, by meaning. May be empty.
pub fn tracepoints() -> BTreeMap<&'static str, u64> {
    numbers(&POINTS)
}

/// IDs of the tracepoints that count calls of a routine, by the routine. May be empty.
pub fn routines() -> BTreeMap<&'static str, u64> {
    numbers(&ROUTINES)
}

fn numbers(points: &[(&str, &'static str)]) -> BTreeMap<&'static str, u64> {
    let Ok(tracefs) = Tracefs::open() else {
        return BTreeMap::new();
    };
    let number = |point: &str| {
        let path = tracefs.path("events").join(point).join("id");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let all = points.iter();
    all.filter_map(|(point, what)| Some((*what, number(point)?)))
        .collect()
}

/// Tracepoint counters of a process and the threads it starts after [`TracepointCounters::attach`].
#[derive(Debug, Default)]
pub struct TracepointCounters {
    events: Vec<(&'static str, Event)>,
}

impl TracepointCounters {
    /// Opens counters of `process` for the tracepoints; those not permitted are omitted.
    pub fn attach(process: u32, tracepoints: &BTreeMap<&'static str, u64>) -> TracepointCounters {
        let opened = tracepoints.iter().filter_map(|(what, number)| {
            let event = Event::open(EventKind::Tracepoint(*number), process, None);
            Some((*what, event.ok()?))
        });
        TracepointCounters {
            events: opened.collect(),
        }
    }

    /// Starts counting.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn start(&self) -> Result<(), ProfileError> {
        let started = self.events.iter().try_for_each(|(_, event)| event.enable());
        started.map_err(ProfileError::event)
    }

    /// Stops counting; returns the counts.
    pub fn stop(&self) -> BTreeMap<String, u64> {
        let counts = self.events.iter().map(|(what, event)| {
            // The counter of an exited process has stopped, and keeps its count.
            let _ = event.disable();
            ((*what).to_owned(), event.count().unwrap_or(0))
        });
        counts.collect()
    }
}
