//! Raw sockets that come with a job.

use control::Job;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use towpath::raw_sockets::{GrantedSocket, GrantedSockets};

/// The raw sockets of a job, by the number of the component that they are for.
pub(super) struct GrantedToJob(BTreeMap<usize, GrantedSockets>);

impl GrantedToJob {
    /// Takes the last descriptors of a job, which are its raw sockets.
    pub(super) fn take(job: &Job, descriptors: &mut Vec<OwnedFd>) -> Result<GrantedToJob, String> {
        let first = descriptors.len().checked_sub(job.raw_sockets.len());
        let first = first.ok_or("a raw socket was announced and did not come")?;
        let mut sockets: BTreeMap<usize, Vec<GrantedSocket>> = BTreeMap::new();
        for (grant, socket) in job.raw_sockets.iter().zip(descriptors.split_off(first)) {
            let port = grant.port;
            let of_component = sockets.entry(grant.component as usize).or_default();
            of_component.push(GrantedSocket { socket, port });
        }
        let sockets = sockets.into_iter();
        let granted = sockets.map(|(component, all)| (component, GrantedSockets::new(all)));
        Ok(GrantedToJob(granted.collect()))
    }

    /// Those of a component; None if it opens its own.
    pub(super) fn of(&self, component: usize) -> Option<GrantedSockets> {
        self.0.get(&component).cloned()
    }
}
