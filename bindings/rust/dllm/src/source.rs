//! Files held in memory, to load models and tokenizers from.

use crate::error::{Result, check};
use crate::handle::{Handle, length, make, with_text};
use dllm_sys as sys;

/// Takes the place of a folder: files by their names in it.
pub struct Source {
    pub(crate) handle: Handle<sys::dllm_source>,
}

impl Source {
    /// An empty source.
    ///
    /// # Errors
    /// The library cannot be loaded.
    pub fn new() -> Result<Self> {
        // SAFETY: outs are alive.
        Ok(Self { handle: make(|out, err| unsafe { sys::dllm_source_new(out, err) })? })
    }

    /// Copies a file in, under the name it would have in the folder.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add(&mut self, name: &str, data: &[u8]) -> Result<()> {
        self.put(name, data, 0)
    }

    /// Adds a file that is part of the program (`include_bytes!`), without a copy.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_static(&mut self, name: &str, data: &'static [u8]) -> Result<()> {
        self.put(name, data, 1)
    }

    /// `in_place` 1: `data` is valid for the life of the process.
    fn put(&mut self, name: &str, data: &[u8], in_place: i32) -> Result<()> {
        let (source, start, size) = (self.handle.as_ptr(), data.as_ptr().cast(), length(data.len()));
        with_text(name, |name| {
            // SAFETY: the handle is borrowed alone, `start` has `size` bytes; they are copied unless they are static.
            check(|err| unsafe { sys::dllm_source_add(source, name, start, size, in_place, err) })
        })
    }
}
