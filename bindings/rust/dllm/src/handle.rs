//! Handles that release themselves, and the shapes of calls that all nouns share.

use crate::error::{Error, Result, check};
use dllm_sys as sys;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::NonNull;

/// A type of the library that is released by a function of its own.
pub(crate) trait Noun {
    /// # Safety
    /// `handle` is the caller's, and is not used afterwards.
    unsafe fn release(handle: *mut Self);
}

macro_rules! nouns {
    ($($name:ident $release:ident)*) => {$(
        impl Noun for sys::$name {
            unsafe fn release(handle: *mut Self) {
                // SAFETY: as this function requires.
                unsafe { sys::$release(handle) }
            }
        }
    )*};
}

nouns! {
    dllm_error dllm_error_release
    dllm_buffer dllm_buffer_release
    dllm_options dllm_options_release
    dllm_task dllm_task_release
    dllm_engine dllm_engine_release
    dllm_tensor dllm_tensor_release
    dllm_source dllm_source_release
    dllm_model dllm_model_release
    dllm_tokenizer dllm_tokenizer_release
    dllm_answer dllm_answer_release
    dllm_dataset dllm_dataset_release
    dllm_loader dllm_loader_release
    dllm_batch dllm_batch_release
    dllm_schedule dllm_schedule_release
    dllm_objective dllm_objective_release
    dllm_trainer dllm_trainer_release
    dllm_decoder dllm_decoder_release
    dllm_checkpoint dllm_checkpoint_release
    dllm_generator dllm_generator_release
    dllm_queue dllm_queue_release
    dllm_lua dllm_lua_release
}

/// Owns one reference to an object of the library. The library keeps parents alive, so any order of drops is right.
pub(crate) struct Handle<T: Noun>(NonNull<T>);

// SAFETY: objects of the library belong to no thread. Functions with `Threads any` may run together, and take `&self`
// here. Those with `owner` or `callback` take `&mut self`, or a turn of the model (turns.rs); tests/threads.rs of the
// crate compares every function with the manifest's word.
unsafe impl<T: Noun> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Noun> Sync for Handle<T> {}

impl<T: Noun> Handle<T> {
    /// Takes ownership of a handle that the library returned; None for NULL.
    ///
    /// # Safety
    /// `handle` is NULL or a reference that belongs to the caller.
    pub(crate) unsafe fn take(handle: *mut T) -> Option<Self> {
        NonNull::new(handle).map(Self)
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Noun> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: this handle is owned, and not used afterwards.
        unsafe { T::release(self.0.as_ptr()) }
    }
}

/// A call whose last parameters are `out` and the error. Loads the library first.
pub(crate) fn make<T: Noun>(f: impl FnOnce(*mut *mut T, *mut sys::dllm_error) -> i32) -> Result<Handle<T>> {
    sys::load()?;
    let mut out = std::ptr::null_mut();
    check(|err| f(&mut out, err))?;
    // SAFETY: the call succeeded, so `out` is a reference of the caller.
    unsafe { Handle::take(out) }.ok_or_else(|| Error::invalid("the library returned no object"))
}

/// What the library writes into a buffer.
pub(crate) struct Buffer(Handle<sys::dllm_buffer>);

impl Buffer {
    pub(crate) fn new() -> Result<Self> {
        sys::load()?;
        // SAFETY: a new buffer is the caller's.
        let made = unsafe { Handle::take(sys::dllm_buffer_new()) };
        made.map(Self).ok_or_else(|| Error::new(crate::Code::ResourceExhausted, "out of memory", ""))
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::dllm_buffer {
        self.0.as_ptr()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes are valid until the buffer is filled again or released, and `self` is borrowed that long.
        unsafe {
            let size = usize::try_from(sys::dllm_buffer_size(self.as_ptr())).unwrap_or(0);
            std::slice::from_raw_parts(sys::dllm_buffer_data(self.as_ptr()).cast(), size)
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// A call whose last parameters are a buffer and the error: its text.
pub(crate) fn text(f: impl FnOnce(*mut sys::dllm_buffer, *mut sys::dllm_error) -> i32) -> Result<String> {
    let buffer = Buffer::new()?;
    check(|err| f(buffer.as_ptr(), err))?;
    Ok(buffer.text())
}

/// A call whose last parameters are one number and the error.
pub(crate) fn number<T: Default>(f: impl FnOnce(*mut T, *mut sys::dllm_error) -> i32) -> Result<T> {
    let mut out = T::default();
    check(|err| f(&mut out, err))?;
    Ok(out)
}

/// A call that fills `(dst, dst_count, out_count, err)`, with room for `room` at first. The length may change between two
/// calls: it tries until it fits.
pub(crate) fn array<T: Clone + Default>(
    room: usize,
    mut f: impl FnMut(*mut T, i64, *mut i64, *mut sys::dllm_error) -> i32,
) -> Result<Vec<T>> {
    let mut values = vec![T::default(); room];
    loop {
        let (room, mut count) = (length(values.len()), 0);
        let filled = check(|err| f(values.as_mut_ptr(), room, &mut count, err));
        match filled {
            Err(Error::Call { code: crate::Code::OutOfRange, .. }) if count > room => {}
            Err(problem) => return Err(problem),
            Ok(()) => {
                values.truncate(usize::try_from(count).unwrap_or(0));
                return Ok(values);
            }
        }
        values.resize(usize::try_from(count).unwrap_or(0), T::default());
    }
}

/// A length as the library counts.
pub(crate) fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// `f` with the text and a byte 0 behind it. Names and keys are short: those need no allocation.
pub(crate) fn with_text<R>(text: &str, f: impl FnOnce(*const c_char) -> Result<R>) -> Result<R> {
    const ROOM: usize = 64;
    let bytes = text.as_bytes();
    if bytes.contains(&0) {
        return Err(Error::invalid(format!("the text {text:?} has a byte 0")));
    }
    if bytes.len() < ROOM {
        let mut ended = [0_u8; ROOM];
        ended[..bytes.len()].copy_from_slice(bytes);
        return f(ended.as_ptr().cast());
    }
    let ended = CString::new(bytes).map_err(|_| Error::invalid("a text has a byte 0"))?;
    f(ended.as_ptr())
}

/// `f` with the path as the library reads it: the bytes of Unix, UTF-8 elsewhere.
pub(crate) fn with_path<R>(path: &Path, f: impl FnOnce(*const c_char) -> Result<R>) -> Result<R> {
    #[cfg(unix)]
    let bytes = Ok::<_, Error>(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()));
    #[cfg(not(unix))]
    let bytes = path.to_str().map(str::as_bytes).ok_or_else(|| Error::invalid("a path is not Unicode"));
    let ended = CString::new(bytes?).map_err(|_| Error::invalid(format!("the path {path:?} has a byte 0")))?;
    f(ended.as_ptr())
}

/// A copy of a text of the library; None for NULL.
///
/// # Safety
/// `text` is NULL or ends with a byte 0.
pub(crate) unsafe fn text_at(text: *const c_char) -> Option<String> {
    // SAFETY: not null, and as this function requires.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
