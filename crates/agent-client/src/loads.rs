//! Loads of the hosts of a race, each in a worker of its own: on this host and on an agent's alike.

use control::{FromWorker, LoadJob, LoadReport, ToWorker};
use loadgen::{WorkerHandle, WorkerHost};
use std::time::{Duration, Instant};

/// How a load says what it does, in results.
pub const LOAD_FORM: &str = "processor work and copies of memory, in threads of a worker";

/// How long a load may take to start, and to end: a round of each copy, over an outage of the connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Loads on the sending and the receiving host, one pair a setting.
#[derive(Clone, Debug, Default)]
pub struct LoadPlan {
    /// Copies at the sender and at the receiver.
    pub settings: Vec<(u32, u32)>,
    /// The listening end sends.
    pub reversed: bool,
    /// When a load ends by itself: more than a trial takes.
    pub time: Duration,
}

/// A load that runs; dropping it ends it.
pub(crate) struct RunningLoad {
    worker: Option<WorkerHandle>,
    started: Instant,
}

impl RunningLoad {
    /// Starts `copies` on a host and waits until they run.
    pub(crate) fn start(
        host: &dyn WorkerHost,
        copies: u32,
        time: Duration,
    ) -> Result<RunningLoad, String> {
        let failed = |why: String| format!("the load of {} does not start: {why}", host.name());
        let worker = host.spawn().map_err(|error| failed(error.to_string()))?;
        let mut load = RunningLoad {
            worker: Some(worker),
            started: Instant::now(),
        };
        let job = LoadJob {
            copies,
            time_ns: time.as_nanos() as u64,
        };
        match load.ask(&ToWorker::Load(job)) {
            Ok(FromWorker::Running) => Ok(load),
            Ok(FromWorker::Failed(why)) | Err(why) => Err(failed(why)),
            Ok(_) => Err(failed("it answers something else".into())),
        }
    }

    /// Whether it loads this host.
    pub(crate) fn is_here(&self) -> bool {
        self.worker
            .as_ref()
            .is_some_and(|worker| !worker.is_remote())
    }

    /// Ends it; gives what it did, and for how long, s.
    pub(crate) fn stop(mut self) -> Result<(LoadReport, f64), String> {
        let seconds = self.started.elapsed().as_secs_f64();
        match self.ask(&ToWorker::Stop)? {
            FromWorker::Loaded(did) => Ok((did, seconds)),
            FromWorker::Failed(why) => Err(why),
            _ => Err("the load answers something else".into()),
        }
    }

    fn ask(&mut self, message: &ToWorker) -> Result<FromWorker, String> {
        let worker = self.worker.as_mut().ok_or("the load has ended")?;
        let channel = &mut worker.channel;
        channel
            .send(message, &[])
            .map_err(|error| error.to_string())?;
        let answer = channel.receive::<FromWorker>(ANSWER_TIMEOUT);
        Ok(answer.map_err(|error| error.to_string())?.0)
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.end();
        }
    }
}
