//! Layers of a message's path, and the functions of each.
//!
//! A sample belongs to the layer of the innermost function on its stack that has one. Locks, return
//! thunks (Spectre mitigations) and other helpers have none: their time counts for the caller.

use crate::symbolize::Frame;
use std::collections::HashMap;
use std::sync::OnceLock;

/// A layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The measuring loop that sends or receives.
    Loop,
    /// Calls of the towpath library.
    Library,
    /// A protocol engine in user space.
    Engine,
    /// Driver of the engine, and wires below it.
    Driver,
    /// Ciphers and key exchange.
    Encryption,
    /// Entry to and exit from the kernel.
    SystemCall,
    /// Sockets, pipes and packet buffers.
    Socket,
    /// TCP and UDP.
    Transport,
    /// IP, routing and netfilter.
    Internet,
    /// Interfaces and their queues.
    Device,
    /// Copying octets.
    Copy,
    /// Checksums.
    Checksum,
    /// Memory allocation.
    Memory,
    /// Sleeping, wake-ups, context switches, polling of descriptors.
    Scheduling,
    /// Reading the clock.
    Clock,
    /// Everything else in the kernel.
    OtherKernel,
    /// Everything else in the process.
    OtherUser,
}

impl Layer {
    /// All, from the user down, then those found at every depth.
    pub const ALL: [Layer; 17] = [
        Layer::Loop,
        Layer::Library,
        Layer::Engine,
        Layer::Driver,
        Layer::Encryption,
        Layer::SystemCall,
        Layer::Socket,
        Layer::Transport,
        Layer::Internet,
        Layer::Device,
        Layer::Copy,
        Layer::Checksum,
        Layer::Memory,
        Layer::Scheduling,
        Layer::Clock,
        Layer::OtherKernel,
        Layer::OtherUser,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Loop => "measuring loop",
            Layer::Library => "library call",
            Layer::Engine => "engine",
            Layer::Driver => "driver and wire",
            Layer::Encryption => "encryption",
            Layer::SystemCall => "system call",
            Layer::Socket => "socket",
            Layer::Transport => "TCP/UDP",
            Layer::Internet => "IP",
            Layer::Device => "device",
            Layer::Copy => "copy",
            Layer::Checksum => "checksum",
            Layer::Memory => "memory",
            Layer::Scheduling => "scheduling",
            Layer::Clock => "clock",
            Layer::OtherKernel => "other, kernel",
            Layer::OtherUser => "other, process",
        }
    }
}

/// The layer of a stack, innermost frame first, and the function that decided it.
pub fn classify(frames: &[Frame]) -> (Layer, &str) {
    for frame in frames {
        let layer = if frame.kernel {
            kernel(&frame.name)
        } else {
            user(&frame.name)
        };
        if let Some(layer) = layer {
            return (layer, &frame.name);
        }
    }
    match frames.first() {
        Some(frame) if frame.kernel => (Layer::OtherKernel, &frame.name),
        Some(frame) => (Layer::OtherUser, &frame.name),
        None => (Layer::OtherUser, crate::symbolize::UNKNOWN),
    }
}

