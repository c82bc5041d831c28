//! Workers in hosts of a testbed.

use loadgen::worker_host::{WorkerHandle, WorkerHost, spawn_worker};
use std::io;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use testbed::Testbed;

/// Runs workers in a host of a testbed, started like those of [`loadgen::LocalHost`].
#[derive(Clone, Debug)]
pub struct TestbedHost {
    testbed: Arc<Testbed>,
    number: usize,
    program: PathBuf,
    arguments: Vec<String>,
}

impl TestbedHost {
    /// Workers in host `number` of `testbed` that run `program arguments...`.
    pub fn new(
        testbed: Arc<Testbed>,
        number: usize,
        program: &Path,
        arguments: &[String],
    ) -> TestbedHost {
        TestbedHost {
            testbed,
            number,
            program: program.to_owned(),
            arguments: arguments.to_vec(),
        }
    }

    fn host(&self) -> &testbed::Host {
        &self.testbed.hosts()[self.number]
    }
}

impl WorkerHost for TestbedHost {
    fn name(&self) -> &str {
        self.host().name()
    }

    fn spawn(&self) -> io::Result<WorkerHandle> {
        spawn_worker(&self.program, &self.arguments, |command| {
            self.host().spawn(command)
        })
    }

    fn spawn_program(&self, program: &Path) -> io::Result<WorkerHandle> {
        let worker = spawn_worker(program, &self.arguments, |mut command| {
            command.process_group(0);
            self.host().spawn(command)
        });
        worker.map(WorkerHandle::of_program)
    }

    fn addresses(&self, ipv6: bool) -> Vec<IpAddr> {
        let host = self.host();
        let on = |link: usize| match ipv6 {
            true => host.address6_on(link),
            false => host.address_on(link),
        };
        let links = 0..self.testbed.plan().links.len();
        links.map(on).collect()
    }
}
