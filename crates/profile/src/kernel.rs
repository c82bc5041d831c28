//! Symbols of the kernel.

use crate::error::ProfileError;
use std::fs;

/// The kernel's functions by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// By ascending address.
    symbols: Vec<(u64, String)>,
}

impl KernelSymbols {
    /// Reads the symbols of the running kernel.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Symbols`] when this user may not read them.
    pub fn load() -> Result<KernelSymbols, ProfileError> {
        let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let symbols = KernelSymbols::parse(&text);
        if symbols.symbols.is_empty() {
            return Err(ProfileError::Symbols);
        }
        Ok(symbols)
    }

    /// Parses lines `address type name [module]`; symbols with a hidden address are omitted.
    pub fn parse(text: &str) -> KernelSymbols {
        let one = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            let name = words.next()?;
            let is_code = matches!(kind, "t" | "T" | "w" | "W");
            (is_code && address != 0).then(|| (address, name.to_owned()))
        };
        let mut symbols: Vec<(u64, String)> = text.lines().filter_map(one).collect();
        symbols.sort_by_key(|(address, _)| *address);
        KernelSymbols { symbols }
    }

    /// The function that contains `address`.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|(at, _)| *at <= address);
        let (_, name) = self.symbols.get(after.checked_sub(1)?)?;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_maps_to_preceding_kernel_symbol() {
        let text = "ffff2000 T tcp_sendmsg\nffff1000 t ip_output\nffff3000 d table\n\
                    ffff4000 t nf_hook\t[nf]\n0 T hidden\nnonsense\n";
        let symbols = KernelSymbols::parse(text);
        assert_eq!(symbols.name(0xffff_0fff), None);
        assert_eq!(symbols.name(0xffff_1000), Some("ip_output"));
        assert_eq!(symbols.name(0xffff_2abc), Some("tcp_sendmsg"));
        assert_eq!(symbols.name(0xffff_3fff), Some("tcp_sendmsg"));
        assert_eq!(symbols.name(0xffff_4001), Some("nf_hook"));
    }
}
