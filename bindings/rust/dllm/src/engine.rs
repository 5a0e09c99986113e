//! The devices and threads that compute.

use crate::error::{Result, check};
use crate::handle::{Handle, make, number, text, text_at, with_path, with_text};
use crate::options::Options;
use crate::task::{self, Task};
use dllm_sys as sys;
use std::path::Path;

/// Owns threads and memory; models live on one. Most programs create one and keep it.
pub struct Engine {
    pub(crate) handle: Handle<sys::dllm_engine>,
}

impl Engine {
    /// An engine; options of kind "engine": threads, memory_limit, arithmetic, ...
    ///
    /// # Errors
    /// A kind that this build does not have; no plugin, or no device.
    pub fn new(options: &Options) -> Result<Self> {
        // SAFETY: the options are alive or NULL.
        let handle = options.with("engine", |opts| make(|out, err| unsafe { sys::dllm_engine_new(opts, out, err) }))?;
        Ok(Self { handle })
    }

    /// The names of its devices, such as "cpu:0".
    pub fn devices(&self) -> Vec<String> {
        // SAFETY: the handle is alive; the names are valid until it is released, and copied here.
        let count = unsafe { sys::dllm_engine_device_count(self.handle.as_ptr()) };
        let name = |index| unsafe { text_at(sys::dllm_engine_device_name(self.handle.as_ptr(), index)) };
        (0..count).filter_map(name).collect()
    }

    /// Kind, devices, threads, arithmetic, memory, ... as a JSON object.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn describe(&self) -> Result<String> {
        // SAFETY: the handle is alive.
        text(|out, err| unsafe { sys::dllm_engine_describe(self.handle.as_ptr(), out, err) })
    }

    /// A number: "threads" "compiles" "memory_used" "memory_peak" "memory_limit" ...
    ///
    /// # Errors
    /// An unknown key.
    pub fn get(&self, key: &str) -> Result<i64> {
        // SAFETY: the handle is alive, `key` ends with a byte 0.
        with_text(key, |key| number(|out, err| unsafe { sys::dllm_engine_i64(self.handle.as_ptr(), key, out, err) }))
    }

    /// Changes "threads" or "memory_limit".
    ///
    /// # Errors
    /// An unknown key, a value out of range, a key that is fixed when the engine is created.
    pub fn set(&mut self, key: &str, value: i64) -> Result<()> {
        // SAFETY: the handle is alive and borrowed alone, `key` ends with a byte 0.
        with_text(key, |key| check(|err| unsafe { sys::dllm_engine_set_i64(self.handle.as_ptr(), key, value, err) }))
    }

    /// Estimates what a job on a model needs, without loading its weights; options of kind "plan".
    ///
    /// # Errors
    /// No such model, a damaged file, a format this engine cannot write, cancelled.
    pub fn plan(&self, path: impl AsRef<Path>, options: &Options, task: Option<&Task>) -> Result<String> {
        let (engine, task) = (self.handle.as_ptr(), task::pointer(task));
        options.with("plan", |opts| {
            // SAFETY: handles are alive or NULL, the path ends with a byte 0.
            with_path(path.as_ref(), |path| {
                text(|out, err| unsafe { sys::dllm_engine_plan(engine, path, opts, task, out, err) })
            })
        })
    }

    /// Frees memory that is not in use.
    ///
    /// # Errors
    /// None on the CPU.
    pub fn trim(&self) -> Result<()> {
        // SAFETY: the handle is alive.
        check(|err| unsafe { sys::dllm_engine_trim(self.handle.as_ptr(), err) })
    }
}
