//! Creation of a testbed: hosts, and the links between them.

use crate::emulate::Emulator;
use crate::emulate::link_report::LinkReport;
use crate::error::TestbedError;
use crate::host::{Host, interface_name};
use crate::interface::{LinkInterface, NO_RATE, await_running, queue_refusal, run_in_host};
use crate::kernel_queues::KernelQueues;
use crate::mptcp;
use crate::netlink::{self, Netlink};
use crate::plan::{FrameMode, LinkPlan, TestbedPlan};
use crate::ports::Ports;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Hosts and their links. They exist as long as this value, and end with the process in any case:
/// only descriptors and threads hold them.
#[derive(Debug)]
pub struct Testbed {
    plan: TestbedPlan,
    // Dropped before the hosts, so that no frame is written to a missing host.
    links: Vec<RunningLink>,
    /// Record of the first link's queues, if it is the kernel's.
    kernel_queues: Mutex<Option<KernelQueues>>,
    hosts: Vec<Host>,
}

/// A link between the hosts.
#[derive(Debug)]
struct RunningLink {
    // Dropped first, so that no frame is written to a missing port.
    /// None for a kernel link.
    emulator: Option<Emulator>,
    /// The other ends of the hosts' veth pairs, without TAP devices.
    _switch: Option<Host>,
}

