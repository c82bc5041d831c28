//! Routes among neighbours.

/// The routes of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Routes {}

impl Routes {
    /// What stands in the header of packets on `route`.
    pub(crate) fn outgoing(&self, route: u32) -> u32 {
        route
    }
}
