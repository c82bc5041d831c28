//! What becomes of a frame: its arrivals, or its loss.

use super::{MediumEvent, PendingEvent};
use link::{EtherFrame, EventQueue, Link};

/// Schedules the arrivals of a frame, or its loss; returns how many events that are.
pub(super) fn schedule_arrivals(
    pending: &mut EventQueue<PendingEvent>,
    fate: link::FrameOutcome,
    (now_ps, lead_ps): (u64, u64),
    station: usize,
    tag: u64,
) -> u32 {
    let mut arrivals = 0;
    for complete_ps in [fate.arrival_ps, fate.copy_ps].into_iter().flatten() {
        let at_ps = complete_ps.saturating_sub(lead_ps).max(now_ps);
        let event = MediumEvent::Arrived {
            at_ps,
            station,
            tag,
            corrupt_bit: fate.corrupt_bit,
            complete_ps,
        };
        pending.push(at_ps, 0, PendingEvent::Medium(event));
        arrivals += 1;
    }
    if arrivals == 0 {
        let event = MediumEvent::Lost {
            at_ps: now_ps,
            station,
            tag,
        };
        pending.push(now_ps, 0, PendingEvent::Medium(event));
        arrivals = 1;
    }
    arrivals
}

/// Applies a receiver's faults to an arrival. An ether duplicates nothing: a second copy would be
/// an arrival more than the sender was told of.
pub(super) fn apply_faults(
    faults: &mut Link,
    at_ps: u64,
    station: usize,
    frame: EtherFrame,
) -> (u64, MediumEvent) {
    let tag = frame.tag;
    let fate = faults.offer(at_ps, frame.octets as usize);
    match fate.arrival_ps {
        Some(arrival_ps) => {
            let event = MediumEvent::Arrived {
                at_ps: arrival_ps,
                station,
                tag,
                corrupt_bit: fate.corrupt_bit,
                complete_ps: arrival_ps,
            };
            (arrival_ps, event)
        }
        None => (
            at_ps,
            MediumEvent::Lost {
                at_ps,
                station,
                tag,
            },
        ),
    }
}
