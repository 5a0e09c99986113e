//! LoRA adapters of a model.

use crate::error::{Result, check};
use crate::handle::{text, with_path, with_text};
use crate::json::{self, Json};
use crate::model::Model;
use crate::options::Options;
use crate::task::{self, Task};
use dllm_sys as sys;
use std::path::Path;

/// A LoRA adapter, as [`Model::adapters`] lists it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Adapter {
    /// Its name in the model.
    pub name: String,
    /// What it adds to a matrix: lora, dora, ia3.
    pub kind: String,
    /// Rows of A and columns of B, unless a pattern of its file sets another one.
    pub rank: u64,
    /// Numerator of the factor, which is alpha / rank.
    pub alpha: f64,
    /// Whether the factor is alpha / sqrt(rank).
    pub rslora: bool,
    /// Whether the rows have trained lengths.
    pub dora: bool,
    /// Number of [`Model::set_adapter_scale`]; 1: as it was trained.
    pub scale: f64,
    /// Matrices of the base with this adapter.
    pub modules: u64,
    /// Numbers of A, of B and of lengths.
    pub params: u64,
    /// Bytes of memory of its numbers.
    pub bytes: u64,
}

impl Adapter {
    /// The name that `dllm train` and the other languages give an adapter without a name.
    pub const DEFAULT: &'static str = "default";

    fn read(one: &Json) -> Option<Self> {
        Some(Self {
            name: one.get("name")?.text()?,
            kind: one.get("kind")?.text()?,
            rank: one.get("rank")?.number()?,
            alpha: one.get("alpha")?.number()?,
            rslora: one.get("rslora")?.number()?,
            dora: one.get("dora")?.number()?,
            scale: one.get("scale")?.number()?,
            modules: one.get("modules")?.number()?,
            params: one.get("params")?.number()?,
            bytes: one.get("bytes")?.number()?,
        })
    }

    fn read_all(all: &Json) -> Option<Vec<Self>> {
        match all {
            Json::List(items) => items.iter().map(Self::read).collect(),
            _ => None,
        }
    }
}

/// LoRA adapters. A call that changes adapters waits until no other call uses the model.
impl Model {
    /// Adds a LoRA adapter, which changes no result until it is trained; options of kind "adapter":
    /// [`AdapterOptions`](crate::AdapterOptions). A trainer that is made afterwards trains the adapters alone; make an
    /// older one again. A name has letters, digits, `_` and `-`. A call that fails changes nothing.
    ///
    /// # Errors
    /// [`Code::AlreadyExists`](crate::Code::AlreadyExists) for a name that the model has;
    /// [`Code::NotFound`](crate::Code::NotFound) for targets that name no matrix; targets like the head; layers that
    /// the model lacks; other characters in a name; too little memory, cancelled; inside a callback.
    pub fn add_adapter(&self, name: &str, options: &Options, task: Option<&Task>) -> Result<()> {
        let (_turn, model, task) = (self.turns.remake(task)?, self.handle.as_ptr(), task::pointer(task));
        options.with("adapter", |opts| {
            // SAFETY: handles are alive or NULL, `name` ends with a byte 0, no other call uses the model.
            with_text(name, |name| check(|err| unsafe { sys::dllm_model_add_adapter(model, name, opts, task, err) }))
        })
    }

    /// Adds an adapter from a folder that PEFT or [`Model::save_adapter`] wrote; the progress counts bytes. A call that
    /// fails changes nothing.
    ///
    /// # Errors
    /// [`Code::AlreadyExists`](crate::Code::AlreadyExists) for a name that the model has; a missing or damaged file; a
    /// matrix that the model lacks, another shape; an adapter that is not LoRA; too little memory, cancelled; inside a
    /// callback.
    pub fn load_adapter(&self, path: impl AsRef<Path>, name: &str, task: Option<&Task>) -> Result<()> {
        let (_turn, model, task) = (self.turns.remake(task)?, self.handle.as_ptr(), task::pointer(task));
        with_path(path.as_ref(), |path| {
            // SAFETY: handles are alive or NULL, texts end with a byte 0, no other call uses the model.
            with_text(name, |name| check(|err| unsafe { sys::dllm_model_load_adapter(model, path, name, task, err) }))
        })
    }

