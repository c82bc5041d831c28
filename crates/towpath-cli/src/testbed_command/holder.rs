//! The process that owns a testbed.

use super::{UpArgs, channel, registry};
use crate::{CliError, EXIT_OK, print};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use testbed::{HostPlan, LinkEnds, LinkReport, Links, LinksError, Testbed, TestbedPlan};

/// The line a holder prints when its testbed is up; any other line is an error message.
pub const READY: &str = "ready";

/// Timeout of reading a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// How long nothing is accepted when descriptors have run out.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// A request to a holder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum HolderRequest {
    /// Send the namespaces of a host.
    Enter(String),
    /// Describe the testbed.
    Describe,
    /// Take the testbed down.
    Down,
}

/// The reply to a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum HolderReply {
    /// The descriptor of the host's network namespace comes with this reply, after that of the
    /// holder's user namespace if it has one.
    Entered {
        /// Whether the descriptor of a user namespace comes first.
        own_users: bool,
    },
    /// The description of the testbed.
    Described(Description),
    /// The testbed is going down.
    Down,
    /// The request failed.
    Refused(String),
}

/// The description of a testbed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Description {
    /// The links as given by the user.
    pub link: String,
    /// How each link handles frames.
    pub frames: String,
    /// The hosts.
    pub hosts: Vec<HostDescription>,
    /// Counters of the links by direction.
    pub counts: Vec<(String, Counts)>,
}

/// The description of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostDescription {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// Counters of one direction of a link.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Frames offered to the link.
    pub offered: u64,
    /// Frames lost by the loss models, or while the link was cut.
    pub lost: u64,
    /// Frames dropped because a queue was full.
    pub dropped: u64,
    /// Octets delivered.
    pub delivered_bytes: u64,
}

/// Creates the testbed and serves requests until it is taken down.
///
/// # Errors
///
/// When the testbed cannot be created. The error is also printed, for the parent process.
pub fn hold(args: &UpArgs) -> Result<u8, CliError> {
    // The holder outlives its parent process and the terminal.
    let _ = rustix::process::setsid();
    // Before entering the user namespace, in which the user ID is 0.
    let listening = registry::listen(&args.name.name);
    let up = listening.and_then(|listening| Ok((TestbedHolder::up(args)?, listening)));
    let (holder, (listener, path)) = match up {
        Ok(up) => up,
        Err(error) => {
            print::line(&error.message)?;
            return Err(error);
        }
    };
    print::line(READY)?;
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => {
                if !holder.serve_request(stream.into()) {
                    break;
                }
            }
            // Out of descriptors: the client waits in the kernel's queue meanwhile.
            Err(_) => std::thread::sleep(EXHAUSTED_PAUSE),
        }
    }
    // A socket that stays behind is removed by the next command.
    let _ = std::fs::remove_file(path);
    Ok(EXIT_OK)
}

struct TestbedHolder {
    testbed: Testbed,
    user_namespace: Option<OwnedFd>,
    link: String,
    ipv6: bool,
}

/// The name of a host, by its number from 0: a to z, then aa, ab and so on.
fn host_name(number: u32) -> String {
    const ALPHABET: u32 = 26;
    let character = |place: u32| char::from(b'a' + (place % ALPHABET) as u8);
    let first = (number / ALPHABET).checked_sub(1).map(character);
    first.into_iter().chain([character(number)]).collect()
}

