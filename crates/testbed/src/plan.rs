//! The specification of a testbed.

use crate::emulate::ether::EtherKind;
use crate::error::TestbedError;
use crate::links::Links;
use link::{LinkConfig, Path};
use std::str::FromStr;
use std::time::Duration;

/// Hosts of a testbed at most: each takes two threads and a device.
pub const HOSTS_MAX: usize = 64;

/// Minimum MTU of IPv6 (RFC 8200, section 5).
const MTU_MIN: u32 = 1280;

/// Largest IP packet.
const MTU_MAX: u32 = 65_535;

/// Minimum queue for super-frames, octets: 16 of them, since one must not fill it alone.
const SUPER_QUEUE_MIN: u64 = 16 << 16;

/// Up to this rate a link carries single frames by default: at 1 Gbit/s a super-frame takes 0.5 ms,
/// which would affect every delay.
const SINGLE_FRAME_RATE_MAX_BPS: u64 = 1_000_000_000;

/// Octets assumed in a queue without a limit: TCP has at most 4 to 6 MiB in flight by default.
const QUEUED_MAX_BYTES: u64 = 6 << 20;

/// MTU of a shared Ethernet.
const ETHER_MTU_MAX: u32 = 1500;

/// The specification of a testbed.
#[derive(Clone, Debug)]
pub struct TestbedPlan {
    /// The hosts. A host communicates with those at the other end of the links.
    pub hosts: Vec<HostPlan>,
    /// Which hosts are at which end.
    pub ends: LinkEnds,
    /// The links between the ends, side by side.
    pub links: Links,
    /// MTU of all links.
    pub mtu: u32,
    /// Hosts also have IPv6 addresses.
    pub ipv6: bool,
    /// Seed of the link's random decisions.
    pub seed: u64,
}

/// Which hosts are at which end of the links; a shared Ethernet has no ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkEnds {
    /// Hosts at even positions (0, 2, ...) at one end, the others at the other.
    #[default]
    Alternating,
    /// The first host at one end, all others at the other.
    Star,
}

impl LinkEnds {
    /// The end, 0 or 1, of the host at position `host`.
    pub(crate) fn of(self, host: usize) -> usize {
        match self {
            LinkEnds::Alternating => host % 2,
            LinkEnds::Star => host.min(1),
        }
    }
}

/// A host of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// CPUs it runs on; empty for all.
    pub cpus: Vec<u32>,
    /// CPU quota in per cent of one CPU; None for no limit.
    pub quota: Option<u32>,
}

impl HostPlan {
    /// A host that may use all CPUs.
    pub fn new(name: impl Into<String>) -> HostPlan {
        HostPlan {
            name: name.into(),
            cpus: Vec::new(),
            quota: None,
        }
    }
}

/// The link of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkPlan {
    /// The kernel's: a veth pair, with a token bucket for a rate, or netem for delays and faults.
    Kernel(Path),
    /// Emulated in this process.
    Emulated(Path, FrameMode),
    /// A shared Ethernet, emulated in this process.
    Ether(EtherKind),
}

/// How frames cross an emulated link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameMode {
    /// Super-frames if the link allows them.
    #[default]
    Auto,
    /// Single frames, as on the wire.
    Single,
    /// GSO super-frames, as the kernel passes them to an interface with segmentation offload.
    Super,
    /// Single frames, by packet sockets instead of TAP devices.
    Sockets,
}

impl TestbedPlan {
    /// Two hosts, `a` and `b`, over one link, with an MTU of 1500.
    pub fn pair(link: LinkPlan, seed: u64) -> TestbedPlan {
        TestbedPlan::pair_over(link.into(), seed)
    }

    /// Two hosts, `a` and `b`, over links side by side, with an MTU of 1500.
    pub fn pair_over(links: Links, seed: u64) -> TestbedPlan {
        TestbedPlan {
            hosts: vec![HostPlan::new("a"), HostPlan::new("b")],
            ends: LinkEnds::default(),
            links,
            mtu: 1500,
            ipv6: false,
            seed,
        }
    }

    /// Validates the plan.
    pub(crate) fn check(&self) -> Result<(), TestbedError> {
        let refuse = |text: String| Err(TestbedError::Plan(text));
        if !(2..=HOSTS_MAX).contains(&self.hosts.len()) {
            return refuse(format!(
                "a testbed has 2 to {HOSTS_MAX} hosts, not {}",
                self.hosts.len()
            ));
        }
        let mut names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(format!(
                "two hosts are called '{}'; give each its own name",
                twice[0]
            ));
        }
        if !(MTU_MIN..=MTU_MAX).contains(&self.mtu) {
            return refuse(format!(
                "an MTU of {} is impossible; give {MTU_MIN} to {MTU_MAX}",
                self.mtu
            ));
        }
        for (at, link) in self.links.iter().enumerate() {
            self.check_link(link).map_err(|error| match error {
                TestbedError::Plan(why) if self.links.are_several() => {
                    TestbedError::Plan(format!("link {}: {why}", at + 1))
                }
                other => other,
            })?;
        }
        Ok(())
    }

    fn check_link(&self, link: &LinkPlan) -> Result<(), TestbedError> {
        let refuse = |text: String| Err(TestbedError::Plan(text));
        match link {
            LinkPlan::Kernel(path) => self.check_kernel(path),
            LinkPlan::Emulated(path, FrameMode::Super) => match super_refusal(path) {
                Some(why) => refuse(format!(
                    "super-frames cannot be used here: {why}; leave out 'super'"
                )),
                None => Ok(()),
            },
            LinkPlan::Emulated(..) => Ok(()),
            LinkPlan::Ether(_) if self.mtu > ETHER_MTU_MAX => refuse(format!(
                "an ether carries {ETHER_MTU_MAX} octets in a frame, not {}",
                self.mtu
            )),
            LinkPlan::Ether(_) => Ok(()),
        }
    }

    fn check_kernel(&self, path: &Path) -> Result<(), TestbedError> {
        let refuse = |text: &str| Err(TestbedError::Plan(text.to_owned()));
        if self.hosts.len() != 2 {
            return refuse("a kernel link joins two hosts; leave out 'kernel' for more");
        }
        let unlike = |config: &link::LinkConfig| {
            config.bursts.is_some() || config.reorder_ppm > 0 || config.cut
        };
        if path.all().any(unlike) || !path.schedule.is_empty() {
            return refuse(
                "a kernel link has no loss bursts, reordering or schedule; leave out 'kernel' for those",
            );
        }
        Ok(())
    }
}

