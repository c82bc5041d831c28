//! Trials of a fixed number of messages, and the contests they span.

use super::{Contest, list};
use results::Cell;

/// How many messages each circuit sends in a trial: round trips in `delay`, connections in `connect`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MessageCounts {
    /// As many as the time of the trial allows.
    #[default]
    ByTime,
    /// Each of these numbers: a factor.
    Each(Vec<u64>),
    /// As many as have this many bytes, rounded up.
    Total(u64),
    /// Messages and their size in bytes, in place of the sizes of the race.
    Pairs(Vec<(u64, u64)>),
}

impl MessageCounts {
    /// The sizes that a race has, of those that it names, bytes.
    pub(super) fn sizes(&self, named: &[u64]) -> Vec<u64> {
        match self {
            MessageCounts::Pairs(pairs) => pairs.iter().map(|(_, size)| *size).collect(),
            _ => named.to_vec(),
        }
    }

    /// The contests of all sizes, each with its numbers of messages.
    pub(super) fn contests(&self, of_sizes: Vec<Contest>) -> Vec<Contest> {
        let with = |contest: &Contest, messages: u64| Contest {
            cell: contest.cell.clone().with(Cell::MESSAGES, messages),
            messages: Some(messages),
            ..contest.clone()
        };
        let mut contests = Vec::new();
        for (at, contest) in of_sizes.iter().enumerate() {
            match self {
                MessageCounts::ByTime => contests.push(contest.clone()),
                MessageCounts::Each(counts) => {
                    contests.extend(counts.iter().map(|&count| with(contest, count)));
                }
                MessageCounts::Total(bytes) => {
                    contests.push(with(contest, bytes.div_ceil(contest.size.max(1))));
                }
                MessageCounts::Pairs(pairs) => contests.push(with(contest, pairs[at].0)),
            }
        }
        contests
    }

    /// Its name and value for the plan; None where the time decides.
    pub(super) fn option(&self) -> Option<(&'static str, String)> {
        match self {
            MessageCounts::ByTime => None,
            MessageCounts::Each(counts) => list(counts).map(|counts| ("messages", counts)),
            MessageCounts::Total(bytes) => Some(("total", format!("{bytes} B"))),
            MessageCounts::Pairs(pairs) => {
                let texts: Vec<String> = pairs
                    .iter()
                    .map(|(count, size)| format!("{count} of {size} B"))
                    .collect();
                Some(("pairs", texts.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{RaceSpec, pilot_contests};

    fn counted(messages: MessageCounts) -> Vec<(u64, Option<u64>)> {
        let spec = RaceSpec {
            sizes: vec![64, 1000],
            messages,
            ..RaceSpec::one_block(&["tcp"], &["throughput"])
        };
        let contests = spec.contests();
        for contest in &contests {
            let factor = contest.cell.integer(Cell::MESSAGES);
            assert_eq!(factor, contest.messages.map(|count| count as i64));
        }
        contests
            .iter()
            .map(|one| (one.size, one.messages))
            .collect()
    }

    #[test]
    fn numbers_of_messages_are_a_factor() {
        assert_eq!(counted(MessageCounts::ByTime), [(64, None), (1000, None)]);
        let each = MessageCounts::Each(vec![10, 500]);
        let both = [
            (64, Some(10)),
            (64, Some(500)),
            (1000, Some(10)),
            (1000, Some(500)),
        ];
        assert_eq!(counted(each), both);
        let total = MessageCounts::Total(6500);
        assert_eq!(counted(total), [(64, Some(102)), (1000, Some(7))]);
        let pairs = MessageCounts::Pairs(vec![(5, 1), (9, 2032), (7, 1)]);
        assert_eq!(
            counted(pairs),
            [(1, Some(5)), (2032, Some(9)), (1, Some(7))]
        );
    }

    #[test]
    fn numbers_of_a_size_share_one_pilot() {
        let spec = RaceSpec {
            sizes: vec![64, 1000],
            messages: MessageCounts::Each(vec![10, 500, 9000]),
            ..RaceSpec::one_block(&["tcp"], &["throughput"])
        };
        assert_eq!(pilot_contests(&spec.contests()), [0, 3]);
    }

    #[test]
    fn plan_says_how_many_messages_a_trial_has() {
        let option = |counts: MessageCounts| counts.option().map(|(_, text)| text);
        assert_eq!(option(MessageCounts::ByTime), None);
        assert_eq!(option(MessageCounts::Each(vec![1, 2])), Some("1,2".into()));
        assert_eq!(option(MessageCounts::Total(9)), Some("9 B".into()));
        let pairs = MessageCounts::Pairs(vec![(5, 1), (9, 2)]);
        assert_eq!(option(pairs), Some("5 of 1 B, 9 of 2 B".into()));
    }
}
