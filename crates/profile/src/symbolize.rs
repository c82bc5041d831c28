//! From addresses to names: unwinds and symbolizes the stack of a sample.

use crate::image::Image;
use crate::kernel::KernelSymbols;
use crate::maps::{self, Mapping};
use crate::perf_record::{Registers, Sample};
use framehop::{FrameAddress, Module, Unwinder};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::{
    CacheAarch64 as Cache, UnwindRegsAarch64 as UnwindRegisters, UnwinderAarch64 as NativeUnwinder,
};
#[cfg(target_arch = "x86_64")]
use framehop::x86_64::{
    CacheX86_64 as Cache, UnwindRegsX86_64 as UnwindRegisters, UnwinderX86_64 as NativeUnwinder,
};

/// Most frames of a user stack.
const FRAMES_MAX: usize = 128;

/// Name of an unknown function.
pub const UNKNOWN: &str = "?";

/// A function on a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// Its name; the name of its file in brackets where it has none.
    pub name: Rc<str>,
    /// Whether it is in the kernel.
    pub kernel: bool,
}

/// Symbolizes stacks of processes whose mappings were loaded while they were alive.
pub struct Symbolizer {
    symbols: KernelSymbols,
    images: BTreeMap<String, Option<Rc<Image>>>,
    spaces: HashMap<u32, AddressSpace>,
    names: HashMap<String, Rc<str>>,
}

/// The code of a process.
struct AddressSpace {
    modules: Vec<MappedImage>,
    unwinder: NativeUnwinder<Vec<u8>>,
    cache: Cache,
}

struct MappedImage {
    mapping: Mapping,
    image: Option<Rc<Image>>,
    bias: u64,
}

impl Symbolizer {
    /// A symbolizer with the kernel's `symbols`.
    pub fn new(symbols: KernelSymbols) -> Symbolizer {
        Symbolizer {
            symbols,
            images: BTreeMap::new(),
            spaces: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// Loads the mappings of `process`, which must be alive.
    pub fn load_process(&mut self, process: u32) {
        let mut space = AddressSpace {
            modules: Vec::new(),
            unwinder: NativeUnwinder::new(),
            cache: Cache::new(),
        };
        for mapping in maps::of(process) {
            let image = self.image(&mapping.path);
            let bias = image
                .as_ref()
                .and_then(|image| image.bias(mapping.addresses.start, mapping.offset));
            if let (Some(image), Some(bias)) = (&image, bias)
                && let Some(sections) = image.unwind_sections()
            {
                let (name, range) = (mapping.path.clone(), mapping.addresses.clone());
                space
                    .unwinder
                    .add_module(Module::new(name, range, bias, sections));
            }
            space.modules.push(MappedImage {
                mapping,
                image,
                bias: bias.unwrap_or(0),
            });
        }
        self.spaces.insert(process, space);
    }

    fn image(&mut self, path: &str) -> Option<Rc<Image>> {
        if let Some(cached) = self.images.get(path) {
            return cached.clone();
        }
        let image = Image::read(path).map(|mut image| {
            image.add_names(library_names(path, &image));
            Rc::new(image)
        });
        self.images.insert(path.to_owned(), image.clone());
        image
    }

    /// The functions on the stack of a sample, innermost first.
    pub fn frames(&mut self, sample: &Sample) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (depth, &address) in sample.kernel.iter().enumerate() {
            // All but the first are return addresses; the call precedes them.
            let address = address - u64::from(depth > 0);
            let name = self.symbols.name(address).unwrap_or(UNKNOWN).to_owned();
            frames.push(self.frame(&name, true));
        }
        let Some(registers) = sample.registers else {
            return frames;
        };
        let addresses = match self.spaces.get_mut(&sample.process) {
            Some(space) => space.unwind(registers, &sample.stack),
            None => return frames,
        };
        for address in addresses {
            for name in self.user_names(sample.process, address).iter() {
                frames.push(self.frame(name, false));
            }
        }
        frames
    }

    fn user_names(&self, process: u32, address: u64) -> Rc<[String]> {
        let unknown = |name: &str| Rc::from([name.to_owned()]);
        let space = self.spaces.get(&process);
        let found = space.and_then(|space| space.mapped_at(address));
        let Some(placed) = found else {
            return unknown(UNKNOWN);
        };
        let image = placed.image.as_ref();
        let names = image.map(|image| image.names(address.wrapping_sub(placed.bias)));
        match names {
            Some(names) if !names.is_empty() => names,
            _ => {
                let path = placed.mapping.path.as_str();
                let file = path.rsplit('/').next().unwrap_or(path);
                unknown(&format!("[{}]", file.trim_matches(['[', ']'])))
            }
        }
    }

    fn frame(&mut self, name: &str, kernel: bool) -> Frame {
        let name = match self.names.get(name) {
            Some(cached) => Rc::clone(cached),
            None => {
                let made: Rc<str> = Rc::from(name);
                self.names.insert(name.to_owned(), Rc::clone(&made));
                made
            }
        };
        Frame { name, kernel }
    }
}

impl AddressSpace {
    /// Addresses on the user stack, innermost first.
    fn unwind(&mut self, registers: Registers, stack: &[u8]) -> Vec<u64> {
        let mut read = |address: u64| {
            let at = address.checked_sub(registers.stack).ok_or(())?;
            let at = usize::try_from(at).map_err(|_| ())?;
            let word = stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            word.try_into().map(u64::from_ne_bytes).map_err(|_| ())
        };
        let start = native(registers);
        let mut frames =
            self.unwinder
                .iter_frames(registers.instruction, start, &mut self.cache, &mut read);
        let mut addresses = Vec::new();
        while let (true, Ok(Some(frame))) = (addresses.len() < FRAMES_MAX, frames.next()) {
            addresses.push(match frame {
                FrameAddress::InstructionPointer(address) => address,
                FrameAddress::ReturnAddress(address) => address.get() - 1,
            });
        }
        addresses
    }