impl TestbedHolder {
    fn up(args: &UpArgs) -> Result<TestbedHolder, CliError> {
        let links: Result<Links, LinksError> = args.link.parse();
        let links = links.map_err(|error| CliError::usage(error.to_string()))?;
        let privileged = testbed::is_privileged();
        testbed::enter_user_namespace().map_err(CliError::failed)?;
        let users = (!privileged).then(|| File::open("/proc/self/ns/user").map(OwnedFd::from));
        let hosts = (0..args.hosts).map(|number| HostPlan::new(host_name(number)));
        let plan = TestbedPlan {
            hosts: hosts.collect(),
            mtu: args.mtu,
            ipv6: args.ipv6,
            ends: match args.star {
                true => LinkEnds::Star,
                false => LinkEnds::Alternating,
            },
            ..TestbedPlan::pair_over(links, args.seed)
        };
        let testbed = Testbed::up(&plan).map_err(CliError::failed)?;
        // Loss and schedule apply at once: there is no set-up phase without faults as in a race.
        testbed.begin(args.seed);
        Ok(TestbedHolder {
            testbed,
            user_namespace: users.transpose().map_err(CliError::failed)?,
            link: args.link.clone(),
            ipv6: args.ipv6,
        })
    }

    /// Serves one request; false after the request to take the testbed down.
    fn serve_request(&self, socket: OwnedFd) -> bool {
        let mut channel = channel(socket);
        // No reply to a client that sends nothing or no valid request.
        let Ok((ask, _)) = channel.receive::<HolderRequest>(REQUEST_TIMEOUT) else {
            return true;
        };
        let mut descriptors: Vec<BorrowedFd<'_>> = Vec::new();
        let answer = match &ask {
            HolderRequest::Enter(name) => match self.testbed.host(name) {
                Some(host) => {
                    descriptors.extend(self.user_namespace.as_ref().map(AsFd::as_fd));
                    descriptors.push(host.namespace());
                    HolderReply::Entered {
                        own_users: self.user_namespace.is_some(),
                    }
                }
                None => HolderReply::Refused(self.no_host(name)),
            },
            HolderRequest::Describe => HolderReply::Described(self.describe()),
            HolderRequest::Down => HolderReply::Down,
        };
        // The client may have closed the connection.
        let _ = channel.send(&answer, &descriptors);
        !matches!(ask, HolderRequest::Down)
    }

    fn no_host(&self, name: &str) -> String {
        let names: Vec<&str> = self
            .testbed
            .hosts()
            .iter()
            .map(|host| host.name())
            .collect();
        format!(
            "there is no host '{name}'; choose from {}",
            names.join(", ")
        )
    }

    fn describe(&self) -> Description {
        let plan = self.testbed.plan();
        let hosts = self.testbed.hosts().iter().map(|host| {
            let of_link = |link: usize| {
                let ipv6 = self.ipv6.then(|| host.address6_on(link));
                [Some(host.address_on(link)), ipv6]
            };
            let addresses = (0..plan.links.len()).flat_map(of_link).flatten();
            HostDescription {
                name: host.name().to_owned(),
                addresses: addresses.map(|address| address.to_string()).collect(),
            }
        });
        let mut counts = Vec::new();
        for (link, reports) in self.testbed.report().iter().enumerate() {
            let title = crate::environment::link_title(&self.testbed, link);
            counts.extend(link_counts(&title, reports));
        }
        let links = plan.links.iter();
        let frames = links.map(|link| crate::environment::framing_text(link, plan.mtu));
        Description {
            link: self.link.clone(),
            frames: frames.collect::<Vec<_>>().join(" + "),
            hosts: hosts.collect(),
            counts,
        }
    }
}

/// The counters of a link's directions, with their names behind `title`.
fn link_counts(title: &str, reports: &[LinkReport]) -> Vec<(String, Counts)> {
    let ways: &[&str] = match reports.len() {
        1 => &["ether"],
        _ => &["there", "back"],
    };
    let counts = ways.iter().zip(reports).map(|(way, report)| {
        let counts = Counts {
            offered: report.link.offered,
            lost: report.link.lost + report.link.cut,
            dropped: report.link.dropped + report.overflowed,
            delivered_bytes: report.link.delivered_bytes,
        };
        (format!("{title}{way}"), counts)
    });
    counts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_on_behind_z() {
        let names = [0, 25, 26, 51, 52, 63].map(host_name);
        assert_eq!(names, ["a", "z", "aa", "az", "ba", "bl"]);
    }
}
