//! The file of rules: a line `FAMILY HOST PORT TRANSPORT` each; the first that matches decides. Families `pipe` and
//! `unix` are about pipe(2) and socketpair(2), which have neither host nor port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

/// Lines with a rule at most: each connection compares them in turn.
const RULES_MAX: usize = 256;

/// Octets of the longest option, as libtowpath takes them.
const OPTION_LEN_MAX: usize = 256;

/// Devices of providers of XTI, over STREAMS.
const DEVICES: [&str; 3] = ["/dev/tcp", "/dev/xtp", "/dev/sctp_t"];

/// The device of datagram sockets.
const DATAGRAMS: &str = "/dev/udp";

/// The device of pipes, and of socket pairs.
const PIPE: &str = "/dev/pipe";

/// What carries a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// The kernel: the connection is untouched.
    Kernel,
    /// libtowpath, with options `NAME=VALUE`: XTP over UDP, or, where `device` names one, a provider of XTI.
    Diverted(Vec<String>),
    /// A stream over the program's own datagram socket; `deferred`: datagrams wait up to 1 ms for others.
    Datagrams { deferred: bool },
    /// A pipe over STREAMS, of pipe(2) or socketpair(2).
    Pipe,
}

/// What a socket of the Internet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// TCP's byte streams.
    Streams,
    /// UDP's datagrams.
    Datagrams,
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// Connections, by family, network and ports.
    Internet {
        is_v6: Option<bool>,
        network: Option<(IpAddr, u8)>,
        ports: RangeInclusive<u16>,
    },
    /// The descriptors of one call.
    Pair(PairCall),
}

/// A call that makes two descriptors of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairCall {
    /// pipe(2).
    Pipe,
    /// socketpair(2) of family AF_UNIX.
    SocketPair,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The line's number, from 1.
    pub(crate) line: usize,
    subject: Subject,
    /// What carries the connections that match.
    pub(crate) carrier: Carrier,
}

/// A line that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The line's number, from 1.
    pub(crate) line: usize,
    /// What is wrong, and what is allowed.
    pub(crate) reason: String,
}

impl Rule {
    /// Whether the rule is about sockets of a service with the peer `address`, or at it.
    pub(crate) fn matches(&self, service: Service, address: SocketAddr) -> bool {
        let is_service = match self.carrier {
            Carrier::Kernel => true,
            Carrier::Diverted(_) => service == Service::Streams,
            Carrier::Datagrams { .. } => service == Service::Datagrams,
            Carrier::Pipe => false,
        };
        is_service && self.is_for(address)
    }

    fn is_for(&self, address: SocketAddr) -> bool {
        let Subject::Internet {
            is_v6,
            network,
            ports,
        } = &self.subject
        else {
            return false;
        };
        let is_family = is_v6.is_none_or(|is_v6| is_v6 == address.is_ipv6());
        let is_host =
            network.is_none_or(|(network, prefix_len)| is_in(address.ip(), network, prefix_len));
        is_family && is_host && ports.contains(&address.port())
    }

    /// Whether the rule is about the descriptors of a call.
    pub(crate) fn is_about(&self, call: PairCall) -> bool {
        self.subject == Subject::Pair(call)
    }
}

/// Reads the file's text; `#` starts a comment. Errors: all lines that are refused.
pub(crate) fn parse(text: &str) -> Result<Vec<Rule>, Vec<Refusal>> {
    let (mut rules, mut refusals) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let words = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = words.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let line = index + 1;
        match parse_rule(line, &words) {
            Ok(_) if rules.len() == RULES_MAX => {
                let reason = format!("more than {RULES_MAX} rules; use networks and port ranges");
                refusals.push(Refusal { line, reason });
                break;
            }
            Ok(rule) => rules.push(rule),
            Err(reason) => refusals.push(Refusal { line, reason }),
        }
    }
    if refusals.is_empty() {
        Ok(rules)
    } else {
        Err(refusals)
    }
}

fn parse_rule(line: usize, words: &[&str]) -> Result<Rule, String> {
    let [family, host, port, transport] = words else {
        let count = words.len();
        return Err(format!(
            "{count} words; a rule has four: FAMILY HOST PORT TRANSPORT"
        ));
    };
    let is_v6 = match *family {
        "inet" => Some(false),
        "inet6" => Some(true),
        "*" => None,
        "pipe" => return pair_rule(line, PairCall::Pipe, words),
        "unix" => return pair_rule(line, PairCall::SocketPair, words),
        other => {
            return Err(format!(
                "family `{other}`; use inet, inet6 or *, or pipe or unix for pipe(2) and socketpair(2)"
            ));
        }
    };
    let network = parse_network(host)?;
    if let (Some(is_v6), Some((address, _))) = (is_v6, network)
        && is_v6 != address.is_ipv6()
    {
        return Err(format!(
            "host `{host}` is not of family {family}; use the other family or *"
        ));
    }
    Ok(Rule {
        line,
        subject: Subject::Internet {
            is_v6,
            network,
            ports: parse_ports(port)?,
        },
        carrier: parse_carrier(transport)?,
    })
}