/// Name prefixes of kernel functions; the longest match decides.
const KERNEL: [(Layer, &str); 11] = [
    (
        Layer::SystemCall,
        "entry_ do_syscall syscall_ x64_sys_call __x64_sys_ __ia32_sys_ __arm64_sys_ el0_svc \
         el0t_64 invoke_syscall exit_to_user irqentry_exit_to_user arch_exit_to_user \
         __audit_syscall __seccomp ksys_ do_writev do_readv",
    ),
    (
        Layer::Socket,
        "sock_ __sock_ sockfd_ sk_ __sk_ skb_ __skb_ __alloc_skb alloc_skb __kfree_skb kfree_skb \
         __napi_kfree __build_skb build_skb napi_skb napi_consume consume_skb sendmsg recvmsg \
         inet_send inet_recv inet6_send inet6_recv inet_release inet_accept inet_stream \
         __sys_send __sys_recv ___sys_ ____sys_ __sys_accept __sys_connect do_accept move_addr \
         copy_msghdr import_ __import lock_sock release_sock __lock_sock __release_sock unix_ \
         __unix_ maybe_add_creds scm_ __scm_ pipe_ anon_pipe_ vfs_ new_sync_ fget __fget fdget \
         fput __fput fd_install security_socket security_sock apparmor_socket aa_sock \
         selinux_socket datagram_ __udp_gso_none fsnotify __fsnotify rw_verify_area \
         security_file iov_iter netlink_ do_splice splice_",
    ),
    (
        Layer::Transport,
        "tcp_ __tcp_ tcp4_ tcp6_ udp_ __udp udp4_ udp6_ udpv6_ udplite mptcp_ __mptcp bbr_ \
         cubictcp_ bictcp_ dctcp_ inet_csk __inet_csk inet_lookup __inet_lookup inet_ehash \
         __inet_hash inet_hash inet_twsk reuseport_ sctp_ ip_cmsg ip4_datagram __ip4_datagram",
    ),
    (
        Layer::Internet,
        "ip_ __ip_ ip4_ ip6_ __ip6 ipv4_ ipv6_ __ipv6 inet_gro inet6_gro inet_gso fib_ __fib \
         fib4_ rt_ dst_ __dst nf_ nft_ ipt_ iptable xt_ conntrack icmp_ icmpv6_ raw_local \
         raw_v4 neigh_ __neigh arp_ ndisc_ inet_addr __inet_dev addrconf",
    ),
    (
        Layer::Device,
        "dev_ __dev_ netdev_ netif_ __netif_ net_rx_action net_tx_action process_backlog \
         enqueue_to_backlog __napi_poll napi_ __napi_ gro_ loopback_ veth_ tun_ tap_ \
         validate_xmit sch_ pfifo_ fq_ tbf_ qdisc_ __qdisc packet_ __packet tpacket_ eth_ \
         skb_gso __skb_gso skb_segment skb_mac_gso skb_checksum_help rps_ get_rps br_ ndo_ \
         xdp_ harmonize_ virtnet_ ena_ backlog_",
    ),
    (
        Layer::Copy,
        "copy_user copy_from_user copy_to_user _copy_from _copy_to __copy_user raw_copy \
         __arch_copy rep_movs copyin copyout copy_page_from copy_page_to memcpy __memcpy memmove \
         __memmove skb_copy __skb_datagram_iter skb_datagram_iter simple_copy \
         skb_store_bits __copy_from __copy_to memcpy_ copy_folio copy_data",
    ),
    (
        Layer::Checksum,
        "csum_ __csum do_csum ip_fast_csum ip_compute_csum skb_checksum __skb_checksum crc32 \
         __crc32 skb_copy_and_csum copy_and_csum __tcp_checksum __udp_lib_checksum",
    ),
    (
        Layer::Memory,
        "kmem_ kmalloc __kmalloc kfree __kfree kvmalloc kvfree __slab ___slab slab_ __alloc_pages \
         alloc_pages __alloc_frozen alloc_frozen get_page_from_freelist free_unref __free_pages \
         free_pages free_frozen __free_frozen __page_frag page_frag skb_page_frag sk_page_frag \
         __put_page __folio_put folio_ get_partial put_cpu_partial cache_from_obj memset __memset \
         clear_page obj_cgroup __memcg memcg_ mem_cgroup __mod_memcg refill_obj exc_page_fault \
         asm_exc_page do_user_addr handle_mm __handle_mm rmqueue alloc_anon __rmqueue \
         page_counter try_charge refill_stock consume_stock page_pool",
    ),
    (
        Layer::Scheduling,
        "schedule __schedule preempt_schedule finish_task try_to_wake ttwu_ wake_ __wake \
         autoremove_wake default_wake ep_ __ep_ do_epoll epoll_ eventpoll do_poll do_sys_poll \
         __pollwait poll_ do_select core_sys_select futex_ do_futex __futex hrtimer_ __hrtimer \
         schedule_hrtimer schedule_timeout enqueue_ dequeue_ update_curr update_load update_rq \
         update_cfs select_task pick_ __pick switch_ __switch_to prepare_to_wait finish_wait \
         wait_woken woken_wake sched_ psi_ cpuacct_ native_smp_send x2apic_ reweight kick_ io_sched \
         set_next put_prev place_entity activate_task deactivate_task check_preempt wakeup_ \
         resched_ __resched mod_timer __mod_timer del_timer timer_ call_timer run_timer \
         raise_softirq __raise_softirq do_softirq __do_softirq handle_softirqs __local_bh \
         irq_exit __irq_exit irq_enter sysvec_ asm_sysvec __sysvec common_interrupt asm_common \
         rcu_ __rcu task_work tick_ account_ __task_rq scheduler_tick eventfd_ wait_for \
         sock_def_readable sk_wait sock_def_write mutex_ __mutex rseq_ __rseq add_wait remove_wait \
         avg_vruntime vruntime migrate_ set_task_cpu task_ __enqueue __dequeue requeue_ os_xsave \
         save_fpregs xfd_ load_new fpregs_",
    ),
    (
        Layer::Clock,
        "ktime_ read_tsc kvm_clock pvclock clock_ __ktime getboottime sched_clock local_clock \
         native_sched_clock read_hpet timekeeping_",
    ),
    // Handlers of hardware interrupts, and other work charged to the thread.
    (
        Layer::OtherKernel,
        "bpf_ __bpf perf_ __perf mlx5_ nvme_ blk_ ext4_ virtio_",
    ),
];

