//! Load, create, run and save a model.

use crate::batch::Batch;
use crate::engine::Engine;
use crate::error::{Result, check};
use crate::handle::{Handle, length, make, number, text, text_at, with_path, with_text};
use crate::options::Options;
use crate::source::Source;
use crate::task::{self, Task};
use crate::tensor::Tensor;
use crate::tokenizer::Tokenizer;
use crate::turns::Turns;
use dllm_sys as sys;
use std::path::Path;
use std::sync::Arc;

/// A config and named parameters. Threads may share it: calls that work on the weights wait for each other.
pub struct Model {
    pub(crate) handle: Handle<sys::dllm_model>,
    pub(crate) turns: Arc<Turns>,
}

impl Model {
    pub(crate) fn of(handle: Handle<sys::dllm_model>, turns: Arc<Turns>) -> Self {
        Self { handle, turns }
    }

    fn pointer(&self) -> *mut sys::dllm_model {
        self.handle.as_ptr()
    }

    /// Loads a model folder, a GGUF file, a run or a checkpoint folder; options of kind "model".
    ///
    /// # Errors
    /// A missing or damaged file, an unknown family, too little memory, cancelled.
    pub fn load(engine: &Engine, path: impl AsRef<Path>, options: &Options, task: Option<&Task>) -> Result<Self> {
        let (engine, task) = (engine.handle.as_ptr(), task::pointer(task));
        let handle = options.with("model", |opts| {
            with_path(path.as_ref(), |path| {
                // SAFETY: handles are alive or NULL, the path ends with a byte 0.
                make(|out, err| unsafe { sys::dllm_model_load(engine, path, opts, task, out, err) })
            })
        })?;
        Ok(Self::of(handle, Arc::default()))
    }

