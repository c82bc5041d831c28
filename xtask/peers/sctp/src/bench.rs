//! Messages a second from one end to the other, both in one thread, nothing between them.

use crate::stack::{Label, Order, Stack};
use std::time::{Duration, Instant};

/// Bytes that are given to the sender at a time, and messages at most: what fills a call of a wire.
const TURN_BYTES: usize = 64 << 10;
const TURN_MESSAGES: usize = 2048;

/// The first share of the span is left out: the congestion window opens.
const WARM_UP_SHARE: f64 = 0.2;

/// Turns that the association may take to open.
const OPENING_TURNS: usize = 1000;

/// Messages of `size` bytes per second that arrived within `span_s`.
///
/// # Errors
///
/// When the association does not open, or fails.
pub fn run(ends: [&mut dyn Stack; 2], size: usize, span_s: f64) -> Result<f64, String> {
    let [sender, receiver] = ends;
    let began = Instant::now();
    let now = || began.elapsed().as_nanos() as u64;
    sender.connect(now());
    for _ in 0..OPENING_TURNS {
        exchange(sender, receiver, now());
        exchange(receiver, sender, now());
    }
    if !sender.is_up() {
        return Err(format!("{} does not open", sender.name()));
    }
    let label = Label { stream: 0, ppid: 0 };
    let (message, mut arrived) = (vec![7; size], Vec::new());
    let (mut counted, mut count_from) = (0, None);
    let turn = (TURN_BYTES / size.max(1)).clamp(1, TURN_MESSAGES);
    let span = Duration::from_secs_f64(span_s);
    let start = Instant::now();
    while start.elapsed() < span {
        let at = now();
        for _ in 0..turn {
            if !sender.send(at, label, Order::Ordered, &message) {
                break;
            }
        }
        exchange(sender, receiver, at);
        while receiver.receive(at, &mut arrived).is_some() {
            counted += 1;
            arrived.clear();
        }
        exchange(receiver, sender, at);
        for end in [&mut *sender, &mut *receiver] {
            if end.poll_timeout().is_some_and(|due| due <= at) {
                end.handle_timeout(at);
            }
        }
        if count_from.is_none() && start.elapsed() > span.mul_f64(WARM_UP_SHARE) {
            (counted, count_from) = (0, Some(Instant::now()));
        }
        if sender.is_down() || receiver.is_down() {
            return Err(format!("{} ended", sender.name()));
        }
    }
    let measured = count_from.ok_or("the span is too short")?.elapsed();
    Ok(f64::from(counted) / measured.as_secs_f64())
}

fn exchange(from: &mut dyn Stack, to: &mut dyn Stack, now: u64) {
    while let Some(packets) = from.poll_packets(now) {
        to.handle_packets(now, &packets.octets, packets.len);
    }
}