/// Name prefixes of functions in the process, with their crate.
const USER: [(Layer, &str); 9] = [
    (Layer::Loop, "measure:: control:: results:: hdrhistogram::"),
    (Layer::Library, "towpath::"),
    (
        Layer::Engine,
        "engine:: engine_aal34:: engine_bare:: engine_xtp:: engine_vmtp:: engine_sctp:: quinn_proto:: quinn::",
    ),
    (
        Layer::Driver,
        "driver:: wire:: wire_udp:: wire_ether:: wire_shm::",
    ),
    (
        Layer::Encryption,
        "ring:: rustls:: webpki:: aes_ chacha20_ gcm_ poly1305_ x25519 ecp_ sha256_",
    ),
    (
        Layer::SystemCall,
        "__send send recv __recv __libc_send __libc_recv write __write read __read __libc_write \
         __libc_read syscall ppoll __poll poll epoll_ sendto recvfrom sendmsg recvmsg sendmmsg \
         recvmmsg writev __GI_ __syscall pthread_cond pthread_mutex rustix:: futex",
    ),
    (Layer::Copy, "memcpy memmove __memcpy __memmove"),
    (
        Layer::Memory,
        "memset malloc free realloc calloc _int_malloc _int_free cfree __libc_malloc",
    ),
    (
        Layer::Clock,
        "[vdso] clock_gettime __clock_gettime __vdso __kernel_clock",
    ),
];

/// Checksum functions of this program.
const CHECKSUM_MODULE: &str = "engine::checksum::";

type Index = HashMap<&'static str, Layer>;