impl LinkPlan {
    /// Whether it is the kernel's without rate, delay or faults, so that nothing stays on it.
    pub fn is_plain(&self) -> bool {
        let LinkPlan::Kernel(path) = self else {
            return false;
        };
        path.schedule.is_empty() && path.directions.iter().all(LinkConfig::is_plain)
    }

    /// Whether it carries single frames, as on the wire.
    pub fn carries_single_frames(&self) -> bool {
        match self {
            LinkPlan::Kernel(_) => false,
            LinkPlan::Emulated(_, FrameMode::Single | FrameMode::Sockets) | LinkPlan::Ether(_) => {
                true
            }
            LinkPlan::Emulated(_, FrameMode::Super) => false,
            LinkPlan::Emulated(path, FrameMode::Auto) => super_refusal(path).is_some(),
        }
    }

    /// Its path; None for an Ethernet.
    pub fn path(&self) -> Option<&Path> {
        match self {
            LinkPlan::Kernel(path) | LinkPlan::Emulated(path, _) => Some(path),
            LinkPlan::Ether(_) => None,
        }
    }

    /// What two hosts get in each direction without cross traffic, for packets of `mtu` octets.
    pub fn uncontended(&self, mtu: u32) -> [LinkConfig; 2] {
        match self {
            LinkPlan::Kernel(path) | LinkPlan::Emulated(path, _) => path.directions,
            LinkPlan::Ether(kind) => [kind.uncontended(mtu); 2],
        }
    }

    /// Maximum one-way delay of a packet of `mtu` octets, full queue included.
    pub fn max_one_way_delay(&self, mtu: u32) -> Duration {
        let one = |config: &LinkConfig| {
            let queue = match config.rate_bps {
                Some(rate_bps) => {
                    let bytes = config.queue_bytes.min(QUEUED_MAX_BYTES);
                    Duration::from_secs_f64(bytes as f64 * 8.0 / rate_bps as f64)
                }
                None => Duration::ZERO,
            };
            let ps = config.delay_ps + config.jitter_ps + config.reorder_ps;
            queue + Duration::from_nanos(ps / 1000)
        };
        let longest = match self.path() {
            Some(path) => path.all().map(one).max(),
            None => self.uncontended(mtu).iter().map(one).max(),
        };
        longest.unwrap_or_default()
    }

    /// Whether it has a schedule.
    pub fn has_schedule(&self) -> bool {
        self.path().is_some_and(|path| !path.schedule.is_empty())
    }
}

/// `[kernel,|true,|super,|sockets,]rate=...`: how the link is made, then its path; or `ether10`,
/// `ether3`.
impl FromStr for LinkPlan {
    type Err = link::PathError;

    fn from_str(text: &str) -> Result<LinkPlan, link::PathError> {
        let (first, rest) = text.split_once(',').unwrap_or((text, ""));
        Ok(match first.trim() {
            "ether10" if rest.is_empty() => LinkPlan::Ether(EtherKind::TenMegabit),
            "ether3" if rest.is_empty() => LinkPlan::Ether(EtherKind::ThreeMegabit),
            ether @ ("ether10" | "ether3") => {
                return Err(link::PathError::new(format!(
                    "{ether} is a shared Ethernet and takes no '{rest}'; omit that, or describe a link \
                     instead, such as rate=10mbit,{rest}"
                )));
            }
            "kernel" => LinkPlan::Kernel(rest.parse()?),
            "true" => LinkPlan::Emulated(rest.parse()?, FrameMode::Single),
            "sockets" => LinkPlan::Emulated(rest.parse()?, FrameMode::Sockets),
            "super" => LinkPlan::Emulated(rest.parse()?, FrameMode::Super),
            _ => LinkPlan::Emulated(text.parse()?, FrameMode::Auto),
        })
    }
}

/// Why super-frames cannot be used on a path; None if they can.
fn super_refusal(path: &Path) -> Option<&'static str> {
    if path.all().any(link::LinkConfig::has_faults) {
        return Some("faults affect single frames");
    }
    let slow = |config: &link::LinkConfig| {
        config
            .rate_bps
            .is_some_and(|rate| rate <= SINGLE_FRAME_RATE_MAX_BPS)
    };
    if path.all().any(slow) {
        return Some("at 1 Gbit/s and less a super-frame would hold the link for too long");
    }
    let short = |config: &link::LinkConfig| {
        config.rate_bps.is_some() && config.queue_bytes < SUPER_QUEUE_MIN
    };
    if path.all().any(short) {
        return Some("the queue holds less than 16 super-frames (1 MiB)");
    }
    None
}
