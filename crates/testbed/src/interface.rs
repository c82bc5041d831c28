//! A host's interface on a link: addresses, neighbours, routes, and the qdisc of a kernel link.

use crate::error::TestbedError;
use crate::host::{Host, address, address6, interface_name, mac_address};
use crate::netlink::{self, InterfaceConfig, Netlink, TokenBucket};
use crate::plan::TestbedPlan;
use crate::sys;
use link::LinkConfig;
use rustix::net::{AddressFamily, SocketType, netdevice};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Queue of a host's interface, packets. The link's queue is the model's; this one only bridges
/// moments in which the emulator is busy.
const DEVICE_QUEUE: u32 = 10_000;

/// Prefix lengths of the hosts' addresses.
const PREFIX: u8 = 16;
const PREFIX6: u8 = 64;

/// All IPv4 groups (RFC 5771), and the length of their prefix. For IPv6 the kernel has a route.
const GROUPS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 0);
const GROUPS_PREFIX: u8 = 4;

/// Burst of a token bucket, as a part of a second of its rate: 1/5000 = 200 us.
const BURST_PER_S: u64 = 5000;

/// Minimum burst, full frames.
const BURST_FRAMES: u64 = 2;

/// Octets of an Ethernet header.
const ETHER_HEADER: u64 = 14;

/// Limit of netem's queue, packets.
const PACKETS_MAX: u32 = 100_000;

/// How long an interface may take to be running; the kernel checks at least once a second.
const RUNNING_TIMEOUT: Duration = Duration::from_secs(5);

/// The interface of a host on a link.
#[derive(Clone, Copy)]
pub(crate) struct LinkInterface<'a> {
    pub(crate) host: &'a Host,
    pub(crate) plan: &'a TestbedPlan,
    /// Number of the link, from 0.
    pub(crate) link: usize,
}

impl LinkInterface<'_> {
    /// Brings the interface up, with addresses and permanent neighbour entries; `kernel` is what a
    /// kernel link does with packets sent.
    pub(crate) fn configure(self, kernel: Option<LinkConfig>) -> Result<(), TestbedError> {
        let LinkInterface { host, plan, link } = self;
        let number = plan
            .hosts
            .iter()
            .position(|planned| planned.name == host.name())
            .unwrap_or_default() as u32;
        let settings = InterfaceConfig {
            mtu: Some(plan.mtu),
            mac_address: Some(mac_address(link, number)),
            queue_len: Some(DEVICE_QUEUE),
        };
        let (others, ipv6) = (0..plan.hosts.len() as u32, plan.ipv6);
        let cpus = host.cpus().to_vec();
        let steered = !cpus.is_empty() && has_processors_for_link(plan);
        let (mut netlink, index) = run_in_host(host, "the interface", move || {
            let name = interface_name(link);
            silence_ipv6(&name, ipv6)?;
            let mut netlink = Netlink::open()?;
            netlink::configure_interface(&mut netlink, "lo", InterfaceConfig::default())?;
            netlink::configure_interface(&mut netlink, &name, settings)?;
            let index = interface_index(&name)?;
            for (address, prefix) in addresses(link, number, ipv6) {
                netlink::add_address(&mut netlink, index, address, prefix)?;
            }
            for other in others.filter(|&other| other != number) {
                for (address, _) in addresses(link, other, ipv6) {
                    let hardware = mac_address(link, other);
                    netlink::add_neighbour(&mut netlink, index, address, hardware)?;
                }
            }
            if link == 0 {
                netlink::add_route(&mut netlink, index, GROUPS, GROUPS_PREFIX)?;
            }
            if steered {
                // Without RPS packets are received on the CPU where they arrive.
                let _ = sys::set_rps_cpus(&name, &cpu_mask(&cpus));
            }
            Ok((netlink, index))
        })?;
        let Some(config) = kernel else {
            return Ok(());
        };
        let mtu = plan.mtu;
        let ruled = host.run(move || add_qdisc(&mut netlink, index, &config, mtu));
        ruled.map_err(TestbedError::kernel("the interface"))?
    }
}

