//! The offloads of UDP sockets as options: segmentation of sends (UDP_SEGMENT, called GSO) and
//! coalescing of receives (UDP_GRO), each alone.

use crate::contract::OptionHelp;
use crate::options;
use std::collections::BTreeMap;

/// The options.
pub(crate) const OPTIONS: [OptionHelp; 2] = [
    OptionHelp {
        name: "gso",
        values: "on|off",
        meaning: "one send is up to 64 datagrams, which the kernel segments (UDP_SEGMENT)",
    },
    OptionHelp {
        name: "gro",
        values: "on|off",
        meaning: "one receive is the datagrams that the kernel coalesced (UDP_GRO)",
    },
];

/// Which offloads are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UdpOffloads {
    pub(crate) gso: bool,
    pub(crate) gro: bool,
}

impl UdpOffloads {
    /// Those of `own`, a transport's options; both where nothing is said.
    /// The error is a sentence that names the option and its values.
    pub(crate) fn parse(own: &BTreeMap<String, String>) -> Result<UdpOffloads, String> {
        Ok(UdpOffloads {
            gso: options::switch(own, "gso", true)?,
            gro: options::switch(own, "gro", true)?,
        })
    }

    /// Those of valid options, in words.
    pub(crate) fn in_words(own: &BTreeMap<String, String>) -> &'static str {
        let both = UdpOffloads {
            gso: true,
            gro: true,
        };
        match UdpOffloads::parse(own).unwrap_or(both) {
            UdpOffloads {
                gso: true,
                gro: true,
            } => "UDP segmentation and coalescing by the kernel",
            UdpOffloads { gso: true, .. } => "UDP segmentation by the kernel",
            UdpOffloads { gro: true, .. } => "UDP coalescing by the kernel",
            _ => "none",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn each_offload_is_an_option() {
        for (options, gso, gro) in [
            (own(&[]), true, true),
            (own(&[("gso", "off")]), false, true),
            (own(&[("gro", "off")]), true, false),
            (own(&[("gso", "off"), ("gro", "off")]), false, false),
        ] {
            let parsed = UdpOffloads::parse(&options).expect("valid");
            assert_eq!(parsed, UdpOffloads { gso, gro }, "{options:?}");
        }
        let why = UdpOffloads::parse(&own(&[("gro", "maybe")])).expect_err("neither");
        assert_eq!(why, "'maybe' is no value of gro; give on or off");
    }
}
