//! Events, what callbacks return, and the function that calls them from C.

use crate::checkpoint;
use crate::error::{Error, Result, check};
use crate::handle::{number, text, with_text};
use crate::options::Options;
use crate::turns::InCallback;
use dllm_sys as sys;
use std::any::Any;
use std::error::Error as StdError;
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Kinds of event; `include/dllm/event.h` lists the keys of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// Work of unknown kind goes on.
    Progress,
    /// A training step is complete.
    TrainStep,
    /// An evaluation is complete.
    Eval,
    /// A step of one slot of a decoder is complete.
    DecodeStep,
    /// A block of a slot is decided.
    Block,
    /// A checkpoint is on disk.
    Checkpoint,
    /// A step of one request of a generator is complete.
    Text,
    /// A request of a generator is over.
    Answer,
    /// A kind that this crate has no name for.
    Other(i32),
}

/// What a callback looks at. It lives until the callback returns, and so do the arrays read from it; it stays on the
/// thread of the callback:
///
/// ```compile_fail
/// fn needs_sync<T: Sync>() {}
/// needs_sync::<dllm::Event<'static>>();
/// ```
pub struct Event<'call> {
    pointer: NonNull<sys::dllm_event>,
    running: Option<&'call RunningTrainer>,
    thread: PhantomData<*const ()>,
}

impl Event<'_> {
    /// Its kind.
    pub fn kind(&self) -> EventKind {
        // SAFETY: an event is alive while its callback runs.
        match unsafe { sys::dllm_event_kind(self.pointer.as_ptr()) } {
            sys::DLLM_EVENT_PROGRESS => EventKind::Progress,
            sys::DLLM_EVENT_TRAIN_STEP => EventKind::TrainStep,
            sys::DLLM_EVENT_EVAL => EventKind::Eval,
            sys::DLLM_EVENT_DECODE_STEP => EventKind::DecodeStep,
            sys::DLLM_EVENT_BLOCK => EventKind::Block,
            sys::DLLM_EVENT_CHECKPOINT => EventKind::Checkpoint,
            sys::DLLM_EVENT_TEXT => EventKind::Text,
            sys::DLLM_EVENT_ANSWER => EventKind::Answer,
            other => EventKind::Other(other),
        }
    }

    /// A whole number: "step", "open", "slot", ...
    ///
    /// # Errors
    /// The event has no such key, the hint names the nearest; it holds something else.
    pub fn i64(&self, key: &str) -> Result<i64> {
        // SAFETY: the event is alive, `key` ends with a byte 0.
        with_text(key, |key| number(|out, err| unsafe { sys::dllm_event_i64(self.pointer.as_ptr(), key, out, err) }))
    }

    /// A real number: "loss", "lr", ...
    ///
    /// # Errors
    /// As [`Event::i64`].
    pub fn f64(&self, key: &str) -> Result<f64> {
        // SAFETY: as in i64.
        with_text(key, |key| number(|out, err| unsafe { sys::dllm_event_f64(self.pointer.as_ptr(), key, out, err) }))
    }

    /// A text: "dir", "what"; None when the event has no such key.
    pub fn str(&self, key: &str) -> Option<&str> {
        // SAFETY: as in i64; the text is valid until the callback returns, longer than `self` is borrowed.
        with_text(key, |key| unsafe {
            let text = sys::dllm_event_str(self.pointer.as_ptr(), key);
            Ok((!text.is_null()).then(|| CStr::from_ptr(text)))
        })
        .ok()
        .flatten()
        .and_then(|text| text.to_str().ok())
    }

    /// An array of whole numbers, not copied: "ids", "states", "changed"; None when the event has no such key.
    pub fn i32s(&self, key: &str) -> Option<&[i32]> {
        // SAFETY: the event is alive, `key` ends with a byte 0.
        self.array(key, |key, count| unsafe { sys::dllm_event_i32s(self.pointer.as_ptr(), key, count) })
    }

    /// An array of real numbers, not copied: "confidence"; None when the event has no such key.
    pub fn f32s(&self, key: &str) -> Option<&[f32]> {
        // SAFETY: the event is alive, `key` ends with a byte 0.
        self.array(key, |key, count| unsafe { sys::dllm_event_f32s(self.pointer.as_ptr(), key, count) })
    }

    fn array<T>(&self, key: &str, read: impl FnOnce(*const std::ffi::c_char, *mut i64) -> *const T) -> Option<&[T]> {
        let mut count = 0;
        let first = with_text(key, |key| Ok(read(key, &mut count))).ok()?;
        let count = usize::try_from(count).ok()?;
        // SAFETY: not null: `count` elements that are valid until the callback returns.
        (!first.is_null()).then(|| unsafe { std::slice::from_raw_parts(first, count) })
    }

    /// The whole event as a JSON object.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn describe(&self) -> Result<String> {
        // SAFETY: the event is alive.
        text(|out, err| unsafe { sys::dllm_event_describe(self.pointer.as_ptr(), out, err) })
    }

    /// In a run of a trainer, what may be done to it between two steps.
    pub fn trainer(&self) -> Option<&RunningTrainer> {
        self.running
    }
}