/// A rule about the descriptors of a call, whose words are four.
fn pair_rule(line: usize, call: PairCall, words: &[&str]) -> Result<Rule, String> {
    let carrier = match words[1..] {
        ["*", "*", PIPE] => Carrier::Pipe,
        ["*", "*", "kernel"] => Carrier::Kernel,
        ["*", "*", other] => return Err(format!("transport `{other}`; use kernel or {PIPE}")),
        _ => {
            return Err(format!(
                "family {} has neither hosts nor ports; use * for both",
                words[0]
            ));
        }
    };
    Ok(Rule {
        line,
        subject: Subject::Pair(call),
        carrier,
    })
}

fn parse_network(text: &str) -> Result<Option<(IpAddr, u8)>, String> {
    if text == "*" {
        return Ok(None);
    }
    let refused = || {
        format!(
            "host `{text}`; use an address, ADDRESS/PREFIX or *, because programs connect to addresses"
        )
    };
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| refused())?;
    let len_max = if address.is_ipv6() { 128 } else { 32 };
    let prefix_len = prefix.map_or(Ok(len_max), |prefix| {
        prefix.parse::<u8>().map_err(|_| refused())
    })?;
    if prefix_len > len_max {
        return Err(format!("host `{text}`; a prefix is 0 to {len_max} here"));
    }
    Ok(Some((address, prefix_len)))
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    if text == "*" {
        return Ok(1..=u16::MAX);
    }
    let refused = || format!("port `{text}`; use 1 to 65535, FIRST-LAST or *");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first: u16 = first.parse().map_err(|_| refused())?;
    let last: u16 = last.parse().map_err(|_| refused())?;
    if first == 0 || first > last {
        return Err(refused());
    }
    Ok(first..=last)
}

fn parse_carrier(text: &str) -> Result<Carrier, String> {
    let mut parts = text.split(',');
    match (parts.next(), text) {
        (_, "kernel") => return Ok(Carrier::Kernel),
        (Some(device), _) if DEVICES.contains(&device) => return parse_way(device, text),
        (_, DATAGRAMS | "/dev/udp,deferred=on") => {
            return Ok(Carrier::Datagrams { deferred: true });
        }
        (_, "/dev/udp,deferred=off") => return Ok(Carrier::Datagrams { deferred: false }),
        (Some(DATAGRAMS), _) => {
            return Err(format!(
                "transport `{text}`; {DATAGRAMS} has the option deferred=on|off"
            ));
        }
        (Some("xtp"), _) => {}
        _ => {
            let devices = DEVICES.join(", ");
            return Err(format!(
                "transport `{text}`; use kernel, xtp with its options, as in xtp,shortcut=on, or one of {devices}, {DATAGRAMS}"
            ));
        }
    }
    let options: Vec<String> = parts.map(str::to_owned).collect();
    let is_option = |option: &&String| option.contains('=') && option.len() <= OPTION_LEN_MAX;
    match options.iter().find(|option| !is_option(option)) {
        Some(option) => Err(format!("option `{option}`; options are NAME=VALUE")),
        None => Ok(Carrier::Diverted(options)),
    }
}

/// A device, and how it is used: by the library alone, or with the module `sockmod`.
fn parse_way(device: &str, text: &str) -> Result<Carrier, String> {
    let named = format!("device={device}");
    match text[device.len()..].strip_prefix(',') {
        None => Ok(Carrier::Diverted(vec![named])),
        Some(way @ ("way=library" | "way=sockmod")) => {
            Ok(Carrier::Diverted(vec![named, way.to_owned()]))
        }
        Some(_) => Err(format!(
            "transport `{text}`; {device} has the option way=library|sockmod"
        )),
    }
}

fn is_in(address: IpAddr, network: IpAddr, prefix_len: u8) -> bool {
    let (address, network, len) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => (left(address), left(network), prefix_len),
        (IpAddr::V6(address), IpAddr::V6(network)) => (bits(address), bits(network), prefix_len),
        _ => return false,
    };
    let differing = (address ^ network).leading_zeros();
    differing >= u32::from(len)
}

/// The address as the highest bits of a number.
fn left(address: Ipv4Addr) -> u128 {
    u128::from(address.to_bits()) << 96
}

fn bits(address: Ipv6Addr) -> u128 {
    address.to_bits()
}

#[cfg(test)]
mod mutated;

#[cfg(test)]
mod tests {
    use super::*;

