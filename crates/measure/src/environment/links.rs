//! What emulated links did during a trial, as counts, evidence and CPU time.

use super::{EnvironmentReport, LinkRate, LinkStats};
use testbed::{LinkPlan, LinkReport};

/// Share of late frames above which a trial counts as disturbed.
const LATE_FRACTION_MAX: f64 = 0.05;

/// Adds the reports of links side by side, each of its directions; a kernel link has none. Of several
/// links, evidence has the sums (`link_lost`) and each link's own (`link_2_lost`).
pub(super) fn report_links(links: &[Vec<LinkReport>], into: &mut EnvironmentReport) {
    let all: Vec<LinkReport> = links.iter().flatten().copied().collect();
    let Some(first) = all.first() else {
        return;
    };
    into.links
        .extend(links.iter().filter_map(|one| directions(one)));
    let cpu_s: f64 = all.iter().map(|report| report.cpu_ns as f64 * 1e-9).sum();
    let span_s = first.elapsed_ns as f64 * 1e-9;
    into.cpu_s.insert("link".into(), cpu_s);
    add_counts(&all, "link", into);
    let lag_max_ns = all.iter().map(|report| report.lag.max_ns).max();
    let lags = [
        ("link_cores", cpu_s / span_s.max(1e-9)),
        ("link_lag_mean_us", lag_mean_us(&all)),
        ("link_lag_max_us", lag_max_ns.unwrap_or(0) as f64 / 1e3),
    ];
    add_evidence(lags.map(|(name, value)| (name.to_owned(), value)), into);
    for (at, reports) in links.iter().enumerate() {
        let prefix = match links.len() {
            1 => "link".to_owned(),
            _ => format!("link_{}", at + 1),
        };
        if links.len() > 1 && !reports.is_empty() {
            add_counts(reports, &prefix, into);
            let octets = sum(reports, |report| report.link.offered_bytes);
            // Also where it is 0: this link was not used.
            into.evidence.insert(format!("{prefix}_octets"), octets);
        }
        let name = match links.len() {
            1 => "the link".to_owned(),
            _ => format!("link {}", at + 1),
        };
        add_disturbances(reports, &name, into);
    }
}

/// What links side by side carry together, for packets of `mtu` octets; None where one has no limit, or
/// there is none.
pub(super) fn link_rate(links: &[LinkPlan], mtu: u32) -> Option<LinkRate> {
    let rates = |link: &LinkPlan| {
        let [there, back] = link.uncontended(mtu).map(|config| config.rate_bps);
        Some([there? as f64, back? as f64])
    };
    let all: Option<Vec<[f64; 2]>> = links.iter().map(rates).collect();
    let sum = |[there, back]: [f64; 2], one: [f64; 2]| [there + one[0], back + one[1]];
    let both = all?.into_iter().reduce(sum)?;
    let is_shared = links.iter().all(|link| matches!(link, LinkPlan::Ether(_)));
    Some(match is_shared {
        true => LinkRate::Shared(both[0]),
        false => LinkRate::EachWay(both),
    })
}

/// Both directions of a link; a shared Ethernet has the same report for both. None for a kernel link.
fn directions(reports: &[LinkReport]) -> Option<[LinkStats; 2]> {
    let stats = |report: &LinkReport| LinkStats {
        frames: report.link.offered,
        bytes: report.link.offered_bytes,
        lost: report.link.lost + report.link.dropped + report.link.cut + report.overflowed,
        corrupted: report.link.corrupted,
        duplicated: report.link.duplicated,
        in_flight: report.in_flight,
    };
    Some([stats(reports.first()?), stats(reports.last()?)])
}

