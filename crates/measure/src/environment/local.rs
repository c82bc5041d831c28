//! The environment on this machine: the host itself or hosts of a testbed, with loads.

use super::links::{link_rate, report_links};
use super::loads::{HostLoads, LinkLoads};
use super::{Environment, EnvironmentReport, HostPair};
use crate::TestbedHost;
use loadgen::worker_host::{LocalHost, WorkerHost};
use results::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testbed::load::{HostLoad, LinkLoad, LoadProgress, LoadTask};
use testbed::{HostPlan, LinkEnds, Links, Testbed, TestbedError, TestbedPlan};

/// Links and loads of an environment. Each combination is a setting.
#[derive(Clone, Debug)]
pub struct EnvironmentPlan {
    /// Links as text and parsed, each setting one or several side by side; empty for this host's
    /// loopback.
    pub links: Vec<(String, Links)>,
    /// Loads of the hosts; empty for none.
    pub host_loads: HostLoads,
    /// What one copy of the host load does.
    pub parts: Vec<LoadTask>,
    /// Loads of the link, pairs of hosts; empty for none.
    pub link_loads: LinkLoads,
    /// MTU of the links, octets.
    pub mtu: u32,
    /// Whether hosts have IPv6 addresses.
    pub ipv6: bool,
    /// Whether the listening side is the sender.
    pub reversed: bool,
    /// Processors of the sender and of the receiver.
    pub pin: (Option<u32>, Option<u32>),
    /// CPU quota of the sender's and the receiver's host, per cent of a CPU.
    pub quota: (Option<u32>, Option<u32>),
    /// This program, which also runs as worker and as host load.
    pub program: PathBuf,
    /// Arguments of a worker.
    pub worker: Vec<String>,
    /// Arguments of a copy of the host load; its CPU and its parts are appended.
    pub load: Vec<String>,
    /// Receiving hosts at the links' far end: one, or as many as one sender has receivers.
    pub receivers: u32,
    /// Seed of the links' random choices outside trials.
    pub seed: u64,
}

/// One combination of link and loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Setting {
    link: usize,
    sender_load: u32,
    receiver_load: u32,
    pairs: u32,
}

/// Hosts, links and loads.
pub struct LocalEnvironment {
    plan: EnvironmentPlan,
    // Dropped first: loads end before the hosts they run in.
    host_loads: Vec<HostLoad>,
    link_load: Option<LinkLoad>,
    testbeds: Vec<Arc<Testbed>>,
    local_host: LocalHost,
    /// The hosts of each testbed: that of the connecting worker, then those of listening ones.
    testbed_hosts: Vec<Vec<TestbedHost>>,
    settings: Vec<Setting>,
    current: Option<usize>,
    span_start: Option<SpanStart>,
    /// Why the current span has no record of queues that was asked for.
    no_queue: Option<String>,
}

/// Counters at the start of the measured span.
struct SpanStart {
    at: Instant,
    loads: Vec<LoadProgress>,
    link_bytes: u64,
}

impl LocalEnvironment {
    /// Creates the hosts and links of `plan`, after removing leftovers of killed runs.
    ///
    /// # Errors
    ///
    /// When a testbed cannot be created.
    pub fn up(plan: EnvironmentPlan) -> Result<LocalEnvironment, TestbedError> {
        testbed::load::scratch_folder::sweep();
        let mut testbeds = Vec::new();
        for (_, links) in &plan.links {
            testbeds.push(Arc::new(Testbed::up(&testbed_plan(&plan, links))?));
        }
        let here = LocalHost::new(plan.program.clone(), plan.worker.clone());
        let ends = testbeds.iter().map(|testbed| {
            let host = |at| TestbedHost::new(Arc::clone(testbed), at, &plan.program, &plan.worker);
            (0..=plan.receivers.max(1) as usize).map(host).collect()
        });
        Ok(LocalEnvironment {
            testbed_hosts: ends.collect(),
            settings: settings(&plan),
            plan,
            testbeds,
            local_host: here,
            current: None,
            host_loads: Vec::new(),
            link_load: None,
            span_start: None,
            no_queue: None,
        })
    }

    /// The testbeds, one a setting of links, with the text of their links.
    pub fn testbeds(&self) -> impl Iterator<Item = (&str, &Testbed)> {
        let names = self.plan.links.iter().map(|(name, _)| name.as_str());
        names.zip(self.testbeds.iter().map(Arc::as_ref))
    }

    fn setting(&self) -> Setting {
        let now = self.current.unwrap_or_default();
        self.settings.get(now).copied().unwrap_or_default()
    }

    fn testbed(&self) -> Option<&Arc<Testbed>> {
        self.testbeds.get(self.setting().link)
    }

