//! Samples processes while they run.

use crate::error::ProfileError;
use crate::perf_record::{PerfRecords, Sample};
use crate::sys::{Event, EventKind, Ring};
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Samples a second of a running process: enough for rows of one per cent in two seconds, at a cost
/// below one per cent.
const PER_S: u64 = 2999;

/// How often the rings are drained: they last four times as long.
const DRAIN: Duration = Duration::from_millis(5);

/// Most octets of records: 30,000 samples with their stacks.
const RECORDS_MAX: usize = 256 << 20;

/// The event that triggers samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleClock {
    /// The processor's cycle counter.
    Cycles,
    /// The kernel's clock, while a thread runs.
    CpuClock,
}

impl SampleClock {
    /// Its name among the kernel's events.
    pub fn name(self) -> &'static str {
        match self {
            SampleClock::Cycles => "cycles",
            SampleClock::CpuClock => "cpu-clock",
        }
    }

    fn kind(self) -> EventKind {
        match self {
            SampleClock::Cycles => EventKind::Cycles(PER_S),
            SampleClock::CpuClock => EventKind::Clock(1_000_000_000 / PER_S),
        }
    }
}

/// The sampling event that this machine and user have.
///
/// # Errors
///
/// [`ProfileError::Privilege`] when the kernel may not be sampled, [`ProfileError::Absent`] when it
/// cannot.
pub fn available() -> Result<SampleClock, ProfileError> {
    let own = std::process::id();
    if Event::open(SampleClock::Cycles.kind(), own, None).is_ok() {
        return Ok(SampleClock::Cycles);
    }
    let opened = Event::open(SampleClock::CpuClock.kind(), own, None);
    opened
        .map(|_| SampleClock::CpuClock)
        .map_err(ProfileError::event)
}

/// Samples processes, each with the threads it starts after [`Sampler::attach`].
#[derive(Debug)]
pub struct Sampler {
    clock: SampleClock,
    events: Vec<Event>,
    rings: Vec<Ring>,
    reader: Option<Reader>,
}

#[derive(Debug)]
struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u8>>,
}

/// The samples of a recording.
#[derive(Debug, Default)]
pub struct Recording {
    /// The samples of all processes.
    pub samples: Vec<Sample>,
    /// Samples lost because the ring was full.
    pub lost: u64,
}

impl Sampler {
    /// Opens events for `processes`; sampling begins with [`Sampler::start`].
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn attach(clock: SampleClock, processes: &[u32]) -> Result<Sampler, ProfileError> {
        let mut events = Vec::new();
        let mut rings = Vec::new();
        for &process in processes {
            for cpu in online() {
                let event = Event::open(clock.kind(), process, Some(cpu));
                let event = event.map_err(ProfileError::event)?;
                let ring = Ring::of(&event).map_err(|error| match error.kind() {
                    io::ErrorKind::PermissionDenied => ProfileError::Privilege(error),
                    _ => ProfileError::System {
                        what: "memory for samples",
                        error,
                    },
                })?;
                rings.push(ring);
                events.push(event);
            }
        }
        Ok(Sampler {
            clock,
            events,
            rings,
            reader: None,
        })
    }

    /// The event that triggers its samples.
    pub fn clock(&self) -> SampleClock {
        self.clock
    }

    /// Starts sampling; may be called once.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn start(&mut self) -> Result<(), ProfileError> {
        let mut rings = std::mem::take(&mut self.rings);
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("profile".into())
            .spawn(move || read(&mut rings, &flag))
            .map_err(|error| ProfileError::System {
                what: "a thread for samples",
                error,
            })?;
        self.reader = Some(Reader { stop, thread });
        let enabled = self.events.iter().try_for_each(Event::enable);
        enabled.map_err(ProfileError::event)
    }

    /// Stops; returns the samples since [`Sampler::start`].
    pub fn stop(&mut self) -> Recording {
        for event in &self.events {
            // The event of an exited process has stopped.
            let _ = event.disable();
        }
        let Some(reader) = self.reader.take() else {
            return Recording::default();
        };
        reader.stop.store(true, Ordering::Release);
        let octets = reader.thread.join().unwrap_or_default();
        let PerfRecords { samples, lost } = PerfRecords::parse(&octets);
        Recording { samples, lost }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Drains the rings until `stop`, and once more. Records beyond the limit stay in the rings, where
/// the kernel counts them as lost.
fn read(rings: &mut [Ring], stop: &AtomicBool) -> Vec<u8> {
    let mut octets = Vec::new();
    loop {
        let last = stop.load(Ordering::Acquire);
        if octets.len() < RECORDS_MAX {
            rings.iter_mut().for_each(|ring| ring.drain(&mut octets));
        }
        if last {
            return octets;
        }
        std::thread::sleep(DRAIN);
    }
}

/// The processors in use, from a list such as `0-3,5`; the first where it cannot be read.
fn online() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = cpu_list(text.trim());
    if cpus.is_empty() { vec![0] } else { cpus }
}

fn cpu_list(text: &str) -> Vec<u32> {
    /// More than any kernel has.
    const CPUS_MAX: u32 = 8192;
    let ranges = text.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(first..=last.min(CPUS_MAX))
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_list_is_parsed() {
        assert_eq!(cpu_list("0-3,5"), [0, 1, 2, 3, 5]);
        assert_eq!(cpu_list("0"), [0]);
        assert_eq!(cpu_list(""), []);
        assert!(!online().is_empty());
    }
}
