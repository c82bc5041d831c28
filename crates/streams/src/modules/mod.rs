//! Modules that come with the runtime.

mod buffer;
mod connld;
mod meter;
mod pass;
mod pipemod;

pub use buffer::Buffer;
pub(crate) use connld::CONNLD;
pub use connld::Connld;
pub use meter::{Meter, MeterCounts};
pub use pass::Pass;
pub use pipemod::Pipemod;

use crate::message::{Extra, FlushRequest, Message};
use crate::module::{Context, QueueInfo, Side};
use crate::queue::Marks;

/// Water marks of a module's queue (STRHIGH, STRLOW of the study's systems).
const MODULE_MARKS: Marks = match Marks::constant(5120, 1024) {
    Some(marks) => marks,
    None => panic!("5,120 is above 1,024"),
};

/// A queue without a service procedure.
pub const PUT_ONLY: QueueInfo = QueueInfo {
    marks: MODULE_MARKS,
    packet: (0, usize::MAX),
    service: false,
};

fn flush_request(message: &Message) -> Option<FlushRequest> {
    match message.extra.as_deref() {
        Some(&Extra::Flush(request)) => Some(request),
        _ => None,
    }
}

/// What the put procedure of a module with service procedures does, so that order is kept: high
/// priority goes on at once, the rest behind what is queued or when there is room.
fn pass_or_queue(context: &mut Context<'_>, side: Side, message: Message) {
    if let Some(request) = flush_request(&message) {
        return context.flush_and_pass_on(side, request, message);
    }
    let at_once = message.kind().is_high_priority()
        || (context.is_empty(side) && context.can_put_next(side, message.band()));
    if at_once {
        context.put_next(side, message);
    } else {
        context.put_queue(side, message);
    }
}

/// What a service procedure does: what is queued goes on while there is room.
fn drain(context: &mut Context<'_>, side: Side) {
    while let Some(message) = context.get(side) {
        if message.kind().is_high_priority() || context.can_put_next(side, message.band()) {
            context.put_next(side, message);
        } else {
            return context.put_back(side, message);
        }
    }
}
