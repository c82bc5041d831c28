//! The parameters of workload `transactions`, and the contests they span.

use super::{Contest, list};
use results::Cell;
use std::time::Duration;

/// Clients, replies and servers of workload `transactions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionPlan {
    /// Numbers of clients of each transport to sweep: callers that call again when they are answered.
    pub clients: Vec<u32>,
    /// How long replies are.
    pub reply: ReplyLen,
    /// Time that a server takes for a request before it answers.
    pub service: Duration,
}

impl Default for TransactionPlan {
    fn default() -> Self {
        TransactionPlan {
            clients: vec![1],
            reply: ReplyLen::Same,
            service: Duration::ZERO,
        }
    }
}

/// How long a reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyLen {
    /// As long as its request.
    Same,
    /// This many bytes.
    Bytes(u64),
}

/// The transactions of a contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLoad {
    /// Clients of each transport.
    pub clients: u32,
    /// Bytes of a reply.
    pub reply_len: u64,
    /// Time that a server takes for a request.
    pub service: Duration,
}

impl TransactionPlan {
    /// The values of its options, by name, for the plan.
    pub(super) fn options(&self) -> [(&'static str, String); 3] {
        let reply = match self.reply {
            ReplyLen::Same => "same".to_owned(),
            ReplyLen::Bytes(len) => format!("{len} B"),
        };
        [
            ("clients", list(&self.clients).unwrap_or_default()),
            ("reply", reply),
            ("service", format!("{} us", self.service.as_micros())),
        ]
    }

    /// A contest with each number of clients.
    pub(super) fn contests(&self, contest: Contest) -> Vec<Contest> {
        let mut cell = contest.cell.clone();
        let reply_len = match self.reply {
            ReplyLen::Same => contest.size,
            ReplyLen::Bytes(len) => {
                cell = cell.with("reply", len);
                len
            }
        };
        if !self.service.is_zero() {
            cell = cell.with("service_us", self.service.as_micros() as u64);
        }
        let with = |&clients: &u32| Contest {
            cell: cell.clone().with(Cell::CLIENTS, u64::from(clients)),
            transactions: Some(TransactionLoad {
                clients,
                reply_len,
                service: self.service,
            }),
            ..contest.clone()
        };
        self.clients.iter().map(with).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RaceSpec;

    fn spec(plan: TransactionPlan) -> RaceSpec {
        RaceSpec {
            sizes: vec![64, 1024],
            circuits: vec![3],
            transactions: plan,
            ..RaceSpec::one_block(&["tcp"], &["transactions", "delay"])
        }
    }

    #[test]
    fn contests_are_sizes_by_clients() {
        let spec = spec(TransactionPlan {
            clients: vec![1, 16],
            ..TransactionPlan::default()
        });
        let contests = spec.contests();
        let load = |at: usize| contests[at].transactions.expect("transactions");
        assert_eq!(contests.len(), 4 + 2);
        assert_eq!((load(0).clients, load(0).reply_len), (1, 64));
        assert_eq!((load(3).clients, load(3).reply_len), (16, 1024));
        // Circuits are those of the other workloads.
        assert_eq!(contests[0].cell.integer("circuits"), None);
        assert_eq!(contests[4].cell.integer("circuits"), Some(3));
        assert_eq!(contests[4].transactions, None);
        assert_eq!(spec.circuits_max(), 16);
    }

    #[test]
    fn several_numbers_of_circuits_are_factor_of_each_other_workload() {
        let spec = RaceSpec {
            circuits: vec![1, 4],
            ..spec(TransactionPlan::default())
        };
        let contests = spec.contests();
        let all: Vec<(u64, u32, Option<i64>)> = contests
            .iter()
            .map(|contest| {
                (
                    contest.size,
                    contest.circuits,
                    contest.cell.integer("circuits"),
                )
            })
            .collect();
        let delays = [
            (64, 1, Some(1)),
            (64, 4, Some(4)),
            (1024, 1, Some(1)),
            (1024, 4, Some(4)),
        ];
        assert_eq!(all[..2], [(64, 1, None), (1024, 1, None)], "transactions");
        assert_eq!(all[2..], delays);
        assert_eq!(spec.options()["circuits"], "1,4");
        assert_eq!(spec.circuits_max(), 4);
    }

    #[test]
    fn replies_and_services_that_differ_are_factors_and_options() {
        let plain = spec(TransactionPlan::default());
        let cell = plain.contests().remove(0).cell;
        assert!(!cell.0.contains_key("reply") && !cell.0.contains_key("service_us"));
        let other = spec(TransactionPlan {
            reply: ReplyLen::Bytes(512),
            service: Duration::from_micros(250),
            ..TransactionPlan::default()
        });
        let cell = other.contests().remove(1).cell;
        assert_eq!(cell.integer("reply"), Some(512));
        assert_eq!(cell.integer("service_us"), Some(250));
        let options = other.options();
        assert_eq!(options["reply"], "512 B");
        assert_eq!(options["service"], "250 us");
        assert_eq!(options["clients"], "1");
    }
}
