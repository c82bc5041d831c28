//! Hosts made up, and what doctor says about them.

use super::{Test, judge};
use crate::survey::Survey;
use results::{Finding, Severity};

fn test(workloads: &[&str], transports: &[&str]) -> Test {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Test {
        workloads: owned(workloads),
        transports: owned(transports),
        ..Test::default()
    }
}

fn said(survey: &Survey, test: &Test, word: &str) -> Option<Finding> {
    let mut findings = judge(survey, test).into_iter();
    findings.find(|one| one.what.contains(word))
}

#[test]
fn of_a_host_that_shows_nothing_nothing_is_said() {
    assert_eq!(judge(&Survey::default(), &Test::default()), []);
}

#[test]
fn a_slow_governor_matters_and_a_fast_one_is_good() {
    let mut survey = Survey::default();
    survey.cpu.governor = Some("powersave".into());
    let finding = said(&survey, &Test::default(), "governor").expect("a finding");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(!finding.remedy.is_empty());
    survey.cpu.governor = Some("performance".into());
    let finding = said(&survey, &Test::default(), "governor").expect("a finding");
    assert_eq!(finding.severity, Severity::Good);
}

#[test]
fn a_slow_clock_matters_for_delay_only() {
    let mut survey = Survey::default();
    survey.clock.source = Some("hpet".into());
    let severity = |test: &Test| said(&survey, test, "hpet").expect("a finding").severity;
    assert_eq!(severity(&test(&["delay"], &["tcp"])), Severity::Warning);
    assert_eq!(severity(&test(&["throughput"], &["tcp"])), Severity::Note);
}

#[test]
fn a_small_receive_buffer_matters_for_udp_only() {
    let mut survey = Survey::default();
    survey.network.receive_buffer_max = Some(212_992);
    let udp = test(&["throughput"], &["udp-batched"]);
    let finding = said(&survey, &udp, "rmem_max").expect("a finding");
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(
        said(&survey, &test(&["throughput"], &["tcp"]), "rmem_max"),
        None
    );
    survey.network.receive_buffer_max = Some(4 << 20);
    let finding = said(&survey, &udp, "rmem_max").expect("a finding");
    assert_eq!(finding.severity, Severity::Good);
}

#[test]
fn the_default_congestion_control_is_named_and_a_missing_one_is_bad() {
    let mut survey = Survey::default();
    survey.network.congestion = Some("bbr".into());
    survey.network.congestion_available = Some("reno bbr cubic".into());
    let finding = said(&survey, &Test::default(), "bbr").expect("a finding");
    assert_eq!(finding.severity, Severity::Note);
    survey.network.congestion_available = Some("reno bbr".into());
    let finding = said(&survey, &Test::default(), "cubic").expect("a finding");
    assert_eq!(finding.severity, Severity::Bad);
}

#[test]
fn ports_matter_for_connections_only() {
    let mut survey = Survey::default();
    survey.network.ports = Some(vec![32768, 60999]);
    survey.network.time_wait_reuse = Some(0);
    let finding = said(&survey, &test(&["connect"], &["tcp"]), "ports").expect("a finding");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.what.starts_with("28232"), "{}", finding.what);
    assert_eq!(said(&survey, &Test::default(), "ports"), None);
}

#[test]
fn other_work_is_weighed_against_the_processors() {
    let mut survey = Survey::default();
    survey.cpu.online = Some(4);
    let severity = |cores: f64, survey: &mut Survey| {
        survey.load.foreign_cores = Some(cores);
        said(survey, &Test::default(), "other work")
            .expect("a finding")
            .severity
    };
    assert_eq!(severity(0.1, &mut survey), Severity::Good);
    assert_eq!(severity(1.0, &mut survey), Severity::Warning);
    assert_eq!(severity(3.0, &mut survey), Severity::Bad);
}

#[test]
fn two_processors_are_noted_and_one_is_a_warning() {
    let mut survey = Survey::default();
    let test = Test {
        pinned: true,
        ..Test::default()
    };
    let severity = |cpus: usize, survey: &mut Survey| {
        survey.cpu.online = Some(cpus);
        said(survey, &test, "processor")
            .expect("a finding")
            .severity
    };
    assert_eq!(severity(1, &mut survey), Severity::Warning);
    assert_eq!(severity(2, &mut survey), Severity::Note);
    assert_eq!(severity(8, &mut survey), Severity::Good);
}

#[test]
fn the_worst_comes_first_and_every_fault_has_a_remedy() {
    let mut survey = Survey::default();
    survey.network.loopback_up = Some(false);
    survey.cpu.governor = Some("powersave".into());
    survey.cpu.online = Some(8);
    let findings = judge(&survey, &Test::default());
    assert!(findings.is_sorted_by_key(|one| std::cmp::Reverse(one.severity)));
    assert_eq!(findings[0].severity, Severity::Bad);
    for finding in findings.iter().filter(|one| one.severity > Severity::Good) {
        assert!(!finding.effect.is_empty() && !finding.remedy.is_empty());
    }
}

#[test]
fn where_the_ends_run_matters_unless_they_are_pinned() {
    let mut survey = Survey::default();
    survey.cpu.online = Some(8);
    let delay = test(&["delay"], &["tcp"]);
    let finding = said(&survey, &delay, "not bound").expect("a finding");
    assert_eq!(finding.severity, Severity::Note);
    survey.cpu.nodes = Some(2);
    let finding = said(&survey, &delay, "not bound").expect("a finding");
    assert_eq!(finding.severity, Severity::Warning);
    let pinned = Test {
        pinned: true,
        ..delay
    };
    assert_eq!(said(&survey, &pinned, "not bound"), None);
}

#[test]
fn raw_ethernet_wants_a_right() {
    let mut survey = Survey::default();
    survey.kernel.raw_packets = Some(false);
    for name in ["xtp-rawip", "xtp-ether", "raw-ether"] {
        let raw = test(&["throughput"], &[name]);
        assert!(said(&survey, &raw, "packet sockets").is_some());
    }
    let raw = test(&["throughput"], &["raw-ether"]);
    survey.kernel.raw_packets = Some(true);
    assert_eq!(said(&survey, &raw, "packet sockets"), None);
}
