//! Creation of a testbed: hosts, and the link between them.

use crate::emulate::Emulator;
use crate::emulate::link_thread::LinkReport;
use crate::error::TestbedError;
use crate::host::{Host, INTERFACE, address, address6, mac_address};
use crate::netlink::{self, InterfaceConfig, Netlink, TokenBucket};
use crate::plan::{FrameMode, LinkPlan, TestbedPlan};
use crate::ports::Ports;
use crate::sys;
use link::LinkConfig;
use rustix::net::{AddressFamily, SocketType, netdevice};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Queue of a host's interface, packets. The link's queue is the model's; this one only bridges
/// moments in which the emulator is busy.
const DEVICE_QUEUE: u32 = 10_000;

/// Prefix lengths of the hosts' addresses.
const PREFIX: u8 = 16;
const PREFIX6: u8 = 64;

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

/// Hosts and their link. They exist as long as this value, and end with the process in any case:
/// only descriptors and threads hold them.
#[derive(Debug)]
pub struct Testbed {
    plan: TestbedPlan,
    // Dropped before the hosts, so that no frame is written to a missing host.
    emulator: Option<Emulator>,
    hosts: Vec<Host>,
    // The other ends of the hosts' veth pairs, without TAP devices.
    _switch: Option<Host>,
}

impl Testbed {
    /// Creates the hosts and the link of `plan`.
    ///
    /// # Errors
    ///
    /// A [`TestbedError`]; nothing is left behind.
    pub fn up(plan: &TestbedPlan) -> Result<Testbed, TestbedError> {
        plan.check()?;
        let mut hosts = Vec::new();
        for (number, host) in plan.hosts.iter().enumerate() {
            hosts.push(Host::create(host, number as u32)?);
        }
        let mut plan = plan.clone();
        let mut switch = None;
        let emulator = match plan.link.clone() {
            LinkPlan::Kernel(_) => {
                connect_by_veth(&hosts, &plan)?;
                None
            }
            LinkPlan::Emulated(path, _) => {
                let made = open_ports(&hosts, &mut plan)?;
                switch = made.switch;
                let super_frames = !plan.link.carries_single_frames();
                Some(Emulator::path(made.ports, &path, plan.seed, super_frames)?)
            }
            LinkPlan::Ether(kind) => {
                let made = open_ports(&hosts, &mut plan)?;
                switch = made.switch;
                Some(Emulator::ether(made.ports, kind, plan.seed)?)
            }
        };
        if let Some(emulator) = &emulator {
            emulator.measure_wakeup();
        }
        Ok(Testbed {
            plan,
            emulator,
            hosts,
            _switch: switch,
        })
    }

    /// The host called `name`.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name() == name)
    }

    /// All hosts, as in the plan.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Its plan.
    pub fn plan(&self) -> &TestbedPlan {
        &self.plan
    }

    /// Begins a measurement, see [`Emulator::begin`]; no effect on a kernel link.
    pub fn begin(&self, seed: u64) {
        if let Some(emulator) = &self.emulator {
            emulator.begin(seed);
        }
    }

    /// Ends the measurement; reports each direction, none for a kernel link.
    pub fn end(&self) -> Vec<LinkReport> {
        self.emulator
            .as_ref()
            .map(Emulator::end)
            .unwrap_or_default()
    }

    /// Reports each direction since [`Testbed::begin`].
    pub fn report(&self) -> Vec<LinkReport> {
        self.emulator
            .as_ref()
            .map(Emulator::report)
            .unwrap_or_default()
    }
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

/// Opens the ports of an emulated link. Without TAP devices packet sockets are used, single frames
/// only, and the plan is updated.
fn open_ports(hosts: &[Host], plan: &mut TestbedPlan) -> Result<Ports, TestbedError> {
    if matches!(plan.link, LinkPlan::Emulated(_, FrameMode::Sockets)) {
        return Ports::sockets(hosts, plan);
    }
    let taps = Ports::taps(hosts, plan, !plan.link.carries_single_frames());
    match (taps, plan.link.clone()) {
        (
            Err(TestbedError::Tap(error)),
            LinkPlan::Emulated(path, FrameMode::Auto | FrameMode::Single),
        ) => {
            plan.link = LinkPlan::Emulated(path, FrameMode::Sockets);
            Ports::sockets(hosts, plan).map_err(|_| TestbedError::Tap(error))
        }
        (taps, _) => taps,
    }
}