    /// Starts the loads of the current setting.
    fn start_loads(&mut self) -> Result<(), String> {
        let setting = self.setting();
        let sender = usize::from(self.plan.reversed);
        let sides = [
            (sender, setting.sender_load, self.plan.pin.0),
            (1 - sender, setting.receiver_load, self.plan.pin.1),
        ];
        for (side, copies, cpu) in sides {
            if copies > 0 {
                let load = self.start_load(side, copies, cpu);
                let load =
                    load.map_err(|error| format!("the host load does not start: {error}"))?;
                self.host_loads.push(load);
            }
        }
        if let (true, Some(testbed)) = (setting.pairs > 0, self.testbed()) {
            let load = LinkLoad::start(
                testbed,
                setting.pairs as usize,
                self.plan.link_loads.rate_bps,
            );
            let load = load.map_err(|error| format!("the link load does not start: {error}"))?;
            self.link_load = Some(load);
        }
        Ok(())
    }

    fn start_load(&self, side: usize, copies: u32, cpu: Option<u32>) -> std::io::Result<HostLoad> {
        let host = self.testbed().map(|testbed| &testbed.hosts()[side]);
        let mut arguments = self.plan.load.clone();
        arguments.extend(cpu.map(|cpu| format!("--cpu={cpu}")));
        let program = &self.plan.program;
        HostLoad::start(host, copies, program, &arguments, &self.plan.parts)
    }

    fn load_progress(&mut self) -> Vec<LoadProgress> {
        let all = self.host_loads.iter_mut();
        // A load that has exited reports no progress.
        all.map(|load| load.progress().unwrap_or_default())
            .collect()
    }

    /// Adds the progress of the loads as evidence and CPU time.
    fn report_loads(&mut self, before: &SpanStart, into: &mut EnvironmentReport) {
        let seconds = before.at.elapsed().as_secs_f64().max(1e-9);
        let now = self.load_progress();
        for (now, then) in now.iter().zip(&before.loads) {
            let did = now.since(then);
            *into.cpu_s.entry("load".into()).or_default() += did.cpu_s;
            into.other_process_cpu_s += did.cpu_s;
            for (part, count) in did.done {
                let name = format!("load_{part}_per_s");
                *into.evidence.entry(name).or_default() += count as f64 / seconds;
            }
        }
        if let Some(load) = &self.link_load {
            let bytes = load.received_bytes().saturating_sub(before.link_bytes);
            into.evidence
                .insert("link_load_bits_per_s".into(), bytes as f64 * 8.0 / seconds);
        }
    }
}

fn testbed_plan(plan: &EnvironmentPlan, links: &Links) -> TestbedPlan {
    let pairs = plan.link_loads.pairs.iter().max().copied().unwrap_or(0);
    let mut made = TestbedPlan::pair_over(links.clone(), plan.seed);
    made.mtu = plan.mtu;
    made.ipv6 = plan.ipv6;
    let (sender, receiver) = plan.pin;
    let pins = if plan.reversed {
        [receiver, sender]
    } else {
        [sender, receiver]
    };
    let (sender, receiver) = plan.quota;
    let quotas = if plan.reversed {
        [receiver, sender]
    } else {
        [sender, receiver]
    };
    for ((host, cpu), quota) in made.hosts.iter_mut().zip(pins).zip(quotas) {
        host.cpus = cpu.into_iter().collect();
        host.quota = quota;
    }
    if plan.receivers > 1 {
        // One sender, and each receiver at the other end of the same link.
        made.ends = LinkEnds::Star;
        let receiver = made.hosts[1].clone();
        let further = (2..=plan.receivers).map(|number| HostPlan {
            name: format!("b{number}"),
            ..receiver.clone()
        });
        made.hosts.extend(further);
    }
    let others = (0..pairs * 2).map(|at| HostPlan::new(format!("load{at}")));
    made.hosts.extend(others);
    made
}

fn settings(plan: &EnvironmentPlan) -> Vec<Setting> {
    let or_none = |loads: &[u32]| {
        if loads.is_empty() {
            vec![0]
        } else {
            loads.to_vec()
        }
    };
    let host_loads = match &plan.host_loads.0[..] {
        [] => vec![(0, 0)],
        some => some.to_vec(),
    };
    let mut settings = Vec::new();
    for link in 0..plan.links.len().max(1) {
        for &(sender_load, receiver_load) in &host_loads {
            for &pairs in &or_none(&plan.link_loads.pairs) {
                settings.push(Setting {
                    link,
                    sender_load,
                    receiver_load,
                    pairs,
                });
            }
        }
    }
    settings
}

