//! Findings of doctor on synthetic surveys.

use super::{TestSpec, judge};
use crate::survey::Survey;
use results::{Finding, Severity};

fn test(workloads: &[&str], transports: &[&str]) -> TestSpec {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    TestSpec {
        workloads: owned(workloads),
        transports: owned(transports),
        ..TestSpec::default()
    }
}

fn find_finding(survey: &Survey, test: &TestSpec, word: &str) -> Option<Finding> {
    let mut findings = judge(survey, test).into_iter();
    findings.find(|one| one.what.contains(word))
}

#[test]
fn no_findings_for_empty_survey() {
    assert_eq!(judge(&Survey::default(), &TestSpec::default()), []);
}

#[test]
fn powersave_governor_warns_and_performance_is_good() {
    let mut survey = Survey::default();
    survey.cpu.governor = Some("powersave".into());
    let finding = find_finding(&survey, &TestSpec::default(), "governor").expect("a finding");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(!finding.remedy.is_empty());
    survey.cpu.governor = Some("performance".into());
    let finding = find_finding(&survey, &TestSpec::default(), "governor").expect("a finding");
    assert_eq!(finding.severity, Severity::Good);
}

#[test]
fn slow_clock_source_warns_for_delay_only() {
    let mut survey = Survey::default();
    survey.clock.source = Some("hpet".into());
    let severity = |test: &TestSpec| {
        find_finding(&survey, test, "hpet")
            .expect("a finding")
            .severity
    };
    assert_eq!(severity(&test(&["delay"], &["tcp"])), Severity::Warning);
    assert_eq!(severity(&test(&["throughput"], &["tcp"])), Severity::Note);
}

#[test]
fn small_rmem_max_warns_for_udp_only() {
    let mut survey = Survey::default();
    survey.network.receive_buffer_max = Some(212_992);
    let udp = test(&["throughput"], &["udp-batched"]);
    let finding = find_finding(&survey, &udp, "rmem_max").expect("a finding");
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(
        find_finding(&survey, &test(&["throughput"], &["tcp"]), "rmem_max"),
        None
    );
    survey.network.receive_buffer_max = Some(4 << 20);
    let finding = find_finding(&survey, &udp, "rmem_max").expect("a finding");
    assert_eq!(finding.severity, Severity::Good);
}

#[test]
fn missing_congestion_control_is_bad() {
    let mut survey = Survey::default();
    survey.network.congestion = Some("bbr".into());
    survey.network.congestion_available = Some("reno bbr cubic".into());
    let finding = find_finding(&survey, &TestSpec::default(), "bbr").expect("a finding");
    assert_eq!(finding.severity, Severity::Note);
    survey.network.congestion_available = Some("reno bbr".into());
    let finding = find_finding(&survey, &TestSpec::default(), "cubic").expect("a finding");
    assert_eq!(finding.severity, Severity::Bad);
}

#[test]
fn port_range_warns_for_connect_only() {
    let mut survey = Survey::default();
    survey.network.ports = Some(vec![32768, 60999]);
    survey.network.time_wait_reuse = Some(0);
    let finding = find_finding(&survey, &test(&["connect"], &["tcp"]), "ports").expect("a finding");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.what.starts_with("28232"), "{}", finding.what);
    assert_eq!(find_finding(&survey, &TestSpec::default(), "ports"), None);
}

#[test]
fn background_load_severity_depends_on_processors() {
    let mut survey = Survey::default();
    survey.cpu.online = Some(4);
    let severity = |cores: f64, survey: &mut Survey| {
        survey.load.background_cores = Some(cores);
        find_finding(survey, &TestSpec::default(), "other work")
            .expect("a finding")
            .severity
    };
    assert_eq!(severity(0.1, &mut survey), Severity::Good);
    assert_eq!(severity(1.0, &mut survey), Severity::Warning);
    assert_eq!(severity(3.0, &mut survey), Severity::Bad);
}

#[test]
fn processor_count_severity() {
    let mut survey = Survey::default();
    let test = TestSpec {
        pinned: true,
        ..TestSpec::default()
    };
    let severity = |cpus: usize, survey: &mut Survey| {
        survey.cpu.online = Some(cpus);
        find_finding(survey, &test, "processor")
            .expect("a finding")
            .severity
    };
    assert_eq!(severity(1, &mut survey), Severity::Warning);
    assert_eq!(severity(2, &mut survey), Severity::Note);
    assert_eq!(severity(8, &mut survey), Severity::Good);
}

#[test]
fn findings_are_sorted_and_have_remedies() {
    let mut survey = Survey::default();
    survey.network.loopback_up = Some(false);
    survey.cpu.governor = Some("powersave".into());
    survey.cpu.online = Some(8);
    let findings = judge(&survey, &TestSpec::default());
    assert!(findings.is_sorted_by_key(|one| std::cmp::Reverse(one.severity)));
    assert_eq!(findings[0].severity, Severity::Bad);
    for finding in findings.iter().filter(|one| one.severity > Severity::Good) {
        assert!(!finding.effect.is_empty() && !finding.remedy.is_empty());
    }
}

#[test]
fn unpinned_workers_are_reported() {
    let mut survey = Survey::default();
    survey.cpu.online = Some(8);
    let delay = test(&["delay"], &["tcp"]);
    let finding = find_finding(&survey, &delay, "not pinned").expect("a finding");
    assert_eq!(finding.severity, Severity::Note);
    survey.cpu.nodes = Some(2);
    let finding = find_finding(&survey, &delay, "not pinned").expect("a finding");
    assert_eq!(finding.severity, Severity::Warning);
    let pinned = TestSpec {
        pinned: true,
        ..delay
    };
    assert_eq!(find_finding(&survey, &pinned, "not pinned"), None);
}

#[test]
fn raw_transports_need_raw_socket_capability() {
    let mut survey = Survey::default();
    survey.kernel.raw_packets = Some(false);
    for name in ["xtp-rawip", "xtp-ether", "raw-ether"] {
        let raw = test(&["throughput"], &[name]);
        assert!(find_finding(&survey, &raw, "packet sockets").is_some());
    }
    let raw = test(&["throughput"], &["raw-ether"]);
    survey.kernel.raw_packets = Some(true);
    assert_eq!(find_finding(&survey, &raw, "packet sockets"), None);
}
