//! Evidence of a trial: what was counted beside its result, and its phrases.

use crate::phrasing::amount;

/// One kind of evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Key in a trial's `evidence`, unit last.
    pub key: &'static str,
    /// Its phrase, with `{}` for the value.
    pub phrase: &'static str,
    /// Its label in tables.
    pub label: &'static str,
    /// Values below this do not affect a message's time, whatever their ratio.
    pub negligible: f64,
    /// The most that one of it costs a message, us; infinite where that has no bound.
    pub cost_max_us: f64,
    /// How a difference relates to speed.
    pub role: EvidenceRole,
}

/// How a difference in evidence relates to speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceRole {
    /// Less of it saves time.
    LessIsFaster,
    /// More of it saves time.
    MoreIsFaster,
    /// Less of it accompanies speed but is not a cause: named only when no cause stands out.
    Symptom,
    /// Shown, never an explanation.
    Shown,
}

/// All evidence a trial may carry, in the order it is shown.
pub const EVIDENCE: &[Evidence] = &[
    evidence(
        "calls_per_message",
        "{} calls a message",
        "system calls a message",
        (0.02, 5.0),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "wakeups_per_message",
        "{} wake-ups a message",
        "wake-ups a message",
        (0.02, 50.0),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "packets_per_message",
        "{} packets a message",
        "packets a message",
        (0.02, 5.0),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "mean_packet_bytes",
        "packets of {} B",
        "mean packet, B",
        (1.0, f64::INFINITY),
        EvidenceRole::MoreIsFaster,
    ),
    evidence(
        "further_links_share",
        "{} of the octets over links after the first",
        "octets over links after the first, share",
        (0.01, f64::INFINITY),
        EvidenceRole::MoreIsFaster,
    ),
    evidence(
        "retransmissions_per_1000",
        "{} retransmissions a thousand messages",
        "retransmissions a thousand messages",
        (0.5, f64::INFINITY),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "receive_drops_per_1000",
        "{} drops at the receiver's buffer a thousand messages received",
        "drops at the receiver's buffer a thousand messages received",
        (0.5, f64::INFINITY),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "sender_cpu_ns_per_message",
        "{} of CPU a message at the sender",
        "CPU at the sender, ns a message",
        (5.0, 0.001),
        EvidenceRole::Symptom,
    ),
    evidence(
        "receiver_cpu_ns_per_message",
        "{} of CPU a message at the receiver",
        "CPU at the receiver, ns a message",
        (5.0, 0.001),
        EvidenceRole::Symptom,
    ),
    evidence(
        "involuntary_switches_per_message",
        "{} preemptions a message",
        "preemptions a message",
        (0.02, 20.0),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "cpu_user_fraction",
        "{} of the CPU time in user mode",
        "CPU time in user mode, share",
        (0.01, f64::INFINITY),
        EvidenceRole::Shown,
    ),
];

const fn evidence(
    key: &'static str,
    phrase: &'static str,
    label: &'static str,
    (negligible, cost_max_us): (f64, f64),
    role: EvidenceRole,
) -> Evidence {
    Evidence {
        key,
        phrase,
        label,
        negligible,
        cost_max_us,
        role,
    }
}

impl Evidence {
    /// A value in words: a time with its unit, any other as a number.
    pub fn amount(&self, value: f64) -> String {
        match value {
            value if !self.key.contains("_ns_") => amount(value),
            ns if ns >= 1e6 => format!("{} ms", amount(ns / 1e6)),
            ns if ns >= 1e3 => format!("{} us", amount(ns / 1e3)),
            ns => format!("{} ns", amount(ns)),
        }
    }

    /// Two values in words: `0.9 wake-ups a message against 2.1`.
    pub fn contrast(&self, ours: f64, theirs: f64) -> String {
        let phrase = self.phrase.replace("{}", &self.amount(ours));
        format!("{phrase} against {}", self.amount(theirs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_keys_are_unique_with_placeholder() {
        for (index, evidence) in EVIDENCE.iter().enumerate() {
            assert!(evidence.phrase.contains("{}"), "{}", evidence.key);
            assert!(
                EVIDENCE[..index]
                    .iter()
                    .all(|other| other.key != evidence.key)
            );
        }
    }
}
