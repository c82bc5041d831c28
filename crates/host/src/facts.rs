//! The survey as facts for a reader.

use crate::survey::{Clock, Cpu, Kernel, Load, Network, Survey};
use results::Fact;

/// Facts about this host, in groups: `cpu`, `kernel`, `clock`, `network`, `load`, `build`. Unknown
/// ones are omitted. Takes about an eighth of a second.
pub fn facts() -> Vec<Fact> {
    of(&Survey::take())
}

pub(crate) fn of(survey: &Survey) -> Vec<Fact> {
    let mut list = FactList::default();
    list.cpu(&survey.cpu);
    list.kernel(&survey.kernel);
    list.clock(&survey.clock);
    list.network(&survey.network);
    list.load(&survey.load);
    list.build(&survey.kernel);
    list.facts
}

#[derive(Default)]
struct FactList {
    group: &'static str,
    facts: Vec<Fact>,
}

impl FactList {
    fn add(&mut self, name: &str, value: Option<impl ToString>) {
        let Some(value) = value else {
            return;
        };
        self.facts.push(Fact {
            group: self.group.to_owned(),
            name: name.to_owned(),
            value: value.to_string(),
        });
    }

    fn cpu(&mut self, cpu: &Cpu) {
        self.group = "cpu";
        let frequency = cpu.frequency_max_khz;
        let states = (!cpu.idle_states.is_empty()).then(|| cpu.idle_states.join(", "));
        let mitigations = (!cpu.mitigations.is_empty()).then(|| cpu.mitigations.join(", "));
        self.add("model", cpu.model.as_ref());
        self.add("processors", cpu.online);
        self.add("usable by this process", cpu.usable);
        self.add("memory nodes (NUMA)", cpu.nodes);
        self.add("shared cores (SMT)", cpu.smt.map(on_off));
        let none = "none (the kernel does not control the frequency)";
        self.add("frequency governor", cpu.governor.as_deref().or(Some(none)));
        self.add(
            "highest frequency",
            frequency.map(|khz| format!("{} MHz", khz / 1000)),
        );
        self.add("turbo", cpu.turbo.map(on_off));
        self.add("virtual machine", cpu.hypervisor.as_deref().or(Some("no")));
        self.add("idle driver", cpu.idle_driver.as_ref());
        self.add("idle governor", cpu.idle_governor.as_ref());
        self.add("idle states", states);
        self.add("idle polling of the guest", cpu.halt_poll_ns.map(ns));
        self.add("mitigations", mitigations);
        let quota = cpu.quota.map(|cpus| format!("{cpus:.2} processors"));
        self.add("control group's quota", quota);
        self.add("on battery", cpu.on_battery.map(yes_no));
    }

    fn kernel(&mut self, kernel: &Kernel) {
        self.group = "kernel";
        self.add("release", kernel.release.as_ref());
        self.add("architecture", kernel.architecture.as_ref());
        self.add("timer tick", kernel.tick_hz.map(|hz| format!("{hz} Hz")));
        self.add("preemption", kernel.preemption.as_ref());
        self.add("transparent huge pages", kernel.huge_pages.as_ref());
        self.add("memory", kernel.memory_bytes.map(mib));
        self.add("memory available", kernel.memory_free_bytes.map(mib));
        self.add("open files at most", kernel.files_max);
        self.add("perf_event_paranoid", kernel.perf_paranoid);
        self.add("root", Some(yes_no(kernel.root)));
        self.add("may send raw packets", kernel.raw_packets.map(yes_no));
        self.add("container", kernel.container.as_deref().or(Some("no")));
    }

    fn clock(&mut self, clock: &Clock) {
        self.group = "clock";
        self.add("source", clock.source.as_ref());
        self.add("sources available", clock.available.as_ref());
        self.add(
            "cost of a read (median)",
            clock.read_ns.map(|cost| format!("{cost:.1} ns")),
        );
        self.add("smallest step", clock.step_ns.map(ns));
    }

    fn network(&mut self, network: &Network) {
        self.group = "network";
        self.add("tcp_congestion_control", network.congestion.as_ref());
        let available = network.congestion_available.as_ref();
        self.add("available congestion control", available);
        self.add("rmem_max", network.receive_buffer_max.map(bytes));
        self.add("rmem_default", network.receive_buffer_default.map(bytes));
        self.add("wmem_max", network.send_buffer_max.map(bytes));
        self.add(
            "tcp_rmem",
            network.tcp_receive_buffer.as_deref().map(join_numbers),
        );
        self.add(
            "tcp_wmem",
            network.tcp_send_buffer.as_deref().map(join_numbers),
        );
        self.add(
            "udp_mem (pages)",
            network.udp_memory.as_deref().map(join_numbers),
        );
        self.add(
            "ip_local_port_range",
            network.ports.as_deref().map(join_numbers),
        );
        self.add("tcp_tw_reuse", network.time_wait_reuse);
        self.add("netdev_max_backlog", network.backlog);
        self.add("default_qdisc", network.queueing.as_ref());
        self.add(
            "busy_read",
            network.busy_read_us.map(|us| format!("{us} us")),
        );
        self.add("loopback MTU", network.loopback_mtu.map(bytes));
        self.add("IPv6", Some(yes_no(network.ipv6)));
        self.add("MPTCP", network.mptcp.map(on_off));
    }

    fn load(&mut self, load: &Load) {
        self.group = "load";
        let averages = load
            .averages
            .map(|[m1, m5, m15]| format!("{m1} {m5} {m15}"));
        let background = load
            .background_cores
            .map(|cores| format!("{cores:.2} processors"));
        self.add("load averages (1, 5, 15 min)", averages);
        self.add("other work now", background);
        self.add("steal since start", load.steal_since_start.map(percent));
        self.add("steal now", load.steal_now.map(percent));
    }

    fn build(&mut self, kernel: &Kernel) {
        self.group = "build";
        self.add("towpath", Some(env!("CARGO_PKG_VERSION")));
        self.add("compiler", Some(env!("HOST_RUSTC_VERSION")));
        let profile = if kernel.debug_build {
            "debug"
        } else {
            "release"
        };
        self.add("profile", Some(profile));
    }
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

fn ns(ns: u64) -> String {
    format!("{ns} ns")
}

fn bytes(bytes: u64) -> String {
    format!("{bytes} B")
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn join_numbers(numbers: &[u64]) -> String {
    let join_numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    join_numbers.join(" ")
}
