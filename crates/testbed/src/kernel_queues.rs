//! What waits in the qdiscs of a kernel link, over time.

use crate::emulate::link_thread::{clock_ns, now_ps};
use crate::emulate::queue_record::QueueRecord;
use crate::host::{Host, interface_name};
use crate::interface::interface_index;
use crate::netlink::{self, Netlink};
use rustix::time::ClockId;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Shortest time between two questions: each takes the kernel's lock of all network configuration.
const INTERVAL_MIN_NS: u64 = 100_000;

/// (CLOCK_MONOTONIC in ns, octets) of the first host's qdisc and of the second's.
type Queues = [Vec<(u64, u64)>; 2];

/// A thread that asks for the backlogs.
#[derive(Debug)]
pub(crate) struct KernelQueues {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Queues>>,
}

/// A host's qdisc.
struct Qdisc {
    netlink: Netlink,
    index: u32,
    record: QueueRecord,
}

impl KernelQueues {
    /// Asks for the backlogs of the first two hosts on the first link, every `every_ns`, from now on.
    pub(crate) fn begin(hosts: &[Host], every_ns: u64) -> io::Result<KernelQueues> {
        let every_ns = every_ns.max(INTERVAL_MIN_NS);
        let qdisc = |host: &Host| {
            // The socket asks in the namespace where it was opened, whichever thread uses it.
            let (netlink, index) = host.run(|| {
                io::Result::Ok((Netlink::open()?, interface_index(&interface_name(0))?))
            })??;
            Ok(Qdisc {
                netlink,
                index,
                record: QueueRecord::new(every_ns, now_ps()),
            })
        };
        let qdiscs: Vec<Qdisc> = hosts.iter().take(2).map(qdisc).collect::<io::Result<_>>()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let thread = std::thread::Builder::new()
            .name("link-queues".to_owned())
            .spawn(move || record(qdiscs, every_ns, &stop))?;
        Ok(KernelQueues {
            is_over,
            thread: Some(thread),
        })
    }

    /// Ends the record.
    pub(crate) fn finish(mut self) -> Queues {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<Queues> {
        self.is_over.store(true, Ordering::Release);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        // A panic was already printed.
        thread.join().ok()
    }
}

impl Drop for KernelQueues {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Records until it is over, or until the kernel does not answer.
fn record(mut qdiscs: Vec<Qdisc>, every_ns: u64, is_over: &AtomicBool) -> Queues {
    while !is_over.load(Ordering::Acquire) {
        let asked: io::Result<Vec<()>> = qdiscs.iter_mut().map(Qdisc::ask).collect();
        if asked.is_err() {
            break;
        }
        std::thread::park_timeout(Duration::from_nanos(every_ns));
    }
    let (now_ps, now_ns) = (now_ps(), clock_ns(ClockId::Monotonic));
    let mut all = qdiscs
        .into_iter()
        .map(|it| it.record.finish(now_ps, now_ns));
    [0; 2].map(|_| all.next().unwrap_or_default())
}

impl Qdisc {
    fn ask(&mut self) -> io::Result<()> {
        let now_ps = now_ps();
        if self.record.is_due(now_ps) {
            let octets = netlink::backlog_octets(&mut self.netlink, self.index)?;
            self.record.push(now_ps, octets);
        }
        Ok(())
    }
}
