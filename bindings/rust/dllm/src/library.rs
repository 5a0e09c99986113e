//! The library itself: where it is, its version, what it has, its log.

use crate::error::Result;
use crate::handle::{Buffer, text, text_at, with_text};
use dllm_sys as sys;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// Loads libdllm. Calls that return a [`Result`] do so by themselves; this is for programs that want to know early.
///
/// It looks at `DLLM_LIBRARY` alone when that is set, else in the folder of the program (and `../lib` from there), in
/// `build/release/lib` of the checkout that this crate lies in, where the system keeps its libraries. With feature
/// `link` it compares the version of the linked library.
///
/// # Errors
/// [`Error::Load`](crate::Error::Load) names what was tried. A failure is final for the process.
pub fn load() -> Result<()> {
    Ok(sys::load()?)
}

/// Loads libdllm from a path. It has to be the first call.
///
/// # Errors
/// [`Error::Load`](crate::Error::Load), also when it was loaded before.
#[cfg(not(feature = "link"))]
pub fn load_from(path: impl AsRef<std::path::Path>) -> Result<()> {
    Ok(sys::load_from(path.as_ref())?)
}

/// The ABI version of the library.
///
/// # Errors
/// As [`load`].
pub fn abi_version() -> Result<i32> {
    load()?;
    // SAFETY: no arguments.
    Ok(unsafe { sys::dllm_abi_version() })
}

/// The semantic version of the library, such as "0.3.1".
///
/// # Errors
/// As [`load`].
pub fn version() -> Result<String> {
    load()?;
    // SAFETY: the text is valid for the life of the process.
    Ok(unsafe { text_at(sys::dllm_version()) }.unwrap_or_default())
}

/// How the library was built, as JSON: compiler, simd, lua, pjrt, openmp, git.
///
/// # Errors
/// As [`load`].
pub fn build_info() -> Result<String> {
    load()?;
    // SAFETY: the text is valid for the life of the process.
    Ok(unsafe { text_at(sys::dllm_build_info()) }.unwrap_or_default())
}

/// Whether this build has a feature: "lua", "pjrt", "openmp", "bf16".
///
/// # Errors
/// As [`load`].
pub fn has_feature(name: &str) -> Result<bool> {
    load()?;
    // SAFETY: `name` ends with a byte 0.
    with_text(name, |name| Ok(unsafe { sys::dllm_has_feature(name) } != 0))
}

/// The names of a table of the library: engine family objective optimizer options policy schedule sink.
///
/// # Errors
/// As [`load`].
pub fn names(kind: &str) -> Result<Vec<String>> {
    load()?;
    // SAFETY: `kind` ends with a byte 0; the texts are valid for the life of the process.
    with_text(kind, |kind| {
        Ok((0..).map_while(|index| unsafe { text_at(sys::dllm_registry_name(kind, index)) }).collect())
    })
}

/// PJRT plugins that are found, as JSON: one object per platform.
///
/// # Errors
/// [`Code::Unimplemented`](crate::Code::Unimplemented) in a build without the pjrt engine.
pub fn plugins() -> Result<String> {
    // SAFETY: outs are alive.
    text(|out, err| unsafe { sys::dllm_plugin_list(out, err) })
}

/// Loads a PJRT plugin (a path, or the name of a platform) and describes it as JSON.
///
/// # Errors
/// Not found, no plugin, too old, or a build without the pjrt engine.
pub fn describe_plugin(plugin: &str) -> Result<String> {
    // SAFETY: `plugin` ends with a byte 0.
    with_text(plugin, |plugin| text(|out, err| unsafe { sys::dllm_plugin_describe(plugin, out, err) }))
}

/// Levels of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// For people who change dllm.
    Debug = sys::DLLM_LOG_DEBUG as isize,
    /// What happens.
    Info = sys::DLLM_LOG_INFO as isize,
    /// What is unusual.
    Warn = sys::DLLM_LOG_WARN as isize,
    /// What failed where no call could return it.
    Error = sys::DLLM_LOG_ERROR as isize,
}

impl Level {
    fn of(number: i32) -> Self {
        match number {
            sys::DLLM_LOG_DEBUG => Self::Debug,
            sys::DLLM_LOG_INFO => Self::Info,
            sys::DLLM_LOG_WARN => Self::Warn,
            _ => Self::Error,
        }
    }
}

/// Where lines of the log go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sink {
    /// Nowhere.
    None = sys::DLLM_SINK_NONE as isize,
    /// Standard error.
    Stderr = sys::DLLM_SINK_STDERR as isize,
    /// A queue of the newest 1000 lines, for [`log_lines`].
    Queue = sys::DLLM_SINK_QUEUE as isize,
}

type Hook = Arc<dyn Fn(Level, &str) + Send + Sync>;
static HOOK: Mutex<Option<Hook>> = Mutex::new(None);

/// Sends the log of the process, from a level on, to a sink. It removes the function of [`log_to`].
///
/// # Errors
/// As [`load`].
pub fn log_config(min_level: Level, sink: Sink) -> Result<()> {
    load()?;
    // SAFETY: any numbers are allowed. When this returns, no hook is called.
    unsafe { sys::dllm_log_config(min_level as i32, sink as i32) };
    replace_hook(None);
    Ok(())
}

/// Sends the log of the process, from a level on, to a function: any thread may call it, one line at a time. It must not
/// call this crate. A panic in it is dropped.
///
/// # Errors
/// As [`load`].
pub fn log_to(min_level: Level, hook: impl Fn(Level, &str) + Send + Sync + 'static) -> Result<()> {
    load()?;
    replace_hook(Some(Arc::new(hook)));
    // SAFETY: the function is valid for the life of the process and does not unwind.
    unsafe { sys::dllm_log_hook(min_level as i32, Some(forward_line), std::ptr::null_mut()) };
    Ok(())
}

fn replace_hook(hook: Option<Hook>) {
    let old = std::mem::replace(&mut *HOOK.lock().unwrap_or_else(PoisonError::into_inner), hook);
    drop(old); // without the lock: its drop is code of the host
}

unsafe extern "C" fn forward_line(level: i32, line: *const c_char, _: *mut c_void) {
    let hook = HOOK.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(hook) = hook {
        // SAFETY: the line ends with a byte 0 and is valid until this function returns.
        let line = unsafe { CStr::from_ptr(line) }.to_string_lossy();
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hook(Level::of(level), &line)));
    }
}

/// Removes all lines from the queue of [`Sink::Queue`], oldest first.
///
/// # Errors
/// As [`load`].
pub fn log_lines() -> Result<Vec<(Level, String)>> {
    let (line, mut level, mut lines) = (Buffer::new()?, 0, Vec::new());
    // SAFETY: the buffer and `level` are alive.
    while unsafe { sys::dllm_log_next(line.as_ptr(), &mut level) } != 0 {
        lines.push((Level::of(level), line.text()));
    }
    Ok(lines)
}