/// Waits until the interface on link number `link` is running: shortly after its peer came up.
/// Packets sent earlier are lost.
pub(crate) fn await_running(netlink: &mut Netlink, link: usize) -> io::Result<()> {
    let (name, end) = (interface_name(link), Instant::now() + RUNNING_TIMEOUT);
    while !netlink::is_running(netlink, &name)? {
        if Instant::now() > end {
            return Err(io::Error::other("it does not begin to run"));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// The addresses of host number `number` on a link, with the lengths of their prefixes.
fn addresses(link: usize, number: u32, ipv6: bool) -> Vec<(IpAddr, u8)> {
    let both = [
        (address(link, number), PREFIX),
        (address6(link, number), PREFIX6),
    ];
    both.into_iter().take(1 + usize::from(ipv6)).collect()
}

/// Runs `work` in a host; `what` names it in errors.
pub(crate) fn run_in_host<R: Send + 'static>(
    host: &Host,
    what: &str,
    work: impl FnOnce() -> io::Result<R> + Send + 'static,
) -> Result<R, TestbedError> {
    let what = format!("{what} of host {}", host.name());
    let result = host.run(work).and_then(|result| result);
    result.map_err(TestbedError::kernel(what))
}

fn burst_bytes(rate_bps: u64, mtu: u32) -> u32 {
    let frames = BURST_FRAMES * (u64::from(mtu) + 14);
    u32::try_from((rate_bps / 8 / BURST_PER_S).max(frames)).unwrap_or(u32::MAX)
}

/// Whether the kernel link's `config` is netem's.
fn is_netem(config: &LinkConfig) -> bool {
    config.has_faults() || config.delay_ps > 0
}

/// Why a kernel link with `config` has no queue that can be read; None if it has one.
pub(crate) fn queue_refusal(config: &LinkConfig) -> Option<&'static str> {
    if is_netem(config) {
        return Some("is netem's, which counts what is on its way together with what waits");
    }
    config.rate_bps.is_none().then_some(NO_RATE)
}

/// Why a link without a rate has no queue.
pub(crate) const NO_RATE: &str = "is empty, because the link has no rate";

/// Adds the qdisc for what a host sends.
fn add_qdisc(
    netlink: &mut Netlink,
    index: u32,
    config: &LinkConfig,
    mtu: u32,
) -> Result<(), TestbedError> {
    if is_netem(config) {
        let full = u64::from(mtu) + ETHER_HEADER;
        let packets = u32::try_from(config.queue_bytes / full).unwrap_or(u32::MAX);
        let packets = packets.clamp(1, PACKETS_MAX);
        let added = netlink::add_netem(netlink, index, config, packets);
        return added.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TestbedError::Plan(
                "this kernel has no emulator for delays and faults (sch_netem); leave out 'kernel'"
                    .into(),
            ),
            _ => TestbedError::kernel("the kernel's emulator")(error),
        });
    }
    let Some(rate_bps) = config.rate_bps else {
        return Ok(());
    };
    let bucket = TokenBucket {
        rate_bps,
        burst_bytes: burst_bytes(rate_bps, mtu),
        queue_bytes: u32::try_from(config.queue_bytes).unwrap_or(u32::MAX),
    };
    netlink::add_token_bucket(netlink, index, bucket)
        .map_err(TestbedError::kernel("the token bucket"))
}

/// Whether there are more CPUs than the hosts reserve. If the link shares theirs, steering costs
/// more than it saves: an RTT took 40 to 80 us longer on two CPUs.
fn has_processors_for_link(plan: &TestbedPlan) -> bool {
    let taken: BTreeSet<u32> = plan
        .hosts
        .iter()
        .flat_map(|host| &host.cpus)
        .copied()
        .collect();
    std::thread::available_parallelism().is_ok_and(|all| all.get() > taken.len())
}

/// A CPU mask in the kernel's format: groups of 32 bits in hexadecimal, highest first, separated by
/// commas.
fn cpu_mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(0, |most| most / 32) as usize + 1;
    let mut words = vec![0u32; groups];
    for cpu in cpus {
        words[(cpu / 32) as usize] |= 1 << (cpu % 32);
    }
    let words: Vec<String> = words
        .iter()
        .rev()
        .map(|word| format!("{word:08x}"))
        .collect();
    words.join(",")
}

/// Keeps the kernel from sending packets of its own, which would shift the fate of later frames.
fn silence_ipv6(interface: &str, ipv6: bool) -> io::Result<()> {
    let folder = format!("/proc/sys/net/ipv6/conf/{interface}");
    if fs::metadata(&folder).is_err() {
        // The kernel has no IPv6.
        return Ok(());
    }
    let settings: &[(&str, &str)] = if ipv6 {
        &[
            ("router_solicitations", "0"),
            ("addr_gen_mode", "1"),
            ("accept_dad", "0"),
        ]
    } else {
        &[("disable_ipv6", "1")]
    };
    settings
        .iter()
        .try_for_each(|(name, value)| fs::write(format!("{folder}/{name}"), value))
}

pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let socket: OwnedFd = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(socket, name)?)
}

#[cfg(test)]
mod tests {
    use super::cpu_mask;

    #[test]
    fn cpu_mask_matches_kernel_format() {
        assert_eq!(cpu_mask(&[0, 1]), "00000003");
        assert_eq!(cpu_mask(&[33]), "00000002,00000000");
    }
}