impl Environment for LocalEnvironment {
    fn settings(&self) -> Vec<Cell> {
        let one = |setting: &Setting| {
            let mut cell = Cell::default();
            if let Some((name, _)) = self.plan.links.get(setting.link) {
                cell = cell.with("link", name.as_str());
            }
            if !self.plan.host_loads.0.is_empty() {
                cell = cell
                    .with("sender_load", u64::from(setting.sender_load))
                    .with("receiver_load", u64::from(setting.receiver_load));
            }
            if !self.plan.link_loads.pairs.is_empty() {
                cell = cell.with("link_load", u64::from(setting.pairs));
                if let Some(rate_bps) = self.plan.link_loads.rate_bps {
                    cell = cell.with("link_load_bps", rate_bps);
                }
            }
            cell
        };
        self.settings.iter().map(one).collect()
    }

    fn apply_setting(&mut self, setting: usize) -> Result<(), String> {
        if self.current == Some(setting) {
            return Ok(());
        }
        self.host_loads.clear();
        self.link_load = None;
        self.current = Some(setting);
        self.start_loads().inspect_err(|_| self.current = None)
    }

    fn worker_hosts(&self) -> (&dyn WorkerHost, &dyn WorkerHost) {
        match self.testbed_hosts.get(self.setting().link) {
            Some(hosts) => (&hosts[0], &hosts[1]),
            None => (&self.local_host, &self.local_host),
        }
    }

    fn host_pairs(&self) -> Vec<HostPair<'_>> {
        let (connector, listener) = self.worker_hosts();
        let pair = |name: &str, listener| HostPair {
            name: name.to_owned(),
            connector,
            listener,
        };
        match self.testbed_hosts.get(self.setting().link) {
            Some(hosts) if hosts.len() > 2 => {
                let listeners = hosts[1..].iter();
                listeners.map(|host| pair(host.name(), host)).collect()
            }
            _ => vec![pair("", listener)],
        }
    }

    fn snapshot(&self) -> host::Snapshot {
        let Some(testbed) = self.testbed() else {
            return host::Snapshot::take();
        };
        let hosts = testbed.hosts().iter();
        let hosts = hosts.take(1 + self.plan.receivers.max(1) as usize);
        // A host whose thread has exited has no counters.
        let all = hosts.filter_map(|host| host.run(host::Snapshot::take_in_thread).ok());
        all.reduce(|first, second| first.merged_with(&second))
            .unwrap_or_else(host::Snapshot::take)
    }

    fn interfaces(&self) -> Vec<String> {
        match self.testbed() {
            Some(testbed) => testbed.interfaces(),
            None => vec!["lo".to_owned()],
        }
    }

    fn path_delay_max(&self) -> Duration {
        let links = self.plan.links.get(self.setting().link);
        let links = links.iter().flat_map(|(_, links)| links.iter());
        let delays = links.map(|link| link.max_one_way_delay(self.plan.mtu));
        delays.max().unwrap_or_default()
    }

    fn pause_hindrance(&self, _contestants: usize) -> Option<String> {
        let links = self.plan.links.iter().flat_map(|(_, links)| links.iter());
        if links.into_iter().any(|link| !link.is_plain()) {
            return Some("what is on its way over the link would drain in a pause".into());
        }
        let loads = !self.plan.host_loads.0.is_empty() || !self.plan.link_loads.pairs.is_empty();
        loads.then(|| "a load's work is accounted for trial by trial".to_owned())
    }

    fn record_queues(&mut self, every_ns: u64) {
        if let Some(testbed) = self.testbed() {
            self.no_queue = testbed.record_queues(every_ns).err();
        }
    }

    fn begin(&mut self, seed: u64) {
        let loads = self.load_progress();
        if let Some(testbed) = self.testbed() {
            testbed.begin(seed);
        }
        self.span_start = Some(SpanStart {
            at: Instant::now(),
            loads,
            link_bytes: self.link_load.as_ref().map_or(0, LinkLoad::received_bytes),
        });
    }

    fn end(&mut self) -> EnvironmentReport {
        let mut made = EnvironmentReport::default();
        let Some(before) = self.span_start.take() else {
            return made;
        };
        let reports = self.testbed().map(|testbed| testbed.end());
        report_links(&reports.unwrap_or_default(), &mut made);
        let queues = self.testbed().map(|testbed| testbed.take_queues());
        made.queues = queues.unwrap_or_default();
        made.no_queue = self.no_queue.take();
        let links = self.plan.links.get(self.setting().link);
        made.link_rate = links.and_then(|(_, links)| link_rate(links, self.plan.mtu));
        self.report_loads(&before, &mut made);
        made
    }
}
