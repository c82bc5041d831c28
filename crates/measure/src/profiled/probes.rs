//! Probes of a trial's workers: counters of tracepoints, counters of calls, samples.

use super::Profiler;
use crate::environment::{Environment, EnvironmentReport, HostPair};
use loadgen::worker_host::WorkerHost;
use profile::calls::{CallCounter, CallCounting, RoutineCalls};
use profile::tracepoint::TracepointCounters;
use profile::{ProfileError, Sampler};
use std::collections::BTreeMap;
use std::time::Duration;

/// Instrumentation of a trial's workers.
pub(super) trait TrialProbe {
    /// Called with the PIDs of connector and listener after they were spawned.
    fn attach(&mut self, processes: [u32; 2]) -> Result<(), ProfileError>;

    /// The measured span begins.
    fn begin(&mut self);

    /// The measured span has ended; the workers are still alive.
    fn end(&mut self);
}

/// An environment with a probe.
pub(super) struct ProbedEnvironment<'a, P> {
    pub(super) environment: &'a mut dyn Environment,
    pub(super) probe: P,
}

impl<P: TrialProbe> Environment for ProbedEnvironment<'_, P> {
    fn workers_spawned(&mut self, connector: u32, listener: u32) -> Result<(), String> {
        let attached = self.probe.attach([connector, listener]);
        attached.map_err(|error| error.to_string())
    }

    fn begin(&mut self, seed: u64) {
        self.environment.begin(seed);
        self.probe.begin();
    }

    fn end(&mut self) -> EnvironmentReport {
        self.probe.end();
        self.environment.end()
    }

    engine::forward! { self.environment;
        fn worker_hosts(&self) -> (&dyn WorkerHost, &dyn WorkerHost);
        fn host_pairs(&self) -> Vec<HostPair<'_>>;
        fn snapshot(&self) -> host::Snapshot;
        fn interfaces(&self) -> Vec<String>;
        fn path_delay_max(&self) -> Duration;
        fn record_queues(&mut self, every_ns: u64);
    }
}

/// Counts tracepoints.
pub(super) struct TracepointProbe<'a> {
    pub(super) tracepoints: &'a BTreeMap<&'static str, u64>,
    pub(super) counters: Vec<TracepointCounters>,
    pub(super) counts: Vec<BTreeMap<String, u64>>,
}

impl TrialProbe for TracepointProbe<'_> {
    fn attach(&mut self, processes: [u32; 2]) -> Result<(), ProfileError> {
        let watch = |process| TracepointCounters::attach(process, self.tracepoints);
        self.counters = processes.map(watch).into();
        Ok(())
    }

    fn begin(&mut self) {
        for counters in &self.counters {
            // A counter that does not start counts nothing and is left out.
            let _ = counters.start();
        }
    }

    fn end(&mut self) {
        self.counts = self.counters.iter().map(TracepointCounters::stop).collect();
    }
}

/// Counts calls of kernel routines.
pub(super) struct CallProbe<'a> {
    counting: &'a CallCounting,
    counters: Vec<CallCounter>,
    /// What was counted, or why it was not.
    counted: Result<Vec<RoutineCalls>, ProfileError>,
}

impl<'a> CallProbe<'a> {
    pub(super) fn new(counting: &'a CallCounting) -> CallProbe<'a> {
        CallProbe {
            counting,
            counters: Vec::new(),
            counted: Ok(Vec::new()),
        }
    }

    /// The calls of connector and listener.
    pub(super) fn take(&mut self) -> Result<Vec<RoutineCalls>, ProfileError> {
        std::mem::replace(&mut self.counted, Ok(Vec::new()))
    }
}

impl TrialProbe for CallProbe<'_> {
    fn attach(&mut self, processes: [u32; 2]) -> Result<(), ProfileError> {
        for process in processes {
            let counter = CallCounter::attach(self.counting, process)?;
            self.counters.push(counter);
        }
        Ok(())
    }

    fn begin(&mut self) {
        let started = self.counters.iter().try_for_each(CallCounter::start);
        self.counted = started.map(|()| Vec::new());
    }

    fn end(&mut self) {
        if self.counted.is_ok() {
            self.counted = self.counters.iter().map(CallCounter::stop).collect();
        }
        // Nothing of them remains in the kernel.
        self.counters.clear();
    }
}

/// Samples.
pub(super) struct SamplingProbe<'a> {
    pub(super) profiler: &'a mut Profiler,
    pub(super) sampler: Option<Sampler>,
    pub(super) processes: [u32; 2],
    pub(super) lost: u64,
}

impl TrialProbe for SamplingProbe<'_> {
    fn attach(&mut self, processes: [u32; 2]) -> Result<(), ProfileError> {
        self.processes = processes;
        self.sampler = Some(Sampler::attach(self.profiler.clock, &processes)?);
        Ok(())
    }

    fn begin(&mut self) {
        // Mappings are read now, because a worker may exit after its report.
        for process in self.processes {
            self.profiler.symbolizer.load_process(process);
        }
        if let Some(sampler) = &mut self.sampler {
            // Without samples the profile carries a caveat.
            let _ = sampler.start();
        }
    }

    fn end(&mut self) {
        if let Some(mut sampler) = self.sampler.take() {
            let recording = sampler.stop();
            self.lost = recording.lost;
            self.profiler.add_recording(&recording, self.processes);
        }
    }
}
