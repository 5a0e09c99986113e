//! Raw declarations of libdllm: opaque types, constants, functions. `include/dllm/<noun>.h` has the contract of each
//! function. The crate `dllm` is the safe layer.
//!
//! With feature `load` (the default) nothing is linked: [`load`] opens the library, and each function goes through a
//! table. A function that is called before opens it too, and panics where that fails. With feature `link` the functions
//! are those of the linked library, and [`load`] compares its ABI version.
//!
//! Safety, for all functions: handles are alive and of the declared noun, pointers and counts are as the header says, and
//! calls with `Threads owner` do not run together on one object ([`FUNCTIONS`] has the word of each).
#![allow(non_camel_case_types)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]

#[macro_use]
mod macros;
mod error;
#[cfg(not(feature = "link"))]
mod load;

use std::ffi::{c_char, c_void};

pub use error::LoadError;
#[cfg(not(feature = "link"))]
pub use load::{load, load_from};

#[cfg(not(any(feature = "load", feature = "link")))]
compile_error!("dllm-sys needs feature `load` or feature `link`");

/// What a call that can fail returns: `DLLM_OK` or another status constant.
pub type dllm_status = i32;

/// The callback of events. It must not unwind.
pub type dllm_event_fn = Option<unsafe extern "C" fn(*const dllm_event, *mut c_void) -> i32>;
/// A hook of the host (`dllm/host.h`): memory of a size and an alignment.
pub type dllm_allocate_fn = Option<unsafe extern "C" fn(i64, i64, *mut c_void) -> *mut c_void>;
/// A hook of the host: frees memory of `dllm_allocate_fn`.
pub type dllm_free_fn = Option<unsafe extern "C" fn(*mut c_void, i64, *mut c_void)>;
/// One part of a job of the library.
pub type dllm_chunk_fn = Option<unsafe extern "C" fn(*mut c_void, i64)>;
/// A hook of the host: runs all parts of a job.
pub type dllm_parallel_fn = Option<unsafe extern "C" fn(i64, dllm_chunk_fn, *mut c_void, *mut c_void)>;
/// A hook of the host: one line of the log.
pub type dllm_log_fn = Option<unsafe extern "C" fn(i32, *const c_char, *mut c_void)>;

/// On which threads a function may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Any thread, also while other calls use the object.
    Any,
    /// One such call at a time per object.
    Owner,
    /// As `Owner`, and allowed inside a callback.
    Callback,
}

/// A line of [`FUNCTIONS`].
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The symbol.
    pub name: &'static str,
    /// The word after "Threads" in its header.
    pub threads: Threads,
}

include!("raw.rs");

/// Compares the ABI version of the linked library.
///
/// # Errors
/// [`LoadError`] when it differs from [`ABI`].
#[cfg(feature = "link")]
pub fn load() -> Result<(), LoadError> {
    // SAFETY: no arguments, no state.
    let found = unsafe { dllm_abi_version() };
    if found == ABI { Ok(()) } else { Err(LoadError::abi("the linked libdllm", found)) }
}
