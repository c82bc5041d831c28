//! Requests that wait for a server.

use super::Request;
use std::collections::VecDeque;

/// Requests that wait, at most: two of each of ten thousand callers, as a race begins with, and room for more. Empty
/// ones take 3.2 MiB.
const REQUESTS_MAX: usize = 32_768;

/// Octets of requests that wait, at most: as many as messages on their way in may take.
const OCTETS_MAX: usize = 64 << 20;

/// Requests that wait for a server, bounded in number and in octets. One is taken whatever its length,
/// or the longest could not be served at all.
#[derive(Debug, Default)]
pub(super) struct RequestQueue {
    requests: VecDeque<Request>,
    octets: usize,
    /// Servers that sleep until there is one.
    pub(super) sleeping: usize,
    /// One of these is to wake up and drive.
    pub(super) wants_driver: bool,
    /// There will be none any more: the endpoint is broken.
    pub(super) is_over: bool,
}

impl RequestQueue {
    /// Queues a request behind those of the same or a higher priority; gives it back when there is no
    /// room.
    pub(super) fn push(&mut self, request: Request) -> Option<Request> {
        let octets = self.octets + request.octets.len();
        let fits = self.requests.is_empty() || octets <= OCTETS_MAX;
        if self.requests.len() >= REQUESTS_MAX || !fits {
            return Some(request);
        }
        self.octets = octets;
        let rank = |request: &Request| request.note.call.rank();
        let own = rank(&request);
        let behind = self.requests.iter().rposition(|other| rank(other) <= own);
        self.requests.insert(behind.map_or(0, |at| at + 1), request);
        None
    }

    /// The request that has waited longest.
    pub(super) fn pop_front(&mut self) -> Option<Request> {
        let request = self.requests.pop_front()?;
        self.octets -= request.octets.len();
        Some(request)
    }

    /// Whether a server sleeps although there is a request.
    pub(super) fn wants_server(&self) -> bool {
        self.sleeping > 0 && !self.is_empty()
    }

    /// Whether a server that sleeps is to wake up.
    pub(super) fn ends_sleep(&self) -> bool {
        !self.is_empty() || self.wants_driver || self.is_over
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{EntityId, Note, TransactionId};

    fn request(len: usize) -> Request {
        Request {
            transaction: TransactionId(1),
            from: EntityId(1),
            to: EntityId(2),
            answerer: EntityId(2),
            note: Note::default(),
            octets: vec![0; len],
        }
    }

    #[test]
    fn more_urgent_requests_overtake_and_equal_ones_do_not() {
        let mut queue = RequestQueue::default();
        for (number, priority) in [0, 4, 12, 0, 12, 8].into_iter().enumerate() {
            let mut request = request(number);
            request.note.call.priority = priority;
            assert!(queue.push(request).is_none());
        }
        let order: Vec<usize> = std::iter::from_fn(|| queue.pop_front())
            .map(|request| request.octets.len())
            .collect();
        assert_eq!(order, [2, 4, 5, 0, 3, 1]);
    }

    #[test]
    fn queue_is_bounded_in_number() {
        let mut queue = RequestQueue::default();
        for _ in 0..REQUESTS_MAX {
            assert!(queue.push(request(0)).is_none());
        }
        assert!(queue.push(request(0)).is_some());
        queue.pop_front().expect("a request");
        assert!(queue.push(request(0)).is_none());
    }

    #[test]
    fn queue_is_bounded_in_octets_and_takes_any_single_request() {
        let mut queue = RequestQueue::default();
        assert!(queue.push(request(OCTETS_MAX + 1)).is_none());
        assert!(queue.push(request(1)).is_some());
        queue.pop_front().expect("a request");
        assert!(queue.is_empty());
        assert!(queue.push(request(OCTETS_MAX)).is_none());
        assert!(queue.push(request(1)).is_some());
        assert!(queue.push(request(0)).is_none());
    }
}
