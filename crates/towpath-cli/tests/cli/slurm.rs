//! The array of jobs under a real slurmctld.

use crate::support::{Scratch, assert_has, towpath};
use std::fs::{self, File};
use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A controller and a node of Slurm in this machine, ended on drop.
struct Cluster {
    daemons: Vec<Child>,
    config: String,
}

impl Cluster {
    /// None, with a SKIPPED line, where Slurm is not installed or the user is not root.
    fn start(scratch: &Scratch) -> Option<Cluster> {
        let is_there = |program: &str| Command::new(program).arg("-V").output().is_ok();
        if !rustix::process::geteuid().is_root() || !is_there("slurmctld") || !is_there("slurmd") {
            eprintln!("SKIPPED: no slurmctld and slurmd, or not root; apt-get install slurm-wlm");
            return None;
        }
        let config = scratch.text("slurm.conf");
        fs::create_dir(scratch.path("state")).expect("a folder");
        fs::create_dir(scratch.path("spool")).expect("a folder");
        fs::write(&config, configuration(scratch)).expect("a configuration");
        let daemon = |name: &str| {
            let log = File::create(scratch.path(&format!("{name}.log"))).expect("a log");
            let mut command = Command::new(name);
            command.arg("-D").env("SLURM_CONF", &config);
            command.stdout(log.try_clone().expect("a log")).stderr(log);
            command.spawn().expect("it starts")
        };
        let daemons = vec![daemon("slurmctld"), daemon("slurmd")];
        let cluster = Cluster { daemons, config };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !cluster.says("sinfo", &["-h", "-o", "%t"]).contains("idle") {
            assert!(Instant::now() < deadline, "no idle node after 30 s");
            std::thread::sleep(Duration::from_millis(200));
        }
        Some(cluster)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", &self.config);
        command
    }

    fn says(&self, program: &str, words: &[&str]) -> String {
        let output = self.command(program).args(words).output().expect(program);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The node first, so that its controller need not miss it.
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// One node of one processor, without the daemon munge.
fn configuration(scratch: &Scratch) -> String {
    let held = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [controller, node] = held.map(|held| held.local_addr().expect("bound").port());
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    let folder = scratch.path("");
    let folder = folder.display();
    format!(
        "ClusterName=towpath\nSlurmctldHost={name}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/none\nCredType=cred/none\nSlurmctldPort={controller}\nSlurmdPort={node}\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
         NodeName={name} NodeAddr=127.0.0.1 CPUs=1 RealMemory=1024\n\
         PartitionName=all Nodes={name} Default=YES State=UP\n"
    )
}

#[test]
fn array_of_jobs_under_slurmctld_gives_each_row_once() {
    let scratch = Scratch::new();
    let Some(cluster) = Cluster::start(&scratch) else {
        return;
    };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let parts = scratch.text("parts");
    let mut batch = cluster.command("timeout");
    batch.env("TOWPATH", env!("CARGO_BIN_EXE_towpath"));
    batch.args(["120", "sbatch", "--wait", "--array=1-3"]);
    batch.args(["--cpus-per-task=1", "--mem-per-cpu=0"]);
    batch.args(["--output", &scratch.text("job-%a.log")]);
    batch.arg(format!("{root}/packaging/slurm/sweep.sbatch"));
    batch.arg(format!("{root}/studies/scenarios/two-hosts.toml"));
    batch.args([&parts, "--seeds", "1..5"]);
    let output = batch.output().expect("sbatch");
    let words = String::from_utf8_lossy(&output.stderr);
    let log = fs::read_to_string(scratch.path("job-1.log")).unwrap_or_default();
    assert!(output.status.success(), "{words}\n{log}");
    let part = |task: u32| format!("{parts}/part-{task}-of-3.jsonl");
    let [first, second, third] = [1, 2, 3].map(part);
    let joined = scratch.text("joined.jsonl");
    let words = ["sim", "join", &first, &second, &third, "--out", &joined];
    let said = towpath(&[&words[..], &["--runs", "5"]].concat()).exited(0);
    assert_has(&said.out, "5 rows");
    assert_has(&said.out, "0 came twice");
}