/// A veth pair between two hosts, with a qdisc at each end if the path needs one.
fn connect_by_veth(hosts: &[Host], plan: &TestbedPlan) -> Result<(), TestbedError> {
    let [first, second] = hosts else {
        return Err(TestbedError::Plan("a kernel link joins two hosts".into()));
    };
    let other = second.namespace().try_clone_to_owned();
    let other = other.map_err(TestbedError::kernel("a second descriptor of a namespace"))?;
    run_in_host(first, "the interface", move || {
        netlink::add_veth(&mut Netlink::open()?, INTERFACE, INTERFACE, other.as_fd())
    })?;
    for (host, direction) in hosts.iter().zip(plan.link.uncontended(plan.mtu)) {
        configure_host_interface(host, plan, Some(direction))?;
    }
    hosts.iter().try_for_each(|host| {
        run_in_host(host, "the interface", || {
            await_running(&mut Netlink::open()?)
        })
    })
}

/// Waits until the interface is running: shortly after its peer came up. Packets sent earlier are
/// lost.
pub(crate) fn await_running(netlink: &mut Netlink) -> io::Result<()> {
    let end = Instant::now() + RUNNING_TIMEOUT;
    while !netlink::is_running(netlink, INTERFACE)? {
        if Instant::now() > end {
            return Err(io::Error::other("it does not begin to run"));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

fn burst_bytes(rate_bps: u64, mtu: u32) -> u32 {
    let frames = BURST_FRAMES * (u64::from(mtu) + 14);
    u32::try_from((rate_bps / 8 / BURST_PER_S).max(frames)).unwrap_or(u32::MAX)
}

/// Adds the qdisc for what a host sends.
fn add_qdisc(
    netlink: &mut Netlink,
    index: u32,
    config: &LinkConfig,
    mtu: u32,
) -> Result<(), TestbedError> {
    let emulates = config.has_faults() || config.delay_ps > 0;
    if emulates {
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

/// Brings a host's interfaces up, with addresses and permanent neighbour entries.
pub(crate) fn configure_host_interface(
    host: &Host,
    plan: &TestbedPlan,
    kernel: Option<LinkConfig>,
) -> Result<(), TestbedError> {
    let number = plan
        .hosts
        .iter()
        .position(|planned| planned.name == host.name())
        .unwrap_or_default() as u32;
    let settings = InterfaceConfig {
        mtu: Some(plan.mtu),
        mac_address: Some(mac_address(number)),
        queue_len: Some(DEVICE_QUEUE),
    };
    let (others, ipv6) = (0..plan.hosts.len() as u32, plan.ipv6);
    let cpus = host.cpus().to_vec();
    let steered = !cpus.is_empty() && has_processors_for_link(plan);
    let settled = run_in_host(host, "the interface", move || {
        silence_ipv6(ipv6)?;
        let mut netlink = Netlink::open()?;
        netlink::configure_interface(&mut netlink, "lo", InterfaceConfig::default())?;
        netlink::configure_interface(&mut netlink, INTERFACE, settings)?;
        let index = interface_index()?;
        let addresses = |number: u32| -> Vec<(IpAddr, u8)> {
            let both = [(address(number), PREFIX), (address6(number), PREFIX6)];
            both.into_iter().take(1 + usize::from(ipv6)).collect()
        };
        for (address, prefix) in addresses(number) {
            netlink::add_address(&mut netlink, index, address, prefix)?;
        }
        for other in others.filter(|&other| other != number) {
            for (address, _) in addresses(other) {
                netlink::add_neighbour(&mut netlink, index, address, mac_address(other))?;
            }
        }
        if steered {
            // Without RPS packets are received on the CPU where they arrive.
            let _ = sys::set_rps_cpus(INTERFACE, &cpu_mask(&cpus));
        }
        Ok((netlink, index))
    })?;
    let Some(config) = kernel else {
        return Ok(());
    };
    let (mtu, index) = (plan.mtu, settled.1);
    let mut netlink = settled.0;
    let ruled = host.run(move || add_qdisc(&mut netlink, index, &config, mtu));
    ruled.map_err(TestbedError::kernel("the interface"))?
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
fn silence_ipv6(ipv6: bool) -> io::Result<()> {
    let folder = format!("/proc/sys/net/ipv6/conf/{INTERFACE}");
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

fn interface_index() -> io::Result<u32> {
    let socket: OwnedFd = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(socket, INTERFACE)?)
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
