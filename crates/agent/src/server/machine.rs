//! This host's capabilities and facts, for clients.

use super::raw_sockets::needs_raw_sockets;
use control::Caps;
use control::session::{AgentHello, HostCounters, MachineDescription};
use loadgen::contestant::Component;
use results::{Machine, TestSpec};
use std::net::IpAddr;
use std::path::Path;
use towpath::{Options, Reach};

/// Why a component cannot be used from another host; checked before a worker gets the job.
pub(crate) fn check_transport(text: &str, caps: &Caps) -> Result<(), String> {
    let component = Component::parse(text)?;
    let transport = component.transport();
    let name = transport.name();
    if name == "shm-remote" {
        return Err(format!(
            "{name} needs files in memory, which an agent forbids its workers; race it over --link"
        ));
    }
    if needs_raw_sockets(name) {
        missing_raw_sockets(caps).map_or(Ok(()), Err)?;
    } else if transport.is_one_to_many() {
        check_group(&component)?;
    } else if component.class().reach != Reach::Network || !crosses_network(name) {
        return Err(format!("{name} stays within one host"));
    }
    let mut options = Options::default();
    component.apply(&mut options);
    let buffers = options.buffers.map(|len| len.to_string());
    let shared = buffers.map(|len| ("buffers", "BYTES", len));
    let own = transport.options().iter().filter_map(|option| {
        let value = options.transport_specific.get(option.name)?;
        Some((option.name, option.values, value.clone()))
    });
    for (key, values, value) in own.chain(shared) {
        if values.contains("ADDR") {
            // Data would go to an unvalidated address.
            return Err(format!("an agent's {name} has no {key}; leave it out"));
        }
        if needs_raw_sockets(name) && key == "llc" {
            // Its sockets are for an EtherType; with LLC frames have none.
            return Err(format!("an agent's {name} has no {key}; leave it out"));
        }
        if values.contains("FOLDER") || values.contains("FILE") {
            // A client's words name no files of this host.
            return Err(format!("an agent's {name} has no {key}; leave it out"));
        }
        if values == "HIGH/LOW" && high_mark(&value) > caps.buffers {
            return Err(format!(
                "{key}={value} of {name} is more than this agent allows for buffers, {} B",
                caps.buffers
            ));
        }
        if values.contains("BYTES") && option_bytes(&value).is_none_or(|len| len > caps.buffers) {
            return Err(format!(
                "{key}={value} of {name} is more than this agent allows for buffers, {} B",
                caps.buffers
            ));
        }
    }
    Ok(())
}

/// The octets that a queue holds with these water marks.
fn high_mark(value: &str) -> u64 {
    let high = value.split('/').next().unwrap_or_default();
    high.parse().unwrap_or(u64::MAX)
}

/// The bytes that a transport's option value means; None if unknown.
fn option_bytes(value: &str) -> Option<u64> {
    match value {
        "study" => Some(16 << 10),
        value => quantity::bytes(value).ok(),
    }
}

/// A group has one receiver in each worker, and a group of the organization's own that its sender names: words name no
/// hosts, and its receiver hears the sender alone. The rest of a group's options are its own check's.
fn check_group(component: &Component) -> Result<(), String> {
    let mut options = Options::default();
    component.apply(&mut options);
    let own = &options.transport_specific;
    let is_shared = own.contains_key("group") && own.get("receivers").is_some_and(|n| n == "1");
    match is_shared && !own.contains_key("replicate") {
        true => Ok(()),
        false => Err(format!(
            "an agent has one receiver of a group; race {component} with --fan-out and an agent for each receiver"
        )),
    }
}

/// Whether a transport reaches agents, but only as one sender to a receiver on each.
pub fn needs_fan_out(name: &str) -> bool {
    name == "xtp-multicast"
}

/// Why raw sockets are not to be had here, if so.
fn missing_raw_sockets(caps: &Caps) -> Option<String> {
    caps.raw_interfaces.is_empty().then(|| {
        "it needs raw sockets, which this agent does not give its workers; start the agent with --raw INTERFACE".into()
    })
}

/// Whether a transport can be used with every agent: `null` moves nothing, raw frames and packets need
/// sockets that an operator has to allow ([`needs_raw_sockets`]), groups need a receiver on each of several agents
/// ([`needs_fan_out`]), `shm-remote` and
/// `tcp-sendfile` need files in memory, which a worker's limit on files forbids, sockets of SMC and
/// of the kernel's SCTP take no filter of sources, and the kernel's QUIC is not used yet.
pub fn crosses_network(name: &str) -> bool {
    !matches!(
        name,
        "null"
            | "raw-ether"
            | "quic-kernel"
            | "shm-remote"
            | "smc"
            | "tcp-sendfile"
            | "sctp-kernel"
            | "sctp-rawip"
            | "udp-streams"
            | "rawip-streams"
            | "xtp-ether"
            | "xtp-rawip"
            | "xtp-multicast"
            | "vmtp-ether"
            | "vmtp-rawip"
    )
}

/// The hello to a client.
pub(crate) fn welcome(caps: &Caps) -> AgentHello {
    let all = towpath::all().iter();
    let far = all.filter(|one| one.class().reach == Reach::Network);
    let is_allowed = |name| crosses_network(name) || needs_raw_sockets(name) || needs_fan_out(name);
    let far = far.filter(|one| is_allowed(one.name()));
    let congestion = congestion_controls();
    let options = Options {
        congestion: congestion.first().cloned().unwrap_or_default(),
        ..Options::default()
    };
    let with_reason = far.map(|transport| {
        let missing = match needs_raw_sockets(transport.name()) {
            true => missing_raw_sockets(caps),
            false => transport
                .available(&options)
                .err()
                .map(|missing| missing.reason),
        };
        (transport.name().to_owned(), missing)
    });
    AgentHello {
        version: control::PROTOCOL_VERSION,
        program: env!("CARGO_PKG_VERSION").into(),
        caps: caps.clone(),
        transports: with_reason.collect(),
        congestion,
        processors: processors(),
    }
}

