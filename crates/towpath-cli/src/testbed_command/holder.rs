//! The process that holds a testbed.

use super::{UpArgs, channel, registry};
use crate::{CliError, EXIT_OK, print};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use testbed::{HostPlan, LinkPlan, Testbed, TestbedPlan};

/// What a holder prints when its testbed is up; anything else is why it is not.
pub const READY: &str = "ready";

/// How long somebody who asks may take to do so.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// A question to a holder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum HolderRequest {
    /// The namespaces of a host.
    Enter(String),
    /// What there is.
    Describe,
    /// Take it down.
    Down,
}

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum HolderReply {
    /// The host's network namespace comes with this, after a user namespace where the holder has
    /// its own.
    Entered {
        /// Whether a user namespace comes first.
        own_users: bool,
    },
    /// What there is.
    Described(Description),
    /// It is going down.
    Down,
    /// It cannot be done.
    Refused(String),
}

/// A testbed in words and numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Description {
    /// The link as it was asked for.
    pub link: String,
    /// How frames cross it.
    pub frames: String,
    /// The hosts.
    pub hosts: Vec<HostDescription>,
    /// What the link has done, by direction.
    pub counts: Vec<(String, Counts)>,
}

/// A host in words.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostDescription {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// What a direction of a link has done.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Frames sent into it.
    pub offered: u64,
    /// Frames lost by the loss models, or cut off.
    pub lost: u64,
    /// Frames dropped because a queue was full.
    pub dropped: u64,
    /// Octets delivered.
    pub delivered_bytes: u64,
}

/// Makes the testbed and answers questions about it until it is to go down.
///
/// # Errors
///
/// When there is no testbed; this is printed too, for who started the holder.
pub fn hold(args: &UpArgs) -> Result<u8, CliError> {
    // Whoever started it may end, and its terminal with it.
    let _ = rustix::process::setsid();
    // Before the user namespace, in which this user is called root.
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
    for stream in listener.incoming().flatten() {
        if !holder.serve_request(stream.into()) {
            break;
        }
    }
    // What is left is swept by the next command.
    let _ = std::fs::remove_file(path);
    Ok(EXIT_OK)
}

struct TestbedHolder {
    testbed: Testbed,
    user_namespace: Option<OwnedFd>,
    link: String,
    ipv6: bool,
}

impl TestbedHolder {
    fn up(args: &UpArgs) -> Result<TestbedHolder, CliError> {
        let link: Result<LinkPlan, _> = args.link.parse();
        let link = link.map_err(|error| CliError::usage(error.to_string()))?;
        let privileged = testbed::is_privileged();
        testbed::enter_user_namespace().map_err(CliError::failed)?;
        let users = (!privileged).then(|| File::open("/proc/self/ns/user").map(OwnedFd::from));
        let names = ('a'..='z').take(args.hosts as usize);
        let hosts = names.map(HostPlan::new);
        let plan = TestbedPlan {
            hosts: hosts.collect(),
            mtu: args.mtu,
            ipv6: args.ipv6,
            ..TestbedPlan::pair(link, args.seed)
        };
        let testbed = Testbed::up(&plan).map_err(CliError::failed)?;
        // Here faults and schedule hold from the beginning: the programs are the user's own.
        testbed.begin(args.seed);
        Ok(TestbedHolder {
            testbed,
            user_namespace: users.transpose().map_err(CliError::failed)?,
            link: args.link.clone(),
            ipv6: args.ipv6,
        })
    }

    /// Answers one question; false when it was the last.
    fn serve_request(&self, socket: OwnedFd) -> bool {
        let mut channel = channel(socket);
        // Who says nothing, or nonsense, gets no answer.
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
        // Who has gone meanwhile hears nothing.
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
            let mut addresses = vec![host.address().to_string()];
            addresses.extend(self.ipv6.then(|| host.address6().to_string()));
            HostDescription {
                name: host.name().to_owned(),
                addresses,
            }
        });
        let reports = self.testbed.report();
        let ways: &[&str] = if reports.len() == 1 {
            &["ether"]
        } else {
            &["there", "back"]
        };
        let counts = ways.iter().zip(reports).map(|(way, report)| {
            let counts = Counts {
                offered: report.link.offered,
                lost: report.link.lost + report.link.cut,
                dropped: report.link.dropped + report.overflowed,
                delivered_bytes: report.link.delivered_bytes,
            };
            ((*way).to_owned(), counts)
        });
        Description {
            link: self.link.clone(),
            frames: crate::environment::framing_text(&plan.link, plan.mtu),
            hosts: hosts.collect(),
            counts: counts.collect(),
        }
    }
}
