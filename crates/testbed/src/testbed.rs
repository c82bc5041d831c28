//! A testbed: hosts, and the link between them.

use crate::emulate::Emulator;
use crate::emulate::lane::{LaneReport, Port};
use crate::error::TestbedError;
use crate::host::{Host, INTERFACE, address, address6, hardware};
use crate::netlink::{self, Netlink, Settings, TokenBucket};
use crate::plan::{LinkPlan, Plan};
use crate::sys::{self, Offloads};
use rustix::net::{AddressFamily, SocketType, netdevice};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Packets that may wait in a host's interface for the emulator. The link's own queue is the
/// model's; this one only has to bridge the moments in which the emulator does something else.
const DEVICE_QUEUE: u32 = 10_000;

/// Bits of the network part of a host's address.
const PREFIX: u8 = 16;
const PREFIX6: u8 = 64;

/// A token bucket lets this much go at once, in parts of a second of its rate: 1/5000 = 200 us.
const BURST_PER_S: u64 = 5000;

/// Full frames it lets go at once at least.
const BURST_FRAMES: u64 = 2;

/// How long an interface may take to begin to run; the kernel looks once a second at the latest.
const RUNNING_LIMIT: Duration = Duration::from_secs(5);

/// Hosts and the link between them. They are gone when this value is, and also when the process
/// ends in any way: nothing but descriptors and threads holds them.
#[derive(Debug)]
pub struct Testbed {
    plan: Plan,
    // Before the hosts, so that no frame is written to one that is gone.
    emulator: Option<Emulator>,
    hosts: Vec<Host>,
}

