//! A program or library: its symbols and unwind information.

use framehop::ExplicitModuleSectionInfo;
use gimli::{EndianRcSlice, RunTimeEndian};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::rc::Rc;

/// Largest file that is read, octets; programs with debug information are smaller.
const FILE_MAX: u64 = 2 << 30;

/// Assumed length of functions that have no symbol size.
const LENGTH_MAX: u64 = 4096;

type Slice = EndianRcSlice<RunTimeEndian>;

/// An object file. Its addresses are those of the file, without load bias.
pub struct Image {
    data: Vec<u8>,
    /// Address, length and name, by address.
    symbols: Vec<(u64, u64, String)>,
    debug: Option<addr2line::Context<Slice>>,
    cached_names: RefCell<HashMap<u64, Rc<[String]>>>,
}

impl Image {
    /// Reads the file at `path`; None when it is not an object file.
    pub fn read(path: &str) -> Option<Image> {
        if fs::metadata(path).ok()?.len() > FILE_MAX {
            return None;
        }
        let data = fs::read(path).ok()?;
        let file = object::File::parse(&data[..]).ok()?;
        let (symbols, debug) = (symbols(&file), debug(&file));
        Some(Image {
            data,
            symbols,
            debug,
            cached_names: RefCell::default(),
        })
    }

    /// Adds names of functions without symbols, by address.
    pub fn add_names(&mut self, names: impl IntoIterator<Item = (u64, &'static str)>) {
        let named = names.into_iter();
        self.symbols
            .extend(named.map(|(at, name)| (at, LENGTH_MAX, name.to_owned())));
        self.symbols.sort();
    }

    /// The load bias when a process has mapped `offset` at `start`.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let file = object::File::parse(&self.data[..]).ok()?;
        // A segment is mapped from the start of its first page, which may hold the end of the
        // previous segment; only one of them is code.
        let mut segments = file.segments().filter(is_code);
        let holds = segments.find(|segment| {
            let (at, len) = segment.file_range();
            let page = segment.align().max(1);
            (at / page * page..at.saturating_add(len)).contains(&offset)
        })?;
        let begins = holds.file_range().0.wrapping_sub(offset);
        Some(start.wrapping_add(begins).wrapping_sub(holds.address()))
    }

    /// Its sections for stack unwinding.
    pub fn unwind_sections(&self) -> Option<ExplicitModuleSectionInfo<Vec<u8>>> {
        let file = object::File::parse(&self.data[..]).ok()?;
        let place = |name: &str| -> Option<(Range<u64>, Vec<u8>)> {
            let section = file.section_by_name(name)?;
            let range = section.address()..section.address() + section.size();
            Some((range, section.data().ok()?.to_vec()))
        };
        let (text, frames, header) = (place(".text"), place(".eh_frame"), place(".eh_frame_hdr"));
        Some(ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: text.as_ref().map(|(range, _)| range.clone()),
            text: text.map(|(_, data)| data),
            got_svma: place(".got").map(|(range, _)| range),
            eh_frame_svma: frames.as_ref().map(|(range, _)| range.clone()),
            eh_frame: frames.map(|(_, data)| data),
            eh_frame_hdr_svma: header.as_ref().map(|(range, _)| range.clone()),
            eh_frame_hdr: header.map(|(_, data)| data),
            ..ExplicitModuleSectionInfo::default()
        })
    }

    /// The functions at `address`, innermost first: several where functions were inlined.
    pub fn names(&self, address: u64) -> Rc<[String]> {
        if let Some(names) = self.cached_names.borrow().get(&address) {
            return Rc::clone(names);
        }
        let names: Rc<[String]> = self.resolve(address).into();
        self.cached_names
            .borrow_mut()
            .insert(address, Rc::clone(&names));
        names
    }

    fn resolve(&self, address: u64) -> Vec<String> {
        let mut names = self.names_from_debug_info(address);
        // The outermost function is last. Its symbol is preferred, as debug information may lack
        // the path of a name.
        if let Some(symbol) = self.symbol(address) {
            names.pop();
            names.push(plain(symbol));
        }
        names
    }

    fn names_from_debug_info(&self, address: u64) -> Vec<String> {
        let Some(debug) = &self.debug else {
            return Vec::new();
        };
        let mut names = Vec::new();
        // Split debug information is not loaded, and broken information names nothing.
        if let Ok(mut frames) = debug.find_frames(address).skip_all_loads() {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().and_then(|name| {
                    let raw = name.raw_name().ok()?;
                    Some(plain(&raw))
                });
                names.extend(name);
            }
        }
        names
    }

    fn symbol(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|(at, ..)| *at <= address);
        let before = self.symbols.get(..after)?.iter().rev().take(8);
        let mut holding = before.filter(|(at, len, _)| address < at.saturating_add(*len));
        holding.next().map(|(_, _, name)| name.as_str())
    }
}

fn is_code(segment: &object::Segment<'_, '_>) -> bool {
    match segment.flags() {
        object::SegmentFlags::Elf { p_flags, .. } => p_flags.0 & object::elf::PF_X.0 != 0,
        _ => false,
    }
}

/// A demangled name, without the compiler's hash.
fn plain(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

fn symbols(file: &object::File<'_>) -> Vec<(u64, u64, String)> {
    let all = file.symbols().chain(file.dynamic_symbols());
    let code = all.filter(|symbol| symbol.kind() == object::SymbolKind::Text);
    let named = code.filter_map(|symbol| {
        let name = symbol.name().ok()?;
        let placed = symbol.address() != 0 && symbol.size() != 0;
        placed.then(|| (symbol.address(), symbol.size(), name.to_owned()))
    });
    let mut symbols: Vec<(u64, u64, String)> = named.collect();
    symbols.sort();
    symbols.dedup();
    symbols
}

fn debug(file: &object::File<'_>) -> Option<addr2line::Context<Slice>> {
    let endian = if file.is_little_endian() {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    };
    let load = |id: gimli::SectionId| -> Result<Slice, gimli::Error> {
        let section = file.section_by_name(id.name());
        // Compressed sections are not unpacked; then only symbols are used.
        let data = section.and_then(|section| section.uncompressed_data().ok());
        Ok(Slice::new(data.unwrap_or_default().into(), endian))
    };
    let dwarf = gimli::Dwarf::load(load).ok()?;
    addr2line::Context::from_dwarf(dwarf).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn landmark() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn own_functions_are_symbolized() {
        assert_eq!(landmark(), 7);
        let own = std::env::current_exe().expect("a path");
        let path = own.to_str().expect("UTF-8");
        let image = Image::read(path).expect("an image");
        let at = landmark as *const () as usize as u64;
        let maps = crate::maps::of(std::process::id());
        let mapping = maps
            .iter()
            .find(|mapping| mapping.addresses.contains(&at))
            .expect("it is mapped");
        let bias = image
            .bias(mapping.addresses.start, mapping.offset)
            .expect("a bias");
        let names = image.names(at - bias);
        assert!(
            names.iter().any(|name| name.ends_with("landmark")),
            "{names:?}"
        );
        assert!(
            image
                .unwind_sections()
                .is_some_and(|found| found.eh_frame.is_some())
        );
    }

    #[test]
    fn non_object_file_is_rejected() {
        assert!(Image::read("/proc/self/maps").is_none());
        assert!(Image::read("/nowhere").is_none());
    }
}