/// Adds the counters of these reports together, those above 0, under names that begin with `prefix`.
fn add_counts(reports: &[LinkReport], prefix: &str, into: &mut EnvironmentReport) {
    type Count = (&'static str, fn(&LinkReport) -> u64);
    let counts: [Count; 8] = [
        ("frames", |report| report.link.offered),
        ("lost", |report| report.link.lost),
        ("dropped", |report| report.link.dropped),
        ("cut", |report| report.link.cut),
        ("duplicated", |report| report.link.duplicated),
        ("reordered", |report| report.link.reordered),
        ("corrupted", |report| report.link.corrupted),
        ("collisions", |report| report.collisions),
    ];
    let named = counts.map(|(name, of)| (format!("{prefix}_{name}"), sum(reports, of)));
    add_evidence(named, into);
}

fn add_evidence<const N: usize>(named: [(String, f64); N], into: &mut EnvironmentReport) {
    let positive = named.into_iter().filter(|(_, value)| *value > 0.0);
    into.evidence.extend(positive);
}

fn add_disturbances(reports: &[LinkReport], link: &str, into: &mut EnvironmentReport) {
    let (late, waited) = (
        sum(reports, |report| report.lag.late),
        sum(reports, |report| report.lag.frames),
    );
    if late > waited * LATE_FRACTION_MAX {
        into.disturbed.push(format!(
            "{link} was more than 50 us late for {:.1} % of the frames",
            late * 100.0 / waited
        ));
    }
    if sum(reports, |report| report.overflowed) > 0.0 {
        into.disturbed.push(format!(
            "more frames were in flight on {link} than fit into its memory"
        ));
    }
}

fn sum(reports: &[LinkReport], of: fn(&LinkReport) -> u64) -> f64 {
    reports.iter().map(of).sum::<u64>() as f64
}

fn lag_mean_us(reports: &[LinkReport]) -> f64 {
    let frames: u64 = reports.iter().map(|report| report.lag.frames).sum();
    let sum_ns: u64 = reports.iter().map(|report| report.lag.sum_ns).sum();
    sum_ns as f64 / 1e3 / frames.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A direction that carried `frames` frames of 100 octets and lost `lost` of them.
    fn way(frames: u64, lost: u64) -> LinkReport {
        let mut report = LinkReport::default();
        report.link.offered = frames;
        report.link.offered_bytes = frames * 100;
        report.link.lost = lost;
        report
    }

    fn reported(links: &[Vec<LinkReport>]) -> EnvironmentReport {
        let mut made = EnvironmentReport::default();
        report_links(links, &mut made);
        made
    }

    #[test]
    fn several_links_have_sums_and_counts_of_each() {
        let kernel = Vec::new();
        let made = reported(&[vec![way(5, 1), way(2, 0)], vec![way(0, 0); 2], kernel]);
        assert_eq!(made.links.len(), 2);
        assert_eq!((made.links[0][0].frames, made.links[0][1].frames), (5, 2));
        let value = |name: &str| made.evidence.get(name).copied();
        assert_eq!(value("link_frames"), Some(7.0));
        assert_eq!(value("link_1_lost"), Some(1.0));
        assert_eq!(value("link_1_octets"), Some(700.0));
        // An unused link says so; what a kernel link carried is not known here.
        assert_eq!(value("link_2_octets"), Some(0.0));
        assert_eq!(value("link_3_octets"), None);
    }

    #[test]
    fn one_link_has_no_counts_by_number() {
        let made = reported(&[vec![way(5, 1), way(2, 0)]]);
        assert_eq!(made.evidence.get("link_lost"), Some(&1.0));
        assert!(made.evidence.keys().all(|name| !name.contains("_1_")));
        assert_eq!(reported(&[Vec::new()]), EnvironmentReport::default());
    }

    #[test]
    fn link_rate_is_the_sum_of_links_that_all_have_one() {
        let links = |texts: &[&str]| -> Vec<LinkPlan> {
            let parsed = texts.iter().map(|text| text.parse().expect("a link"));
            parsed.collect()
        };
        let rate = |texts: &[&str]| link_rate(&links(texts), 1500);
        let both = Some(LinkRate::EachWay([3e7, 3e7]));
        assert_eq!(rate(&["rate=10mbit", "rate=20mbit"]), both);
        assert_eq!(rate(&["rate=10mbit", "delay=1ms"]), None);
        assert_eq!(rate(&[]), None);
        assert!(matches!(rate(&["ether10"]), Some(LinkRate::Shared(_))));
    }

    #[test]
    fn late_link_is_named() {
        let mut late = way(10, 0);
        (late.lag.frames, late.lag.late) = (10, 5);
        let made = reported(&[vec![way(1, 0)], vec![late]]);
        assert_eq!(made.disturbed.len(), 1);
        assert!(
            made.disturbed[0].starts_with("link 2 was"),
            "{:?}",
            made.disturbed
        );
    }
}