fn index(rules: &[(Layer, &'static str)]) -> Index {
    let all = rules.iter().flat_map(|(layer, names)| {
        let names = names.split_whitespace();
        names.map(move |name| (name, *layer))
    });
    all.collect()
}

/// The layer of the longest known prefix of `name`.
fn longest_prefix(index: &Index, name: &str) -> Option<Layer> {
    let ends = name.char_indices().map(|(at, c)| at + c.len_utf8());
    let ends: Vec<usize> = ends.collect();
    let mut known = ends.iter().rev().map(|&end| index.get(&name[..end]));
    known.find_map(|layer| layer.copied())
}

fn kernel(name: &str) -> Option<Layer> {
    static INDEX: OnceLock<Index> = OnceLock::new();
    longest_prefix(INDEX.get_or_init(|| index(&KERNEL)), name)
}

fn user(name: &str) -> Option<Layer> {
    static INDEX: OnceLock<Index> = OnceLock::new();
    let name = strip_type_syntax(name);
    if name.starts_with(CHECKSUM_MODULE) {
        return Some(Layer::Checksum);
    }
    longest_prefix(INDEX.get_or_init(|| index(&USER)), name)
}

/// Strips `<`, references and `dyn` from a name: `<a::B as c::D>::e` starts with `a::B`.
fn strip_type_syntax(name: &str) -> &str {
    name.trim_start_matches(['<', '&', '*'])
        .trim_start_matches("mut ")
        .trim_start_matches("dyn ")
        .trim_start_matches("const ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(kernel: &[&str], user: &[&str]) -> Vec<Frame> {
        let frame = |kernel: bool| {
            move |name: &&str| Frame {
                name: (*name).into(),
                kernel,
            }
        };
        let kernel = kernel.iter().map(frame(true));
        kernel.chain(user.iter().map(frame(false))).collect()
    }

    fn decided(kernel: &[&str], user: &[&str]) -> (Layer, String) {
        let frames = stack(kernel, user);
        let (layer, name) = classify(&frames);
        (layer, name.to_owned())
    }

    #[test]
    fn innermost_classified_frame_decides_layer() {
        let below = [
            "tcp_sendmsg",
            "inet_sendmsg",
            "__sys_sendto",
            "do_syscall_64",
        ];
        let on = |first: &str| {
            let kernel: Vec<&str> = [first].into_iter().chain(below).collect();
            decided(&kernel, &["__send", "towpath::stream::send"]).0
        };
        assert_eq!(on("_copy_from_iter"), Layer::Copy);
        assert_eq!(on("csum_partial"), Layer::Checksum);
        assert_eq!(on("kmem_cache_alloc_node"), Layer::Memory);
        assert_eq!(on("ip_finish_output2"), Layer::Internet);
        assert_eq!(on("__dev_queue_xmit"), Layer::Device);
        assert_eq!(on("try_to_wake_up"), Layer::Scheduling);
        assert_eq!(on("sk_stream_write_space"), Layer::Socket);
        // A lock counts for its caller.
        assert_eq!(
            decided(&["_raw_spin_lock_bh", "tcp_sendmsg"], &[]),
            (Layer::Transport, "tcp_sendmsg".into())
        );
        assert_eq!(
            decided(
                &["srso_alias_safe_ret", "entry_SYSCALL_64_after_hwframe"],
                &[]
            )
            .0,
            Layer::SystemCall
        );
    }

    #[test]
    fn longest_prefix_wins() {
        assert_eq!(kernel("skb_checksum"), Some(Layer::Checksum));
        assert_eq!(kernel("skb_copy_datagram_iter"), Some(Layer::Copy));
        assert_eq!(kernel("skb_release_data"), Some(Layer::Socket));
        assert_eq!(kernel("skb_copy_and_csum_bits"), Some(Layer::Checksum));
        assert_eq!(kernel("sock_def_readable"), Some(Layer::Scheduling));
        assert_eq!(kernel("__raw_callee_save"), None);
    }

    #[test]
    fn inlined_helpers_belong_to_caller_layer() {
        let user = [
            "core::slice::index::get",
            "<engine_xtp::Engine as engine::contract::Engine>::transmit",
            "driver::pump::Pump::send",
        ];
        let (layer, name) = decided(&[], &user);
        assert_eq!(layer, Layer::Engine);
        assert!(name.contains("transmit"));
        assert_eq!(
            decided(&[], &["memcpy", "driver::ring::write"]).0,
            Layer::Copy
        );
        assert_eq!(decided(&[], &["engine::checksum::add"]).0, Layer::Checksum);
        assert_eq!(decided(&[], &["main"]).0, Layer::OtherUser);
        assert_eq!(decided(&["mystery"], &[]).0, Layer::OtherKernel);
        assert_eq!(classify(&[]).0, Layer::OtherUser);
    }

    #[test]
    fn every_layer_is_listed_once() {
        let names: std::collections::BTreeSet<&str> =
            Layer::ALL.iter().map(|layer| layer.name()).collect();
        assert_eq!(names.len(), Layer::ALL.len());
    }
}
