//! What a testbed is asked to be.

use crate::emulate::ether::EtherKind;
use crate::error::TestbedError;
use link::{LinkConfig, Path};
use std::str::FromStr;
use std::time::Duration;

/// Hosts of one testbed: each takes two threads and a device.
pub const HOSTS_MAX: usize = 64;

/// Octets of the smallest packet IPv6 allows an interface to take (RFC 8200, section 5).
const MTU_MIN: u32 = 1280;

/// Largest IP packet.
const MTU_MAX: u32 = 65_535;

/// Octets a link's queue must hold at least to carry super-frames: 16 of them, else one could
/// fill the queue alone.
const SUPER_QUEUE_MIN: u64 = 16 << 16;

/// Fastest link that carries single frames unless asked otherwise: at 1 Gbit/s a super-frame takes
/// half a millisecond, which would show in every delay.
const SINGLE_FRAME_RATE_MAX_BPS: u64 = 1_000_000_000;

/// Octets that wait before a packet where the queue has no limit of its own: what TCP may have
/// under way at most by default is 4 to 6 MiB.
const QUEUED_MAX_BYTES: u64 = 6 << 20;

/// Octets of data in a frame of a shared ether.
const ETHER_MTU_MAX: u32 = 1500;

/// What a testbed is asked to be.
#[derive(Clone, Debug)]
pub struct TestbedPlan {
    /// The hosts, by name. Those at even places (0, 2, ...) are on one side of the link, the others
    /// on the other; a host talks to those on the other side.
    pub hosts: Vec<HostPlan>,
    /// The link between the sides.
    pub link: LinkPlan,
    /// Octets of the largest packet.
    pub mtu: u32,
    /// Hosts have IPv6 addresses too.
    pub ipv6: bool,
    /// Decides the link's random choices.
    pub seed: u64,
}

/// A host of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// Processors it runs on; empty for all.
    pub cpus: Vec<u32>,
    /// Per cent of one processor its processes get together; None for no limit.
    pub quota: Option<u32>,
}

impl HostPlan {
    /// A host that may use all processors.
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
    /// The kernel's: two virtual interfaces, with a token bucket where there is a rate, and the
    /// kernel's own emulator where there are delays and faults and the kernel has one.
    Kernel(Path),
    /// Emulated in this process.
    Emulated(Path, FrameMode),
    /// A cable that all hosts share, emulated in this process.
    Ether(EtherKind),
}

/// How frames cross an emulated link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameMode {
    /// Super-frames where the link allows them.
    #[default]
    Auto,
    /// Each as it would be on a wire.
    Single,
    /// Many segments at once, as the kernel hands them to an interface that cuts them up itself.
    Super,
    /// Each as it would be on a wire, by packet sockets instead of TAP devices.
    Sockets,
}

impl TestbedPlan {
    /// Two hosts, `a` and `b`, over `link`, with an MTU of 1500.
    pub fn pair(link: LinkPlan, seed: u64) -> TestbedPlan {
        TestbedPlan {
            hosts: vec![HostPlan::new("a"), HostPlan::new("b")],
            link,
            mtu: 1500,
            ipv6: false,
            seed,
        }
    }

    /// Refuses what cannot be.
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
        match &self.link {
            LinkPlan::Kernel(path) => self.check_kernel(path),
            LinkPlan::Emulated(path, FrameMode::Super) => match super_refusal(path) {
                Some(why) => refuse(format!(
                    "super-frames cannot be had here: {why}; leave out 'super'"
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
                "a kernel link has no runs of losses, reordering or schedule; leave out 'kernel' for those",
            );
        }
        Ok(())
    }
}

impl LinkPlan {
    /// Whether frames cross it as they would on a wire.
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

    /// The path it is told to be; None of an ether.
    pub fn path(&self) -> Option<&Path> {
        match self {
            LinkPlan::Kernel(path) | LinkPlan::Emulated(path, _) => Some(path),
            LinkPlan::Ether(_) => None,
        }
    }

    /// What two hosts with nobody else about get in each direction, for packets of `mtu` octets.
    pub fn uncontended(&self, mtu: u32) -> [LinkConfig; 2] {
        match self {
            LinkPlan::Kernel(path) | LinkPlan::Emulated(path, _) => path.directions,
            LinkPlan::Ether(kind) => [kind.uncontended(mtu); 2],
        }
    }

    /// The longest that a packet of `mtu` octets may be on its way, a full queue included.
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

    /// Whether it changes with time.
    pub fn has_schedule(&self) -> bool {
        self.path().is_some_and(|path| !path.schedule.is_empty())
    }
}

/// `[kernel,|true,|super,|sockets,]rate=...`, the path in words and in front of it how it is made; or
/// `ether10`, `ether3`.
impl FromStr for LinkPlan {
    type Err = link::PathError;

    fn from_str(text: &str) -> Result<LinkPlan, link::PathError> {
        let (first, rest) = text.split_once(',').unwrap_or((text, ""));
        Ok(match first.trim() {
            "ether10" if rest.is_empty() => LinkPlan::Ether(EtherKind::TenMegabit),
            "ether3" if rest.is_empty() => LinkPlan::Ether(EtherKind::ThreeMegabit),
            "kernel" => LinkPlan::Kernel(rest.parse()?),
            "true" => LinkPlan::Emulated(rest.parse()?, FrameMode::Single),
            "sockets" => LinkPlan::Emulated(rest.parse()?, FrameMode::Sockets),
            "super" => LinkPlan::Emulated(rest.parse()?, FrameMode::Super),
            _ => LinkPlan::Emulated(text.parse()?, FrameMode::Auto),
        })
    }
}

/// Why frames of a path cannot be handled many at once; None when they can.
fn super_refusal(path: &Path) -> Option<&'static str> {
    if path.all().any(link::LinkConfig::has_faults) {
        return Some("faults befall single frames");
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
