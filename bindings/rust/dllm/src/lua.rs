//! Run Lua scripts inside the library.

use crate::error::{Result, check};
use crate::handle::{Handle, length, make, text, with_path, with_text};
use crate::options::Options;
use crate::task::{self, Task};
use crate::turns::Turns;
use crate::{Batch, Dataset, Engine, Model, Objective, Schedule, Tensor, Tokenizer};
use dllm_sys as sys;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

/// A runner with its own Lua state. The values that a script returns are a JSON array.
///
/// A script may call anything on the objects it was given. So it borrows them: those with calls that go one at a time as
/// `&mut`, the others as `&`. While it runs, calls of other threads wait that use a model it was given.
///
/// ```
/// use dllm::{Dataset, Lua, options};
///
/// let mut words = Dataset::of(["one", "two"], None)?;
/// let mut lua = Lua::new(&options! {})?;
/// lua.set_object("words", &mut words)?;
/// lua.set_json("more", "[1, 2]")?;
/// assert_eq!(lua.run_text("sum", "return words:size() + #more", None)?, "[4]");
/// # Ok::<(), dllm::Error>(())
/// ```
pub struct Lua<'host> {
    handle: Handle<sys::dllm_lua>,
    models: Vec<Arc<Turns>>,
    objects: PhantomData<&'host mut ()>,
}

/// An object that a script may have. Trainers, loaders and decoders are made by the script itself.
pub trait Scriptable {
    #[doc(hidden)]
    fn part(self) -> Part;
}

#[doc(hidden)]
#[expect(missing_debug_implementations, reason = "it leaves this crate nowhere")]
pub struct Part {
    noun: &'static std::ffi::CStr,
    pointer: *mut c_void,
    model: Option<Arc<Turns>>,
}

macro_rules! scriptable {
    ($($type:ty: $noun:literal, $object:ident, $model:expr;)*) => {$(
        impl Scriptable for $type {
            fn part(self) -> Part {
                let $object = self;
                Part { noun: $noun, model: $model, pointer: $object.handle.as_ptr().cast() }
            }
        }
    )*};
}

scriptable! {
    &Engine: c"engine", object, None;
    &Tensor: c"tensor", object, None;
    &Tokenizer: c"tokenizer", object, None;
    &Schedule: c"schedule", object, None;
    &Model: c"model", object, Some(Arc::clone(&object.turns));
    &mut Batch: c"batch", object, None;
    &mut Dataset: c"dataset", object, None;
    &mut Objective: c"objective", object, None;
}

impl<'host> Lua<'host> {
    /// A runner; options of kind "lua": sandbox, roots, memory_limit, step_limit, ...
    ///
    /// # Errors
    /// A build without Lua, a root that is not a folder.
    pub fn new(options: &Options) -> Result<Self> {
        // SAFETY: the options are alive or NULL.
        let handle = options.with("lua", |opts| make(|out, err| unsafe { sys::dllm_lua_new(opts, out, err) }))?;
        Ok(Self { handle, models: Vec::new(), objects: PhantomData })
    }

    /// Sets a global to an object of the library.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn set_object<T: Scriptable + 'host>(&mut self, name: &str, object: T) -> Result<()> {
        let part = object.part();
        let (lua, noun, pointer) = (self.handle.as_ptr(), part.noun.as_ptr(), part.pointer);
        // SAFETY: the runner is borrowed alone, the object is alive and of this noun, texts end with a byte 0.
        with_text(name, |name| check(|err| unsafe { sys::dllm_lua_set_object(lua, name, noun, pointer, err) }))?;
        if let Some(model) = part.model.filter(|model| !self.models.iter().any(|other| Arc::ptr_eq(other, model))) {
            self.models.push(model);
        }
        Ok(())
    }

    /// Sets a global to the value of a JSON text.
    ///
    /// # Errors
    /// Text that is not JSON, or over the limits.
    pub fn set_json(&mut self, name: &str, json: &str) -> Result<()> {
        let (lua, start, size) = (self.handle.as_ptr(), json.as_ptr().cast(), length(json.len()));
        // SAFETY: the runner is borrowed alone, `start` has `size` bytes.
        with_text(name, |name| check(|err| unsafe { sys::dllm_lua_set_json(lua, name, start, size, err) }))
    }

    /// Runs a file; `args` is a JSON array, or "".
    ///
    /// # Errors
    /// A missing file, a script that fails (the hint has its traceback), a limit, cancelled; inside a callback.
    pub fn run_file(&mut self, path: impl AsRef<Path>, args: &str, task: Option<&Task>) -> Result<String> {
        let (lua, start, size) = (self.handle.as_ptr(), args.as_ptr().cast(), length(args.len()));
        let (_turns, task) = (Turns::remake_all(&self.models, task)?, task::pointer(task));
        with_path(path.as_ref(), |path| {
            // SAFETY: the runner is borrowed alone, its objects are borrowed or held by turns, `start` has `size` bytes.
            text(|out, err| unsafe { sys::dllm_lua_run_file(lua, path, start, size, task, out, err) })
        })
    }

    /// Runs a text; `name` is what messages call it.
    ///
    /// # Errors
    /// As [`Lua::run_file`].
    pub fn run_text(&mut self, name: &str, code: &str, task: Option<&Task>) -> Result<String> {
        let (lua, start, size) = (self.handle.as_ptr(), code.as_ptr().cast(), length(code.len()));
        let (_turns, task) = (Turns::remake_all(&self.models, task)?, task::pointer(task));
        with_text(name, |name| {
            // SAFETY: as in run_file.
            text(|out, err| unsafe { sys::dllm_lua_run_text(lua, name, start, size, task, out, err) })
        })
    }

    /// Calls a global function; dots reach into tables. `args` is a JSON array, or "".
    ///
    /// # Errors
    /// No such function; as [`Lua::run_file`].
    pub fn call(&mut self, function: &str, args: &str, task: Option<&Task>) -> Result<String> {
        let (lua, start, size) = (self.handle.as_ptr(), args.as_ptr().cast(), length(args.len()));
        let (_turns, task) = (Turns::remake_all(&self.models, task)?, task::pointer(task));
        with_text(function, |function| {
            // SAFETY: as in run_file.
            text(|out, err| unsafe { sys::dllm_lua_call(lua, function, start, size, task, out, err) })
        })
    }
}
