//! Text in, text out.

mod generation;
#[cfg(feature = "stream")]
mod piece_stream;
mod pieces;
mod prompt;
#[cfg(test)]
pub(crate) mod tests;

use crate::decoder::Decoder;
use crate::engine::Engine;
use crate::error::{Error, Result, check};
use crate::event::{Answer, Event, with_callback};
use crate::handle::{Handle, make, number, text, with_path, with_text};
use crate::model::Model;
use crate::options::{Options, Value};
use crate::task::{self, Task};
use crate::tokenizer::Tokenizer;
use crate::turns::Turns;
use dllm_sys as sys;
use std::path::Path;
use std::sync::Arc;

pub use generation::Generation;
#[cfg(feature = "stream")]
pub use piece_stream::PieceStream;
pub use pieces::{Piece, Pieces};
pub use prompt::Prompt;

/// Takes requests for text and returns text. It has a model, its tokenizer and a decoder.
///
/// ```no_run
/// use dllm::{Generator, Prompt, RequestOptions, options};
///
/// let mut generator = Generator::load("runs/first", &options! { dtype: "q8_0" }, None)?;
/// let settings = RequestOptions::new().length(48).steps(24).stop(&["\n"]);
/// println!("{}", generator.generate("the cat", &settings, None)?);
/// println!("{}", generator.generate(Prompt::infill("the<mask:3> sat"), &settings, None)?);
/// let mut pieces = generator.stream("the cat", &settings, None)?;
/// for piece in &mut pieces {
///     print!("{}", piece?.text);
/// }
/// # Ok::<(), dllm::Error>(())
/// ```
///
/// A misspelt typed setting does not compile:
///
/// ```compile_fail,E0599
/// let _ = dllm::RequestOptions::new().temprature(1.0);
/// ```
pub struct Generator {
    handle: Arc<Handle<sys::dllm_generator>>,
    turns: Arc<Turns>,
    /// The thread that takes a step of a [`PieceStream`]. It is the only one that uses the handle until it ends.
    #[cfg(feature = "stream")]
    away: Option<std::thread::JoinHandle<()>>,
}

impl Generator {
    /// Loads a model with its tokenizer on an engine of its own: a model folder, a GGUF file, a run or a checkpoint.
    /// Options of kinds "generator" and "model" at one level; `engine`: options of kind "engine".
    ///
    /// # Errors
    /// As [`Engine::new`], [`Model::load`] and [`Generator::new`].
    pub fn load(path: impl AsRef<Path>, options: &Options, task: Option<&Task>) -> Result<Self> {
        let (engine, others) = options.clone().take("engine");
        match engine {
            None => Self::load_from(None, path.as_ref(), &others, task),
            Some(Value::Options(settings)) => Self::load_on(&Engine::new(&settings)?, path, &others, task),
            Some(other) => Err(Error::invalid(format!("option engine is {other:?}, not the options of an engine"))),
        }
    }

    /// Loads a model with its tokenizer on this engine; options of kinds "generator" and "model" at one level.
    ///
    /// # Errors
    /// As [`Model::load`] and [`Generator::new`].
    pub fn load_on(engine: &Engine, path: impl AsRef<Path>, options: &Options, task: Option<&Task>) -> Result<Self> {
        Self::load_from(Some(engine), path.as_ref(), options, task)
    }

    fn load_from(engine: Option<&Engine>, path: &Path, options: &Options, task: Option<&Task>) -> Result<Self> {
        let engine = engine.map_or(std::ptr::null_mut(), |engine| engine.handle.as_ptr());
        let (own, model) = options.of_load("generator")?;
        let task = task::pointer(task);
        let handle = own.with("generator", |own| {
            model.with("model", |model| {
                with_path(path, |path| {
                    // SAFETY: handles are alive or NULL, the path ends with a byte 0.
                    make(|out, err| unsafe { sys::dllm_generator_load(path, engine, model, own, task, out, err) })
                })
            })
        })?;
        Ok(Self::of(Arc::new(handle), Arc::default()))
    }

    fn of(handle: Arc<Handle<sys::dllm_generator>>, turns: Arc<Turns>) -> Self {
        Self {
            handle,
            turns,
            #[cfg(feature = "stream")]
            away: None,
        }
    }

    /// A generator of a model and a tokenizer; options of kind "generator".
    ///
    /// # Errors
    /// A model without a mask token, where the policy needs one.
    pub fn new(model: &Model, tokenizer: &Tokenizer, options: &Options) -> Result<Self> {
        let _turn = model.turns.read();
        let (of, with) = (model.handle.as_ptr(), tokenizer.handle.as_ptr());
        let handle = options.with("generator", |opts| {
            // SAFETY: handles are alive or NULL.
            make(|out, err| unsafe { sys::dllm_generator_new(of, with, opts, out, err) })
        })?;
        Ok(Self::of(Arc::new(handle), Arc::clone(&model.turns)))
    }