impl std::fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe().unwrap_or_else(|_| "Event".into()))
    }
}

/// The trainer of the run that a callback belongs to.
pub struct RunningTrainer {
    pub(crate) trainer: *mut sys::dllm_trainer,
    pub(crate) loader: *const sys::dllm_loader,
}

impl RunningTrainer {
    /// Changes "lr", "weight_decay" or "clip" from the next step on.
    ///
    /// # Errors
    /// An unknown key; a value out of its range.
    pub fn set(&self, key: &str, value: f64) -> Result<()> {
        // SAFETY: the run keeps its trainer; this function is allowed in its callback, on this thread.
        with_text(key, |key| check(|err| unsafe { sys::dllm_trainer_set_f64(self.trainer, key, value, err) }))
    }

    /// Saves a checkpoint of the trainer and the loader of the run, see [`checkpoint::save`]; returns its folder.
    ///
    /// # Errors
    /// As [`checkpoint::save`].
    pub fn save(&self, root: impl AsRef<Path>, options: &Options) -> Result<PathBuf> {
        checkpoint::save_raw(self.trainer, self.loader, root.as_ref(), options, None)
    }
}

/// What a callback may return: nothing, [`ControlFlow`] (`Break` ends the call without an error), or a [`Result`] of
/// these, whose error ends the call and comes back as [`Error::Callback`].
pub trait Answer {
    #[doc(hidden)]
    fn flow(self) -> Result<ControlFlow<()>, Box<dyn StdError + Send + Sync>>;
}

impl Answer for () {
    fn flow(self) -> Result<ControlFlow<()>, Box<dyn StdError + Send + Sync>> {
        Ok(ControlFlow::Continue(()))
    }
}

impl Answer for ControlFlow<()> {
    fn flow(self) -> Result<ControlFlow<()>, Box<dyn StdError + Send + Sync>> {
        Ok(self)
    }
}

impl<T: Answer, E: Into<Box<dyn StdError + Send + Sync>>> Answer for Result<T, E> {
    fn flow(self) -> Result<ControlFlow<()>, Box<dyn StdError + Send + Sync>> {
        self.map_err(Into::into)?.flow()
    }
}

/// What ended a call from inside of its callback.
enum Parked {
    Error(Box<dyn StdError + Send + Sync>),
    Panic(Box<dyn Any + Send>),
}

struct Context<F> {
    callback: F,
    running: Option<RunningTrainer>,
    parked: Option<Parked>,
}

/// `f` with a function and its user data, to pass to the library. What the callback returned as an error, or its panic,
/// comes out here, after the frames of C have returned.
pub(crate) fn with_callback<F, A>(
    callback: F,
    running: Option<RunningTrainer>,
    f: impl FnOnce(sys::dllm_event_fn, *mut c_void, *mut sys::dllm_error) -> i32,
) -> Result<()>
where
    F: FnMut(&Event<'_>) -> A,
    A: Answer,
{
    let mut context = Context { callback, running, parked: None };
    let user_data = (&raw mut context).cast();
    let called = check(|err| f(Some(trampoline::<F, A>), user_data, err));
    match context.parked {
        Some(Parked::Panic(payload)) => resume_unwind(payload),
        Some(Parked::Error(inner)) => Err(Error::Callback(inner)),
        None => called,
    }
}

unsafe extern "C" fn trampoline<F, A>(event: *const sys::dllm_event, user_data: *mut c_void) -> i32
where
    F: FnMut(&Event<'_>) -> A,
    A: Answer,
{
    // SAFETY: `user_data` is the context of with_callback, which waits for the call; the library calls from one thread.
    let context = unsafe { &mut *user_data.cast::<Context<F>>() };
    let Some(pointer) = NonNull::new(event.cast_mut()) else { return sys::DLLM_CONTINUE };
    let answered = catch_unwind(AssertUnwindSafe(|| {
        let _inside = InCallback::enter();
        let event = Event { pointer, running: context.running.as_ref(), thread: PhantomData };
        (context.callback)(&event).flow()
    }));
    match answered {
        Ok(Ok(ControlFlow::Continue(()))) => sys::DLLM_CONTINUE,
        Ok(Ok(ControlFlow::Break(()))) => sys::DLLM_STOP,
        Ok(Err(inner)) => fail(&mut context.parked, Parked::Error(inner)),
        Err(payload) => fail(&mut context.parked, Parked::Panic(payload)),
    }
}

fn fail(parked: &mut Option<Parked>, reason: Parked) -> i32 {
    *parked = Some(reason);
    sys::DLLM_FAIL
}
