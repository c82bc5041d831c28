//! Timers and limits that change while an endpoint lives.

use crate::context::Timer;
use crate::endpoint::Xtp;
use crate::procedure::status_request;
use core::time::Duration;
use engine::Instant;
use std::sync::Arc;

impl Xtp {
    /// Sets the keepalive of all associations ([`crate::Config::keepalive`]); it begins anew.
    pub fn set_keepalive(&mut self, now: Instant, keepalive: Duration) {
        Arc::make_mut(&mut self.state.config).keepalive = keepalive;
        for ctx in self.table.contexts_mut() {
            ctx.timers.disarm(Timer::Ctimer);
            status_request::start_ctimer(ctx, &mut self.state, now);
        }
    }

    /// Sets how many status requests stay without an answer before an association is abandoned
    /// ([`crate::Config::retries_max`]).
    pub fn set_retries_max(&mut self, retries_max: u32) {
        Arc::make_mut(&mut self.state.config).retries_max = retries_max;
    }
}