    fn pointer(&mut self) -> *mut sys::dllm_generator {
        #[cfg(feature = "stream")]
        self.wait();
        self.handle.as_ptr()
    }

    /// Adds a request; its number. Options of kind "request", and of the policy that they name.
    ///
    /// # Errors
    /// Messages without a chat template, prompt and answer longer than the model allows, no free slot.
    pub fn add(&mut self, prompt: impl Into<Prompt>, options: &Options, task: Option<&Task>) -> Result<i64> {
        let (turns, generator) = (Arc::clone(&self.turns), self.pointer());
        let (_turn, task) = (turns.read_for(task)?, task::pointer(task));
        let request = prompt.into().put(options);
        request.with_name("request", request.policy(), |opts| {
            // SAFETY: handles are alive or NULL, the generator is borrowed alone.
            number(|out, err| unsafe { sys::dllm_generator_add(generator, opts, task, out, err) })
        })
    }

    /// Removes a request, open or over; its number may be used again.
    ///
    /// # Errors
    /// No such request.
    pub fn remove(&mut self, request: i64) -> Result<()> {
        let generator = self.pointer();
        // SAFETY: the generator is borrowed alone.
        check(|err| unsafe { sys::dllm_generator_remove(generator, request, err) })
    }

    /// One denoising step of every open request; how many requests are open. A request that fails is over, and
    /// [`Generator::text`] returns its error.
    ///
    /// # Errors
    /// No request, cancelled, lost weights; inside a callback.
    pub fn step(&mut self, task: Option<&Task>) -> Result<i64> {
        let (turns, generator) = (Arc::clone(&self.turns), self.pointer());
        let (_turn, task) = (turns.step(task)?, task::pointer(task));
        // SAFETY: handles are alive or NULL, the generator is borrowed alone.
        number(|out, err| unsafe { sys::dllm_generator_step(generator, task, out, err) })
    }

    /// Steps until no request is open. The callback gets [`EventKind::Text`](crate::EventKind::Text) after each step of
    /// a request and [`EventKind::Answer`](crate::EventKind::Answer) when it is over.
    ///
    /// # Errors
    /// Cancelled: the requests stay open; lost weights; what the callback returned.
    ///
    /// # Panics
    /// When the callback panics, with its payload.
    pub fn run<A: Answer>(&mut self, task: Option<&Task>, callback: impl FnMut(&Event<'_>) -> A) -> Result<()> {
        let (turns, generator) = (Arc::clone(&self.turns), self.pointer());
        let (_turn, task) = (turns.step(task)?, task::pointer(task));
        // SAFETY: as in step.
        with_callback(callback, None, |callback, user_data, err| unsafe {
            sys::dllm_generator_run(generator, callback, user_data, task, err)
        })
    }

    /// A part of the text of a request: "completion", "text" (prompt and answer), "next" (final text that was not
    /// returned before) or "canvas" (`<mask:N>` for N open positions).
    ///
    /// # Errors
    /// No such request or part; the error of a request that failed.
    pub fn text(&mut self, request: i64, part: &str) -> Result<String> {
        let generator = self.pointer();
        // SAFETY: the generator is borrowed alone, `part` ends with a byte 0.
        with_text(part, |part| text(|out, err| unsafe { sys::dllm_generator_text(generator, request, part, out, err) }))
    }

    /// A request as a JSON object; None: the generator.
    ///
    /// # Errors
    /// No such request.
    pub fn describe(&mut self, request: Option<i64>) -> Result<String> {
        let generator = self.pointer();
        // SAFETY: the generator is borrowed alone.
        text(|out, err| unsafe { sys::dllm_generator_describe(generator, request.unwrap_or(-1), out, err) })
    }

    /// The decoder, for what it reads: its slots have the numbers of the requests. Calls that change it fail.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn decoder(&self) -> Result<Decoder> {
        // SAFETY: the handle is alive.
        let handle = make(|out, err| unsafe { sys::dllm_generator_decoder(self.handle.as_ptr(), out, err) })?;
        Ok(Decoder::of(handle, Arc::clone(&self.turns)))
    }

    /// The model.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn model(&self) -> Result<Model> {
        // SAFETY: the handle is alive.
        let handle = make(|out, err| unsafe { sys::dllm_generator_model(self.handle.as_ptr(), out, err) })?;
        Ok(Model::of(handle, Arc::clone(&self.turns)))
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        // SAFETY: the handle is alive.
        let handle = make(|out, err| unsafe { sys::dllm_generator_tokenizer(self.handle.as_ptr(), out, err) })?;
        Ok(Tokenizer { handle })
    }
}