    /// Loads a model from files in memory.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_source(engine: &Engine, source: &Source, options: &Options, task: Option<&Task>) -> Result<Self> {
        let (engine, source, task) = (engine.handle.as_ptr(), source.handle.as_ptr(), task::pointer(task));
        let handle = options.with("model", |opts| {
            // SAFETY: handles are alive or NULL.
            make(|out, err| unsafe { sys::dllm_model_load_source(engine, source, opts, task, out, err) })
        })?;
        Ok(Self::of(handle, Arc::default()))
    }

    /// A model with random weights; `config` is the content of a config.json.
    ///
    /// # Errors
    /// A config that is not valid, an unknown family, too little memory, cancelled.
    pub fn new(engine: &Engine, config: &str, options: &Options, task: Option<&Task>) -> Result<Self> {
        let (engine, task) = (engine.handle.as_ptr(), task::pointer(task));
        let (start, size) = (config.as_ptr().cast(), length(config.len()));
        let handle = options.with("model", |opts| {
            // SAFETY: handles are alive or NULL, `start` has `size` bytes.
            make(|out, err| unsafe { sys::dllm_model_new(engine, start, size, opts, task, out, err) })
        })?;
        Ok(Self::of(handle, Arc::default()))
    }

    /// Saves a folder with config.json and safetensors; options of kind "save".
    ///
    /// # Errors
    /// The folder is there (and option overwrite is off), no permission, a full disk, cancelled.
    pub fn save(&self, path: impl AsRef<Path>, options: &Options, task: Option<&Task>) -> Result<()> {
        let (model, task) = (self.pointer(), task::pointer(task));
        let _turn = self.turns.read();
        options.with("save", |opts| {
            // SAFETY: handles are alive or NULL, the path ends with a byte 0.
            with_path(path.as_ref(), |path| check(|err| unsafe { sys::dllm_model_save(model, path, opts, task, err) }))
        })
    }

    /// Writes the weights at `path` in another format to `target`; the report is a JSON object. Options of kind
    /// "quantize": format, overwrite.
    ///
    /// # Errors
    /// A missing or damaged file, a target that is there, a format that the target cannot hold, cancelled.
    pub fn quantize(
        path: impl AsRef<Path>,
        target: impl AsRef<Path>,
        options: &Options,
        task: Option<&Task>,
    ) -> Result<String> {
        let task = task::pointer(task);
        options.with("quantize", |opts| {
            with_path(path.as_ref(), |path| {
                with_path(target.as_ref(), |target| {
                    // SAFETY: handles are alive or NULL, paths end with a byte 0.
                    text(|out, err| unsafe { sys::dllm_model_quantize(path, target, opts, task, out, err) })
                })
            })
        })
    }

    /// The config as JSON.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn config(&self) -> Result<String> {
        // SAFETY: the handle is alive.
        text(|out, err| unsafe { sys::dllm_model_config(self.pointer(), out, err) })
    }

    /// Family, attention, sizes, storage, ... as a JSON object.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn describe(&self) -> Result<String> {
        // SAFETY: the handle is alive.
        text(|out, err| unsafe { sys::dllm_model_describe(self.pointer(), out, err) })
    }

    /// A number: "vocab" "hidden" "layers" "max_length" "mask_id" "params" "bytes".
    ///
    /// # Errors
    /// An unknown key; "mask_id" of a model without one.
    pub fn get(&self, key: &str) -> Result<i64> {
        // SAFETY: the handle is alive, `key` ends with a byte 0.
        with_text(key, |key| number(|out, err| unsafe { sys::dllm_model_i64(self.pointer(), key, out, err) }))
    }

    /// The version of the weights; it increases with every change.
    pub fn version(&self) -> i64 {
        // SAFETY: the handle is alive.
        unsafe { sys::dllm_model_version(self.pointer()) }
    }

    /// The names of the parameters.
    pub fn param_names(&self) -> Vec<String> {
        // SAFETY: the handle is alive; names are valid until it is released, and copied here.
        let count = unsafe { sys::dllm_model_param_count(self.pointer()) };
        let name = |index| unsafe { text_at(sys::dllm_model_param_name(self.pointer(), index)) };
        (0..count).filter_map(name).collect()
    }

    /// A copy of one parameter.
    ///
    /// # Errors
    /// No such parameter, the hint names the nearest; the weights are lost.
    pub fn param(&self, name: &str) -> Result<Tensor> {
        let _turn = self.turns.read();
        // SAFETY: the handle is alive, `name` ends with a byte 0.
        let handle =
            with_text(name, |name| make(|out, err| unsafe { sys::dllm_model_param(self.pointer(), name, out, err) }))?;
        Ok(Tensor { handle })
    }

    /// Replaces one parameter. Waits for a running training step.
    ///
    /// # Errors
    /// No such parameter, another shape, a number that is not finite; inside a callback.
    pub fn set_param(&self, name: &str, value: &Tensor) -> Result<()> {
        let _turn = self.turns.work(None)?;
        let value = value.handle.as_ptr();
        // SAFETY: handles are alive, `name` ends with a byte 0, this turn is the only one that works.
        with_text(name, |name| check(|err| unsafe { sys::dllm_model_set_param(self.pointer(), name, value, err) }))
    }

    /// Attaches a tokenizer: every save and checkpoint writes it too.
    ///
    /// # Errors
    /// More tokens than the model's vocabulary; inside a callback.
    pub fn set_tokenizer(&self, tokenizer: &Tokenizer) -> Result<()> {
        let _turn = self.turns.work(None)?;
        // SAFETY: handles are alive, this turn is the only one that works.
        check(|err| unsafe { sys::dllm_model_set_tokenizer(self.pointer(), tokenizer.handle.as_ptr(), err) })
    }

    /// Runs the model once: ids (batch, seq) i32 in, logits (batch, seq, vocab) f32 out; options of kind "forward".
    ///
    /// logits\[i\] predicts token i, also with shift 1, where the state of token i - 1 makes it. Option shift 0 gives the
    /// logits of each token's own state.
    ///
    /// # Errors
    /// A missing array, a wrong shape, an id out of the vocabulary, too little memory, cancelled; inside a callback.
    pub fn forward(&self, batch: &Batch, options: &Options, task: Option<&Task>) -> Result<Batch> {
        let (_turn, batch, task) = (self.turns.work(task)?, batch.handle.as_ptr(), task::pointer(task));
        let handle = options.with("forward", |opts| {
            // SAFETY: handles are alive or NULL, this turn is the only one that works.
            make(|out, err| unsafe { sys::dllm_model_forward(self.pointer(), batch, opts, task, out, err) })
        })?;
        Ok(Batch { handle })
    }
}