    fn mapped_at(&self, address: u64) -> Option<&MappedImage> {
        let mut modules = self.modules.iter();
        modules.find(|placed| placed.mapping.addresses.contains(&address))
    }
}

#[cfg(target_arch = "x86_64")]
fn native(registers: Registers) -> UnwindRegisters {
    let Registers {
        instruction,
        stack,
        frame,
        ..
    } = registers;
    UnwindRegisters::new(instruction, stack, frame)
}

#[cfg(target_arch = "aarch64")]
fn native(registers: Registers) -> UnwindRegisters {
    UnwindRegisters::new(registers.link, registers.stack, registers.frame)
}

/// Names of the C library's memory functions, which it selects by CPU at start (IFUNC) and has no
/// symbols for. This process has selected the same.
fn library_names(path: &str, image: &Image) -> Vec<(u64, &'static str)> {
    let chosen = [
        ("memcpy", libc::memcpy as *const () as usize),
        ("memmove", libc::memmove as *const () as usize),
        ("memset", libc::memset as *const () as usize),
        ("memcmp", libc::memcmp as *const () as usize),
    ];
    let maps = maps::of(std::process::id());
    let named = chosen.iter().filter_map(|(name, address)| {
        let address = *address as u64;
        let mapping = maps
            .iter()
            .find(|mapping| mapping.path == path && mapping.addresses.contains(&address))?;
        let bias = image.bias(mapping.addresses.start, mapping.offset)?;
        Some((address.wrapping_sub(bias), *name))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_frames_come_first_and_return_addresses_are_adjusted() {
        let symbols = KernelSymbols::parse("ffff1000 T inner\nffff2000 T outer\n");
        let mut symbolizer = Symbolizer::new(symbols);
        let sample = Sample {
            process: 1,
            weight: 1,
            kernel: vec![0xffff_1000, 0xffff_2001, 0xffff_2000],
            registers: None,
            stack: Vec::new(),
        };
        let frames = symbolizer.frames(&sample);
        let names: Vec<&str> = frames.iter().map(|frame| &*frame.name).collect();
        // The last is the return address just behind `inner`.
        assert_eq!(names, ["inner", "outer", "inner"]);
        assert!(frames.iter().all(|frame| frame.kernel));
    }

    #[test]
    fn libc_memory_functions_are_named() {
        let maps = maps::of(std::process::id());
        let library = maps.iter().find(|mapping| mapping.path.contains("libc.so"));
        let Some(library) = library else {
            eprintln!("SKIPPED: this program has no C library of its own file");
            return;
        };
        let mut symbolizer = Symbolizer::new(KernelSymbols::default());
        symbolizer.load_process(std::process::id());
        let at = libc::memcpy as *const () as usize as u64;
        assert!(library.addresses.contains(&at));
        let names = symbolizer.user_names(std::process::id(), at + 16);
        assert!(names[0].starts_with("mem"), "{names:?}");
    }
}