    fn carrier(rules: &[Rule], address: &str) -> Option<Carrier> {
        let address = address.parse().expect("an address");
        let rule = rules
            .iter()
            .find(|rule| rule.matches(Service::Streams, address))?;
        Some(rule.carrier.clone())
    }

    #[test]
    fn first_rule_that_matches_decides() {
        let text = "# a comment\n\ninet 10.0.0.1 6379 kernel\ninet 10.0.0.0/8 6379-6381 xtp,shortcut=on # here\n\
                    inet6 fd00::/16 * xtp\n* * 80 xtp\n* * 81 /dev/sctp_t\n";
        let rules = parse(text).expect("all lines are good");
        let on = Some(Carrier::Diverted(vec!["shortcut=on".into()]));
        assert_eq!(carrier(&rules, "10.0.0.1:6379"), Some(Carrier::Kernel));
        assert_eq!(carrier(&rules, "10.255.0.1:6381"), on);
        assert_eq!(carrier(&rules, "10.0.0.2:6382"), None);
        assert_eq!(carrier(&rules, "11.0.0.2:6379"), None);
        assert_eq!(
            carrier(&rules, "[fd00::1]:9"),
            Some(Carrier::Diverted(vec![]))
        );
        assert_eq!(carrier(&rules, "[fe80::1]:9"), None);
        let over_streams = Some(Carrier::Diverted(vec!["device=/dev/sctp_t".into()]));
        assert_eq!(carrier(&rules, "1.2.3.4:81"), over_streams);
        assert_eq!(
            carrier(&rules, "[fe80::1]:80"),
            Some(Carrier::Diverted(vec![]))
        );
    }

    #[test]
    fn rules_of_datagrams_are_not_about_connections() {
        let text =
            "* 10.0.0.1 * kernel\n* * 53 xtp\n* * 53 /dev/udp\n* * 54 /dev/udp,deferred=off\n";
        let rules = parse(text).expect("all are good");
        let found = |service, address: &str| {
            let address = address.parse().expect("an address");
            let mut rules = rules.iter();
            let rule = rules.find(|rule| rule.matches(service, address));
            rule.map(|rule| rule.line)
        };
        assert_eq!(found(Service::Datagrams, "10.0.0.1:53"), Some(1));
        assert_eq!(found(Service::Datagrams, "10.0.0.2:53"), Some(3));
        assert_eq!(found(Service::Streams, "10.0.0.2:53"), Some(2));
        assert_eq!(found(Service::Streams, "10.0.0.2:54"), None);
        assert_eq!(rules[3].carrier, Carrier::Datagrams { deferred: false });
        let refusal = &parse("* * 53 /dev/udp,push=pass").expect_err("it is bad")[0];
        assert!(refusal.reason.contains("deferred=on|off"), "{refusal:?}");
    }

    #[test]
    fn rules_of_pipes_and_of_socket_pairs_are_about_them_alone() {
        let rules =
            parse("* * * xtp\npipe * * /dev/pipe\nunix * * kernel\n").expect("all are good");
        let about = |call| rules.iter().find(|rule| rule.is_about(call));
        let carrier = |call| about(call).map(|rule| rule.carrier.clone());
        assert_eq!(carrier(PairCall::Pipe), Some(Carrier::Pipe));
        assert_eq!(carrier(PairCall::SocketPair), Some(Carrier::Kernel));
        let refused = |text: &str| parse(text).expect_err("it is bad")[0].reason.clone();
        assert!(refused("pipe 1.2.3.4 * /dev/pipe").contains("neither hosts"));
        assert!(refused("unix * * /dev/tcp").contains("`/dev/tcp`"));
    }

    #[test]
    fn refused_lines_are_all_named_with_their_reason() {
        let text = "inet 10.0.0.1 80\nipx * 80 xtp\ninet fd00::1 80 xtp\n* localhost 80 xtp\n* * 0 xtp\n\
                    * * 9-8 xtp\n* 1.2.3.4/33 * xtp\n* * * sctp\n* * * xtp,quick\n* * * /dev/tcp,hold=on\n* * * kernel\n";
        let refusals = parse(text).expect_err("ten are bad");
        let lines: Vec<usize> = refusals.iter().map(|refusal| refusal.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let named = [
            "3 words",
            "`ipx`",
            "`fd00::1`",
            "`localhost`",
            "`0`",
            "`9-8`",
            "0 to 32",
            "`sctp`",
            "`quick`",
            "`/dev/tcp,hold=on`",
        ];
        for (refusal, word) in refusals.iter().zip(named) {
            assert!(refusal.reason.contains(word), "{refusal:?}");
        }
    }

    #[test]
    fn rules_are_bounded() {
        let refusals = parse(&"* * * kernel\n".repeat(300)).expect_err("too many");
        assert_eq!(refusals[0].line, 257);
    }
}
