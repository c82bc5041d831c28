//! Hosts: network namespaces, each with a thread that lives in it.

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

/// Name of every host's interface to the link.
pub const INTERFACE: &str = "eth0";

/// A host: a network namespace that exists as long as this value and the processes in it.
///
/// Work is done by a thread of its own that never leaves the namespace. Processes it starts are
/// in the namespace too, and on the host's processors.
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
    /// A host with nothing but its loopback, which is down. `number` is its place in addresses.
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

    /// Its address on the link, IPv4.
    pub fn address(&self) -> IpAddr {
        address(self.number)
    }

    /// Its address on the link, IPv6; there when the plan asked for it.
    pub fn address6(&self) -> IpAddr {
        address6(self.number)
    }

    /// The hardware address of its interface.
    pub fn mac_address(&self) -> [u8; 6] {
        mac_address(self.number)
    }

    /// Processors its processes run on; empty for all.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Its network namespace, for setns(2).
    pub fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// Does `work` in the host's thread and waits for it. Sockets opened there belong to the host
    /// wherever they are used. `/proc/thread-self/net` is the host's.
    ///
    /// # Errors
    ///
    /// When an earlier piece of work ended the thread by a panic.
    pub fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<R> {
        let gone = || io::Error::other("the host's thread has ended");
        let (done, result) = channel();
        let job: Work = Box::new(move || {
            // Who asked may have stopped waiting; then nobody misses the answer.
            let _ = done.send(work());
        });
        let sender = self.work.as_ref().ok_or_else(gone)?;
        sender.send(job).map_err(|_| gone())?;
        result.recv().map_err(|_| gone())
    }

    /// Starts a process in the host. One that asks for a signal at its parent's death gets it when
    /// the host is torn down.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        let mut child = self.run(move || command.spawn())??;
        if let Some(quota) = &self.quota {
            quota.add_process(child.id()).inspect_err(|_| {
                // It may be gone by now; then it is only reaped.
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
            // A panic in it was told to who caused it.
            let _ = thread.join();
        }
    }
}

/// The life of a host's thread.
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

/// Goes to the host's processors; where that is refused it stays where it is, as the testbed says.
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

/// 10.77.0.N+1.
pub(crate) fn address(number: u32) -> IpAddr {
    IpAddr::from([10, 77, (number >> 8) as u8, (number + 1) as u8])
}

/// fd77::N+1.
pub(crate) fn address6(number: u32) -> IpAddr {
    IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, (number + 1) as u16])
}

/// A locally administered address (second bit of the first octet) that ends in the number.
pub(crate) fn mac_address(number: u32) -> [u8; 6] {
    [0x02, 0x74, 0x70, 0x00, (number >> 8) as u8, number as u8]
}

/// The number in a hardware address made by [`hardware`].
pub(crate) fn host_number(octets: &[u8]) -> Option<usize> {
    let [0x02, 0x74, 0x70, 0x00, high, low] = *octets.get(..6)? else {
        return None;
    };
    Some(usize::from(high) << 8 | usize::from(low))
}