    /// Saves an adapter as a folder that PEFT and [`Model::load_adapter`] read, complete or not at all; the progress
    /// counts bytes.
    ///
    /// # Errors
    /// [`Code::NotFound`](crate::Code::NotFound) for an unknown name;
    /// [`Code::AlreadyExists`](crate::Code::AlreadyExists) when something is at the path; no permission, a full disk,
    /// cancelled.
    pub fn save_adapter(&self, path: impl AsRef<Path>, name: &str, task: Option<&Task>) -> Result<()> {
        let (_turn, model, task) = (self.turns.read_for(task)?, self.handle.as_ptr(), task::pointer(task));
        with_path(path.as_ref(), |path| {
            // SAFETY: handles are alive or NULL, texts end with a byte 0.
            with_text(name, |name| check(|err| unsafe { sys::dllm_model_save_adapter(model, path, name, task, err) }))
        })
    }

    /// Adds the product of an adapter to the weights, which keep their format, and removes the adapter. None: of every
    /// adapter, in the order in which they were added; the adapter at which the call failed is unchanged.
    ///
    /// # Errors
    /// [`Code::NotFound`](crate::Code::NotFound) for an unknown name; a sum that is not finite, or that the format of
    /// the weight makes infinite; too little memory, cancelled; inside a callback.
    pub fn merge_adapter(&self, name: Option<&str>, task: Option<&Task>) -> Result<()> {
        let (_turn, model, task) = (self.turns.remake(task)?, self.handle.as_ptr(), task::pointer(task));
        // SAFETY: handles are alive or NULL, `name` is NULL or ends with a byte 0, no other call uses the model.
        let merge = |name| check(|err| unsafe { sys::dllm_model_merge_adapter(model, name, task, err) });
        name.map_or_else(|| merge(std::ptr::null()), |name| with_text(name, merge))
    }

    /// Removes an adapter and frees its memory.
    ///
    /// # Errors
    /// [`Code::NotFound`](crate::Code::NotFound) for an unknown name, the hint has the names; inside a callback.
    pub fn remove_adapter(&self, name: &str) -> Result<()> {
        let (_turn, model) = (self.turns.remake(None)?, self.handle.as_ptr());
        // SAFETY: the handle is alive, `name` ends with a byte 0, no other call uses the model.
        with_text(name, |name| check(|err| unsafe { sys::dllm_model_remove_adapter(model, name, err) }))
    }

    /// Adds the network of another model of the engine as a part that losses can read, such as a teacher. Its arrays are
    /// shared, and no trainer of this model trains it.
    ///
    /// # Errors
    /// [`Code::AlreadyExists`](crate::Code::AlreadyExists) for a name that is taken; a model of another engine;
    /// inside a callback.
    pub fn add_network(&self, other: &Model, name: &str) -> Result<()> {
        let _reading = (!std::ptr::eq(self, other)).then(|| other.turns.read());
        let (_turn, model) = (self.turns.remake(None)?, self.handle.as_ptr());
        // SAFETY: both handles are alive, `name` ends with a byte 0, no other call changes the models.
        with_text(name, |name| {
            check(|err| unsafe { sys::dllm_model_add_network(model, other.handle.as_ptr(), name, err) })
        })
    }

    /// Removes such a part.
    ///
    /// # Errors
    /// [`Code::NotFound`](crate::Code::NotFound) for an unknown name, the hint has the names; inside a callback.
    pub fn remove_network(&self, name: &str) -> Result<()> {
        let (_turn, model) = (self.turns.remake(None)?, self.handle.as_ptr());
        // SAFETY: as in remove_adapter.
        with_text(name, |name| check(|err| unsafe { sys::dllm_model_remove_network(model, name, err) }))
    }

    /// Multiplies the product of an adapter by a scale from now on, which is -1e9 to 1e9; 0: the adapter is off, 1: as
    /// it was trained.
    ///
    /// # Errors
    /// [`Code::NotFound`](crate::Code::NotFound) for an unknown name, the hint has the names; another number; inside a
    /// callback.
    pub fn set_adapter_scale(&self, name: &str, scale: f64) -> Result<()> {
        let (_turn, model) = (self.turns.remake(None)?, self.handle.as_ptr());
        // SAFETY: as in remove_adapter.
        with_text(name, |name| check(|err| unsafe { sys::dllm_model_set_adapter_scale(model, name, scale, err) }))
    }

    /// The adapters in the order in which they were added.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn adapters(&self) -> Result<Vec<Adapter>> {
        let _turn = self.turns.read();
        // SAFETY: the handle is alive.
        let written = text(|out, err| unsafe { sys::dllm_model_adapters(self.handle.as_ptr(), out, err) })?;
        json::answer(&written, Adapter::read_all)
    }
}
