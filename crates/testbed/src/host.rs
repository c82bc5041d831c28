//! Hosts: network namespaces, each with a thread in it.

use crate::error::TestbedError;
use crate::plan::HostPlan;
use crate::quota::Quota;
use crate::sys;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fmt;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Name of each host's interface on the first link.
pub const INTERFACE: &str = "eth0";

/// Name of each host's interface on link number `link`, from 0.
pub fn interface_name(link: usize) -> String {
    format!("eth{link}")
}

/// A host: a network namespace that exists as long as this value and its processes.
///
/// A thread that never leaves the namespace does its work. Processes it starts inherit the
/// namespace and the host's CPUs.
pub struct Host {
    name: String,
    number: u32,
    namespace: OwnedFd,
    cpus: Vec<u32>,
    quota: Option<Quota>,
    work: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

type Work = Box<dyn FnOnce() + Send>;

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Host {
    /// Creates a host whose only interface is the loopback, down. `number` determines its
    /// addresses.
    pub(crate) fn create(plan: &HostPlan, number: u32) -> Result<Host, TestbedError> {
        let HostPlan { name, cpus, quota } = plan.clone();
        let quota = quota.map(Quota::create).transpose();
        let quota = quota.map_err(TestbedError::Quota)?;
        let (work, jobs) = channel::<Work>();
        let (made, ready) = channel();
        let on = cpus.clone();
        let thread = std::thread::Builder::new()
            .name(format!("host-{name}"))
            .spawn(move || host_thread(&made, &jobs, &on))
            .map_err(TestbedError::kernel("a thread for a host"))?;
        let gone = || io::Error::other("its thread ended");
        let namespace = ready.recv().unwrap_or_else(|_| Err(gone()));
        let namespace = namespace.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => TestbedError::Privilege(error),
            _ => TestbedError::Kernel {
                what: format!("a network namespace for host {name}"),
                error,
            },
        })?;
        Ok(Host {
            name,
            number,
            namespace,
            cpus,
            quota,
            work: Some(work),
            thread: Some(thread),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its IPv4 address on the first link.
    pub fn address(&self) -> IpAddr {
        self.address_on(0)
    }

    /// Its IPv6 address on the first link, if the plan has IPv6.
    pub fn address6(&self) -> IpAddr {
        self.address6_on(0)
    }

    /// Its IPv4 address on link number `link`, from 0.
    pub fn address_on(&self, link: usize) -> IpAddr {
        address(link, self.number)
    }

    /// Its IPv6 address on link number `link`, if the plan has IPv6.
    pub fn address6_on(&self, link: usize) -> IpAddr {
        address6(link, self.number)
    }

    /// The MAC address of its interface on the first link.
    pub fn mac_address(&self) -> [u8; 6] {
        mac_address(0, self.number)
    }

    /// CPUs of its processes; empty for all.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Its network namespace, for setns(2).
    pub fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// Runs `work` in the host's thread and waits. Sockets opened there belong to the host wherever
    /// they are used. `/proc/thread-self/net` is the host's.
    ///
    /// # Errors
    ///
    /// When the thread has ended by a panic.
    pub fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<R> {
        let gone = || io::Error::other("the host's thread has ended");
        let (done, result) = channel();
        let job: Work = Box::new(move || {
            // Fails only if the caller is gone.
            let _ = done.send(work());
        });
        let sender = self.work.as_ref().ok_or_else(gone)?;
        sender.send(job).map_err(|_| gone())?;
        result.recv().map_err(|_| gone())
    }

    /// Starts a process in the host. PR_SET_PDEATHSIG signals it when the host is torn down.
    ///
    /// # Errors
    ///
    /// A system error.
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        let mut child = self.run(move || command.spawn())??;
        if let Some(quota) = &self.quota {
            quota.add_process(child.id()).inspect_err(|_| {
                // It may have ended already; reap it.
                let _ = child.kill();
                let _ = child.wait();
            })?;
        }
        Ok(child)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // Callers of `run` have seen a panic.
            let _ = thread.join();
        }
    }
}

/// The host's thread: enters a new namespace and runs jobs.
fn host_thread(made: &Sender<io::Result<OwnedFd>>, jobs: &Receiver<Work>, cpus: &[u32]) {
    let namespace = sys::unshare_network()
        .and_then(|()| File::open("/proc/thread-self/ns/net"))
        .map(OwnedFd::from);
    let failed = namespace.is_err();
    if made.send(namespace).is_err() || failed {
        return;
    }
    pin_thread(cpus);
    while let Ok(job) = jobs.recv() {
        job();
    }
}

/// Pins the thread to the host's CPUs, if permitted.
fn pin_thread(cpus: &[u32]) {
    if cpus.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| (cpu as usize) < CpuSet::MAX_CPU) {
        set.set(cpu as usize);
    }
    let _ = sched_setaffinity(None, &set);
}

/// 10.77.0.N+1 on the first link, 10.78.0.N+1 on the second, and so on: a subnet of 16 bits each.
pub(crate) fn address(link: usize, number: u32) -> IpAddr {
    IpAddr::from([10, 77 + link as u8, (number >> 8) as u8, (number + 1) as u8])
}

/// fd77::N+1 on the first link, fd77:0:0:1::N+1 on the second, and so on: a subnet of 64 bits each.
pub(crate) fn address6(link: usize, number: u32) -> IpAddr {
    IpAddr::from([0xfd77, 0, 0, link as u16, 0, 0, 0, (number + 1) as u16])
}

/// A locally administered MAC address that ends in the numbers of the link and of the host.
pub(crate) fn mac_address(link: usize, number: u32) -> [u8; 6] {
    [
        0x02,
        0x74,
        0x70,
        link as u8,
        (number >> 8) as u8,
        number as u8,
    ]
}

/// The number of the host in a MAC address made by [`mac_address`], of any link.
pub(crate) fn host_number(octets: &[u8]) -> Option<usize> {
    let [0x02, 0x74, 0x70, _, high, low] = *octets.get(..6)? else {
        return None;
    };
    Some(usize::from(high) << 8 | usize::from(low))
}
