//! Checks of limits and defaults of the network stack.

use super::{Check, TestSpec, bad, good, note, warning};
use crate::survey::Survey;
use results::Finding;

pub(super) const CHECKS: &[Check] = &[
    loopback,
    congestion,
    receive_buffer,
    buffers_asked,
    ports,
    busy_read,
    multipath,
    raw_ethernet,
    open_files,
];

fn loopback(survey: &Survey, _: &TestSpec) -> Option<Finding> {
    if survey.network.loopback_up? {
        return None;
    }
    bad(
        "the loopback interface is down",
        "nothing but pipes and Unix sockets can connect",
        "as root: ip link set lo up",
    )
}

/// Whether a contestant takes the congestion control and the ports of kernel TCP.
fn uses_tcp(test: &TestSpec) -> bool {
    ["tcp", "mptcp", "tls"].iter().any(|name| test.uses(name))
}

fn congestion(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let default = survey.network.congestion.as_deref()?;
    if !uses_tcp(test) {
        return None;
    }
    let wanted = test.congestion.as_str();
    if wanted.is_empty() || wanted == default {
        return good(format!("TCP's congestion control is {default}"));
    }
    let available = survey.network.congestion_available.as_deref();
    let words = available.map(|names| names.split_whitespace().any(|name| name == wanted));
    if words == Some(false) {
        return bad(
            format!("TCP's congestion control {wanted} is not loaded"),
            "setting it fails without root",
            format!("as root: modprobe tcp_{wanted}; or --congestion {default}"),
        );
    }
    note(
        format!("this host's TCP uses {default} by default"),
        format!("trials set {wanted} and read it back, so results may differ from other programs'"),
        format!("--congestion {default} measures what other programs get"),
    )
}

/// Receive buffer, bytes, for a receiver that is off its processor for a millisecond at 10 Gbit/s,
/// doubled for the kernel's bookkeeping.
const RECEIVE_BUFFER_WANTED: u64 = 2_500_000;

fn receive_buffer(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let most = survey.network.receive_buffer_max?;
    if !test.floods_udp() {
        return None;
    }
    if most >= RECEIVE_BUFFER_WANTED {
        return good(format!("receive buffers may have {most} B (rmem_max)"));
    }
    warning(
        format!("receive buffers may have {most} B at most (rmem_max)"),
        "UDP has no flow control: datagrams that do not fit are dropped, and drops decide the result",
        format!("as root: sysctl -w net.core.rmem_max={}", 4 << 20),
    )
}

fn buffers_asked(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let requested = test.buffers?;
    let least = [
        survey.network.receive_buffer_max,
        survey.network.send_buffer_max,
    ];
    let least = least.into_iter().flatten().min()?;
    if requested <= least {
        return None;
    }
    warning(
        format!("the requested buffers ({requested} B) are above rmem_max or wmem_max ({least} B)"),
        "the kernel lowers them; the sizes in effect are read back and stored",
        format!("as root: sysctl -w net.core.rmem_max={requested} net.core.wmem_max={requested}"),
    )
}

/// Ports for a trial of a second at 50,000 connections a second.
const PORTS_WANTED: u64 = 50_000;

fn ports(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let ports = survey.network.port_count()?;
    if !test.has("connect") || !uses_tcp(test) {
        return None;
    }
    if ports >= PORTS_WANTED {
        return good(format!("{ports} ports are available to clients"));
    }
    let what = format!("{ports} ports are available to clients");
    let remedy = "as root: sysctl -w net.ipv4.ip_local_port_range='1024 65535'";
    match survey.network.time_wait_reuse {
        Some(0) => warning(
            format!("{what}, and none is reused during TIME_WAIT, a minute (tcp_tw_reuse = 0)"),
            "a trial of many connections runs out of ports and is invalid",
            format!("{remedy}; sysctl -w net.ipv4.tcp_tw_reuse=2"),
        ),
        _ => note(
            what,
            "a long trial of many connections may run out of ports; it is then invalid",
            remedy,
        ),
    }
}

fn busy_read(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let us = survey.network.busy_read_us?;
    if us == 0 || !test.has_delay() {
        return None;
    }
    note(
        format!("the kernel polls {us} us for blocking readers (net.core.busy_read)"),
        "delays over a network card are shorter and cost more processor time; the loopback is \
         unaffected",
        "sysctl -w net.core.busy_read=0 gives the usual setting",
    )
}

fn multipath(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    if !test.uses("mptcp") || survey.network.mptcp? {
        return None;
    }
    warning(
        "multipath TCP is switched off",
        "its trials fail: it would silently be plain TCP",
        "as root: sysctl -w net.mptcp.enabled=1",
    )
}

fn raw_ethernet(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let raw = [
        "raw-ether",
        "xtp-ether",
        "xtp-rawip",
        "vmtp-ether",
        "vmtp-rawip",
        "udp-streams",
        "rawip-streams",
    ];
    let used = raw.into_iter().find(|name| test.uses(name))?;
    if survey.kernel.raw_packets? {
        return None;
    }
    warning(
        "this process may not open raw or packet sockets",
        format!("{used} cannot run"),
        "run as root, or setcap cap_net_raw+ep on the program",
    )
}

/// Descriptors of a worker besides its circuits.
const FILES_SPARE: u64 = 64;

fn open_files(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let most = survey.kernel.files_max?;
    let wanted = FILES_SPARE + 4 * u64::from(test.circuits);
    if most >= wanted {
        return None;
    }
    bad(
        format!("a process may have {most} files open"),
        format!("{} circuits need {wanted}", test.circuits),
        format!("ulimit -n {wanted}, or fewer --circuits"),
    )
}