/// The congestion controls that unprivileged TCP may use, the system's default first.
fn congestion_controls() -> Vec<String> {
    let folder = "/proc/sys/net/ipv4";
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap_or_default();
    let usual = read("tcp_congestion_control").trim().to_owned();
    let allowed = read("tcp_allowed_congestion_control");
    let others = allowed
        .split_whitespace()
        .filter(|name| *name != usual)
        .map(str::to_owned);
    std::iter::once(usual.clone())
        .chain(others)
        .filter(|name| !name.is_empty())
        .collect()
}

fn processors() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    all.filter(|&cpu| set.is_set(cpu))
        .map(|cpu| cpu as u32)
        .collect()
}

/// Host facts and doctor findings.
pub(crate) fn describe(test: &TestSpec) -> MachineDescription {
    let Machine {
        facts, findings, ..
    } = host::machine(test);
    MachineDescription { facts, findings }
}

/// The host's counters over a trial whose workers used `own_s` of CPU time.
pub(crate) fn counters(
    seen: &host::SnapshotDifference,
    own_s: f64,
    interface: String,
) -> HostCounters {
    let interface = if interface.is_empty() {
        "lo".to_owned()
    } else {
        interface
    };
    let expected = host::Expected {
        own_cpu_s: own_s,
        interfaces: vec![interface.clone()],
        expects_drops: true,
        expects_losses: true,
    };
    HostCounters {
        evidence: seen.evidence(&[interface]),
        disturbed: host::disturbances(seen, &expected),
        datagrams_dropped: seen.counters.udp_receive_buffer_drops,
    }
}

/// The disturbance of a race of this host's own users; None for a client on this host, whose own race
/// it would be.
pub(crate) fn race_beside(lock: Option<&Path>, client: IpAddr, local: IpAddr) -> Option<String> {
    if client == local || client.is_loopback() {
        return None;
    }
    let process = host::race_holder(lock?)?;
    Some(format!("another race ran on this host, process {process}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn race_of_this_hosts_users_disturbs_clients_of_other_hosts() {
        let path = std::env::temp_dir().join(format!("towpath-beside-{}", std::process::id()));
        let [far, own] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().expect("an address"));
        assert_eq!(race_beside(Some(&path), far, own), None, "no race");
        let lock = host::RaceLock::attempt(&path).expect("a lock");
        let said = race_beside(Some(&path), far, own);
        // A /proc of a container may hide who holds it.
        if host::race_holder(&path).is_some() {
            let said = said.expect("a race runs");
            assert!(said.contains(&std::process::id().to_string()), "{said}");
        }
        assert_eq!(race_beside(Some(&path), own, own), None, "the client's own");
        assert_eq!(race_beside(None, far, own), None, "no lock is used");
        drop(lock);
        std::fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn component_buffer_sizes_checked_against_caps() {
        let caps = Caps {
            buffers: 1 << 20,
            ..Caps::default()
        };
        for (component, fine) in [
            ("tcp,buffers=1M", true),
            ("tcp,buffers=1025k", false),
            ("tcp,buffers=64M", false),
            ("udp,buffers=2MB", false),
            ("xtp,queue=1m", true),
            ("xtp,queue=study", true),
            ("xtp,queue=2m", false),
            ("xtp-message,ralloc=64MiB", false),
            ("xtp-lent,oqmax=1048577", false),
            ("xtp,iqmax=2M", false),
            ("xtp,talloc=2M", false),
            ("xtp,rate=1gbit,burst=2M", false),
            ("xtp,rate=1gbit,burst=64k", true),
            ("tcp,push=meter/buffer,buffer-marks=4096/0", true),
            ("tcp,push=buffer,buffer-marks=2000000/0", false),
            ("xti-tcp,marks=2000000/0", false),
            ("tcp,push=capture,capture-to=.", false),
        ] {
            assert_eq!(
                check_transport(component, &caps).is_ok(),
                fine,
                "{component}"
            );
        }
    }

    #[test]
    fn every_byte_option_checked_against_caps() {
        let caps = Caps {
            buffers: 1,
            ..Caps::default()
        };
        let far =
            |name: &str| towpath::find(name).is_ok_and(|one| one.class().reach == Reach::Network);
        let all = towpath::all().iter().map(|one| one.name());
        for name in all.filter(|name| far(name) && crosses_network(name)) {
            let transport = towpath::find(name).expect("it is one of them");
            for option in loadgen::contestant::options_of(transport) {
                let value = match option.values.split('|').next() {
                    Some("BYTES") if option.name == "packet" => "1200",
                    Some("BYTES") => "8k",
                    Some("ADDR:PORT") => "192.0.2.1:7",
                    _ => continue,
                };
                let more = match option.name {
                    "burst" => ",rate=1gbit",
                    "gateway" => ",dialect=3.6",
                    _ => "",
                };
                let component = format!("{name},{}={value}{more}", option.name);
                assert_eq!(
                    check_transport(&component, &Caps::default()).is_ok(),
                    option.values != "ADDR:PORT",
                    "{component}"
                );
                let why = check_transport(&component, &caps).expect_err(&component);
                assert!(why.contains(option.name), "{component}: {why}");
            }
        }
    }
}