impl Testbed {
    /// Makes the hosts and the link of `plan`.
    ///
    /// # Errors
    ///
    /// A [`TestbedError`]; nothing is left behind.
    pub fn up(plan: &Plan) -> Result<Testbed, TestbedError> {
        plan.check()?;
        let mut hosts = Vec::new();
        for (number, host) in plan.hosts.iter().enumerate() {
            hosts.push(Host::create(host, number as u32)?);
        }
        let emulator = match &plan.link {
            LinkPlan::Kernel(_) => {
                join(&hosts, plan)?;
                None
            }
            LinkPlan::Emulated(path, _) => {
                let super_frames = !plan.link.is_frame_true();
                let ports = open_ports(&hosts, plan, super_frames)?;
                Some(Emulator::path(ports, path, plan.seed, super_frames)?)
            }
            LinkPlan::Ether(kind) => {
                let ports = open_ports(&hosts, plan, false)?;
                Some(Emulator::ether(ports, *kind, plan.seed)?)
            }
        };
        Ok(Testbed {
            plan: plan.clone(),
            emulator,
            hosts,
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

    /// What it was asked to be.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Begins a measurement, see [`Emulator::begin`]; nothing on a kernel link.
    pub fn begin(&self, seed: u64) {
        if let Some(emulator) = &self.emulator {
            emulator.begin(seed);
        }
    }

    /// Ends it; what each direction did, nothing on a kernel link.
    pub fn end(&self) -> Vec<LaneReport> {
        self.emulator
            .as_ref()
            .map(Emulator::end)
            .unwrap_or_default()
    }

    /// What each direction did so far since [`Testbed::begin`].
    pub fn report(&self) -> Vec<LaneReport> {
        self.emulator
            .as_ref()
            .map(Emulator::report)
            .unwrap_or_default()
    }
}

/// Does `work` in a host; `what` is said when it fails.
fn within<R: Send + 'static>(
    host: &Host,
    what: &str,
    work: impl FnOnce() -> io::Result<R> + Send + 'static,
) -> Result<R, TestbedError> {
    let what = format!("{what} of host {}", host.name());
    let result = host.run(work).and_then(|result| result);
    result.map_err(TestbedError::kernel(what))
}

/// A TAP device in each host.
fn open_ports(hosts: &[Host], plan: &Plan, super_frames: bool) -> Result<Vec<Port>, TestbedError> {
    let offloads = if super_frames {
        Offloads::Full
    } else {
        Offloads::None
    };
    let mut ports = Vec::new();
    for host in hosts {
        let opened = host.run(move || sys::open_tap(INTERFACE, offloads));
        let device = opened
            .and_then(|opened| opened)
            .map_err(TestbedError::Tap)?;
        ports.push(Port::new(device));
        settle(host, plan, None)?;
    }
    Ok(ports)
}

/// A pair of virtual interfaces between two hosts, with a token bucket in front of each where the
/// path has a rate.
fn join(hosts: &[Host], plan: &Plan) -> Result<(), TestbedError> {
    let [first, second] = hosts else {
        return Err(TestbedError::Plan("a kernel link joins two hosts".into()));
    };
    let other = second.namespace().try_clone_to_owned();
    let other = other.map_err(TestbedError::kernel("a second descriptor of a namespace"))?;
    within(first, "the interface", move || {
        netlink::add_veth(&mut Netlink::open()?, INTERFACE, other.as_fd())
    })?;
    for (host, direction) in hosts.iter().zip(plan.link.alone(plan.mtu)) {
        let bucket = direction.rate_bps.map(|rate_bps| TokenBucket {
            rate_bps,
            burst_bytes: burst_bytes(rate_bps, plan.mtu),
            queue_bytes: u32::try_from(direction.queue_bytes).unwrap_or(u32::MAX),
        });
        settle(host, plan, bucket)?;
    }
    hosts.iter().try_for_each(|host| {
        within(host, "the interface", || {
            await_running(&mut Netlink::open()?)
        })
    })
}

/// The kernel switches an interface on a moment after its other end; what is sent before is lost.
fn await_running(netlink: &mut Netlink) -> io::Result<()> {
    let end = Instant::now() + RUNNING_LIMIT;
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

/// Switches a host's interfaces on, gives them addresses, and tells it where the others are.
fn settle(host: &Host, plan: &Plan, bucket: Option<TokenBucket>) -> Result<(), TestbedError> {
    let number = plan
        .hosts
        .iter()
        .position(|planned| planned.name == host.name())
        .unwrap_or_default() as u32;
    let settings = Settings {
        mtu: Some(plan.mtu),
        hardware: Some(hardware(number)),
        queue_len: Some(DEVICE_QUEUE),
    };
    let (others, ipv6) = (0..plan.hosts.len() as u32, plan.ipv6);
    let cpus = host.cpus().to_vec();
    within(host, "the interface", move || {
        quieten(ipv6)?;
        let mut netlink = Netlink::open()?;
        netlink::set(&mut netlink, "lo", Settings::default())?;
        netlink::set(&mut netlink, INTERFACE, settings)?;
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
                netlink::add_neighbour(&mut netlink, index, address, hardware(other))?;
            }
        }
        if !cpus.is_empty() {
            // Where it cannot be had, packets are received where they come.
            let _ = sys::steer_receiving(INTERFACE, &mask(&cpus));
        }
        match bucket {
            Some(bucket) => netlink::add_token_bucket(&mut netlink, index, bucket),
            None => Ok(()),
        }
    })
}

/// Processors as the kernel writes sets of them: groups of 32 bits in hexadecimal digits, the
/// highest first, with commas between.
fn mask(cpus: &[u32]) -> String {
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

/// Keeps the kernel from sending what nobody asked for: a frame of its own would shift the fate
/// of all later ones.
fn quieten(ipv6: bool) -> io::Result<()> {
    let folder = format!("/proc/sys/net/ipv6/conf/{INTERFACE}");
    if fs::metadata(&folder).is_err() {
        // A kernel without IPv6 sends nothing of it.
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
    use super::mask;

    #[test]
    fn sets_of_processors_are_written_as_the_kernel_reads_them() {
        assert_eq!(mask(&[0, 1]), "00000003");
        assert_eq!(mask(&[33]), "00000002,00000000");
    }
}
