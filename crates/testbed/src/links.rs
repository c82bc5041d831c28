//! The links of a testbed: one, or several side by side.

use crate::error::LinksError;
use crate::plan::LinkPlan;
use std::ops::Deref;
use std::str::FromStr;

/// Links side by side at most. The kernel's path manager of MPTCP announces 8 addresses
/// (MPTCP_PM_ADDR_MAX): an IPv4 and an IPv6 address of each link but the first, which carries the
/// first subflow, are 6.
pub const LINKS_MAX: usize = 4;

/// One link or several side by side, from 1 to [`LINKS_MAX`]. Each joins all hosts, with an
/// interface and a subnet of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links(Vec<LinkPlan>);

impl Links {
    /// Whether there are several.
    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// Replaces the plan of link number `link`, from 0.
    pub(crate) fn replace(&mut self, link: usize, plan: LinkPlan) {
        self.0[link] = plan;
    }
}

impl Deref for Links {
    type Target = [LinkPlan];

    fn deref(&self) -> &[LinkPlan] {
        &self.0
    }
}

impl From<LinkPlan> for Links {
    fn from(link: LinkPlan) -> Links {
        Links(vec![link])
    }
}

/// `LINK[+LINK...]`, each as for [`LinkPlan`].
impl FromStr for Links {
    type Err = LinksError;

    fn from_str(text: &str) -> Result<Links, LinksError> {
        let words: Vec<&str> = text.split('+').collect();
        if words.len() > LINKS_MAX {
            return Err(LinksError::TooMany(words.len()));
        }
        let mut links = Vec::new();
        for (at, word) in words.iter().enumerate() {
            // A single link may be empty: it has no limits.
            if words.len() > 1 && word.trim().is_empty() {
                return Err(LinksError::Empty(at + 1));
            }
            let link = word.trim().parse();
            links.push(link.map_err(|error| match words.len() {
                1 => LinksError::Link(error),
                _ => LinksError::Numbered(at + 1, error),
            })?);
        }
        Ok(Links(links))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Links, String> {
        text.parse().map_err(|error: LinksError| error.to_string())
    }

    #[test]
    fn links_side_by_side_parse_in_order() {
        let links = parsed("rate=20mbit,delay=5ms/1ms+ether10 + kernel").expect("three links");
        assert_eq!(links.len(), 3);
        assert!(links.are_several());
        assert_eq!(Ok(links[0].clone()), "rate=20mbit,delay=5ms/1ms".parse());
        assert!(matches!(links[1], LinkPlan::Ether(_)));
        assert!(matches!(links[2], LinkPlan::Kernel(_)));
        for alone in ["", "true", "ether3", "rate=1mbit;2s:cut;3s:up"] {
            assert!(!parsed(alone).expect("a link").are_several(), "{alone}");
        }
    }

    #[test]
    fn links_error_names_link_and_remedy() {
        for text in ["rate=1mbit+", "rate=1mbit+ +delay=1ms"] {
            let why = parsed(text).expect_err(text);
            assert!(
                why.contains("link 2 is empty") && why.contains("give"),
                "{why}"
            );
        }
        assert!(
            parsed("+")
                .expect_err("nothing")
                .contains("link 1 is empty")
        );
        let why = parsed("delay=0+speed=3").expect_err("an unknown key");
        assert!(
            why.starts_with("link 2: ") && why.contains("speed"),
            "{why}"
        );
        let why = parsed("speed=3").expect_err("an unknown key");
        assert!(!why.contains("link 1"), "{why}");
        let why = parsed("delay=0+delay=0+delay=0+delay=0+delay=0").expect_err("five");
        assert!(
            why.contains("5 links") && why.contains("4 at most"),
            "{why}"
        );
    }
}
