//! Background load of the processors.

use crate::kernel_files::KernelFiles;
use crate::snapshot::Snapshot;
use crate::task::TaskCpu;
use std::time::Duration;

/// Readings of background load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    /// Load averages over 1, 5 and 15 minutes.
    pub(crate) averages: Option<[f64; 3]>,
    /// Steal since boot, as a share of CPU time, 0 to 1.
    pub(crate) steal_since_start: Option<f64>,
    /// The same during the survey.
    pub(crate) steal_now: Option<f64>,
    /// Processors kept busy by other processes during the survey.
    pub(crate) background_cores: Option<f64>,
}

/// Sampling time: a tick is 10 ms, so the result is exact to about 0.1 processors.
const SAMPLE_TIME: Duration = Duration::from_millis(120);

impl Load {
    pub(crate) fn of(files: &KernelFiles) -> Load {
        let start = Snapshot::of(files);
        let mut load = Load {
            averages: averages(files),
            steal_since_start: steal(&start),
            ..Load::default()
        };
        if files.is_system() && start.cpus() > 0 {
            load.sample();
        }
        load
    }

    fn sample(&mut self) {
        let (before, own) = (Snapshot::take(), TaskCpu::of_self());
        std::thread::sleep(SAMPLE_TIME);
        let own = TaskCpu::of_self() - own;
        let seen = before.until(&Snapshot::take());
        self.steal_now = Some(seen.steal_fraction());
        self.background_cores = Some(seen.background_s(own.task_s) / seen.span.as_secs_f64());
    }
}

fn averages(files: &KernelFiles) -> Option<[f64; 3]> {
    let line = files.line("proc/loadavg")?;
    let mut words = line.split_whitespace().map(str::parse);
    let mut next = || words.next()?.ok();
    Some([next()?, next()?, next()?])
}

fn steal(snapshot: &Snapshot) -> Option<f64> {
    let (mut steal, mut all) = (0, 0);
    for cpu in snapshot.cpus.values() {
        steal += cpu.steal;
        all += cpu.user + cpu.system + cpu.irq + cpu.softirq + cpu.steal + cpu.idle;
    }
    (all > 0).then(|| steal as f64 / all as f64)
}