impl Testbed {
    /// As [`Testbed::up`], for tests: None, with a line that begins with SKIPPED, where this user may make no hosts.
    ///
    /// # Panics
    ///
    /// With any other error.
    pub fn up_or_skip(plan: &TestbedPlan) -> Option<Testbed> {
        match Testbed::up(plan) {
            Ok(testbed) => Some(testbed),
            Err(error @ (TestbedError::Privilege(_) | TestbedError::Tap(_))) => {
                eprintln!("SKIPPED: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates the hosts and the links of `plan`.
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
        let mut links = Vec::new();
        for link in 0..plan.links.len() {
            links.push(RunningLink::up(&hosts, &mut plan, link)?);
        }
        if plan.links.are_several() {
            for host in &hosts {
                mptcp::announce_addresses(host, &plan)?;
            }
        }
        let emulators = links.iter().filter_map(|link| link.emulator.as_ref());
        emulators.for_each(Emulator::measure_wakeup);
        Ok(Testbed {
            plan,
            links,
            kernel_queues: Mutex::new(None),
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

    /// Its plan.
    pub fn plan(&self) -> &TestbedPlan {
        &self.plan
    }

    /// The names of a host's interfaces, by the number of their link.
    pub fn interfaces(&self) -> Vec<String> {
        (0..self.links.len()).map(interface_name).collect()
    }

    /// Begins a measurement on all links, see [`Emulator::begin`]; no effect on a kernel link. The
    /// first link draws from `seed`, every further one from a seed of its own.
    pub fn begin(&self, seed: u64) {
        for (number, link) in self.links.iter().enumerate() {
            if let Some(emulator) = &link.emulator {
                emulator.begin(link_seed(seed, number));
            }
        }
    }

    /// Ends the measurement; reports each direction of each link, none for a kernel link.
    pub fn end(&self) -> Vec<Vec<LinkReport>> {
        self.reports(Emulator::end)
    }

    /// Records the queues of the first link, see [`Emulator::record_queues`]; those of a kernel link are the
    /// backlogs of its token buckets.
    ///
    /// # Errors
    ///
    /// Why there is nothing to record: what the queue "is".
    pub fn record_queues(&self, every_ns: u64) -> Result<(), String> {
        if let Some(why) = self.no_queue() {
            return Err(why.to_owned());
        }
        if let Some(emulator) = self.first_emulator() {
            emulator.record_queues(every_ns);
            return Ok(());
        }
        let begun = KernelQueues::begin(&self.hosts, every_ns);
        let begun = begun.map_err(|error| format!("cannot be read: {error}"))?;
        *self.kernel_queues() = Some(begun);
        Ok(())
    }

    /// The queues of the first link, see [`Emulator::take_queues`].
    pub fn take_queues(&self) -> [Vec<(u64, u64)>; 2] {
        if let Some(emulator) = self.first_emulator() {
            return emulator.take_queues();
        }
        let record = self.kernel_queues().take();
        record.map(KernelQueues::finish).unwrap_or_default()
    }

    fn kernel_queues(&self) -> MutexGuard<'_, Option<KernelQueues>> {
        let record = self.kernel_queues.lock();
        record.unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the first link has no queue; None if a direction has one.
    fn no_queue(&self) -> Option<&'static str> {
        match self.plan.links.first()? {
            LinkPlan::Ether(_) => None,
            LinkPlan::Kernel(path) => {
                let reasons = path.directions.each_ref().map(queue_refusal);
                reasons.iter().all(Option::is_some).then_some(reasons[0])?
            }
            LinkPlan::Emulated(path, _) => {
                let has_rate = path.all().any(|config| config.rate_bps.is_some());
                (!has_rate).then_some(NO_RATE)
            }
        }
    }

    fn first_emulator(&self) -> Option<&Emulator> {
        self.links.first()?.emulator.as_ref()
    }

    /// Reports each direction of each link since [`Testbed::begin`].
    pub fn report(&self) -> Vec<Vec<LinkReport>> {
        self.reports(Emulator::report)
    }

    fn reports(&self, of: fn(&Emulator) -> Vec<LinkReport>) -> Vec<Vec<LinkReport>> {
        let links = self.links.iter();
        links
            .map(|link| link.emulator.as_ref().map(of).unwrap_or_default())
            .collect()
    }
}

impl RunningLink {
    /// Creates link number `link` of `plan`, which is updated if packet sockets take the place of
    /// TAP devices.
    fn up(
        hosts: &[Host],
        plan: &mut TestbedPlan,
        link: usize,
    ) -> Result<RunningLink, TestbedError> {
        if let LinkPlan::Kernel(_) = plan.links[link] {
            connect_by_veth(hosts, plan, link)?;
            return Ok(RunningLink {
                emulator: None,
                _switch: None,
            });
        }
        let Ports { ports, switch } = open_ports(hosts, plan, link)?;
        let (seed, ends) = (link_seed(plan.seed, link), plan.ends);
        let planned = &plan.links[link];
        let emulator = match planned {
            LinkPlan::Kernel(_) => None,
            LinkPlan::Emulated(path, _) => {
                let super_frames = !planned.carries_single_frames();
                Some(Emulator::path(ports, ends, path, seed, super_frames)?)
            }
            LinkPlan::Ether(kind) => Some(Emulator::ether(ports, *kind, seed)?),
        };
        Ok(RunningLink {
            emulator,
            _switch: switch,
        })
    }
}

/// The seed of link number `link`: that of the testbed for the first. The factor is odd, so that no
/// two links have the same.
fn link_seed(seed: u64, link: usize) -> u64 {
    seed ^ (link as u64).wrapping_mul(0xd134_2543_de82_ef95)
}

/// Opens the ports of an emulated link. Without TAP devices packet sockets are used, single frames
/// only, and the plan is updated.
fn open_ports(hosts: &[Host], plan: &mut TestbedPlan, link: usize) -> Result<Ports, TestbedError> {
    let planned = plan.links[link].clone();
    if matches!(planned, LinkPlan::Emulated(_, FrameMode::Sockets)) {
        return Ports::sockets(hosts, plan, link);
    }
    let taps = Ports::taps(hosts, plan, link, !planned.carries_single_frames());
    match (taps, planned) {
        (
            Err(TestbedError::Tap(error)),
            LinkPlan::Emulated(path, FrameMode::Auto | FrameMode::Single),
        ) => {
            let by_sockets = LinkPlan::Emulated(path, FrameMode::Sockets);
            plan.links.replace(link, by_sockets);
            Ports::sockets(hosts, plan, link).map_err(|_| TestbedError::Tap(error))
        }
        (taps, _) => taps,
    }
}

/// A veth pair between two hosts, with a qdisc at each end if the path needs one.
fn connect_by_veth(hosts: &[Host], plan: &TestbedPlan, link: usize) -> Result<(), TestbedError> {
    let [first, second] = hosts else {
        return Err(TestbedError::Plan("a kernel link joins two hosts".into()));
    };
    let other = second.namespace().try_clone_to_owned();
    let other = other.map_err(TestbedError::kernel("a second descriptor of a namespace"))?;
    run_in_host(first, "the interface", move || {
        let name = interface_name(link);
        netlink::add_veth(&mut Netlink::open()?, &name, &name, other.as_fd())
    })?;
    for (host, direction) in hosts.iter().zip(plan.links[link].uncontended(plan.mtu)) {
        LinkInterface { host, plan, link }.configure(Some(direction))?;
    }
    hosts.iter().try_for_each(|host| {
        run_in_host(host, "the interface", move || {
            await_running(&mut Netlink::open()?, link)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::link_seed;

    #[test]
    fn first_link_keeps_the_seed_and_others_differ() {
        assert_eq!(link_seed(7, 0), 7);
        let all: std::collections::BTreeSet<u64> = (0..4).map(|link| link_seed(7, link)).collect();
        assert_eq!(all.len(), 4);
    }
}
