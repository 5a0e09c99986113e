//! Decode text step by step.

mod view;

use crate::error::{Error, Result, check};
use crate::event::{Answer, Event, with_callback};
use crate::handle::{Handle, length, make, number};
use crate::model::Model;
use crate::options::Options;
use crate::task::{self, Task};
use crate::turns::Turns;
use dllm_sys as sys;
use std::iter::FusedIterator;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

pub use view::{DecoderView, State};

/// Decodes requests, one per slot; all that [`DecoderView`] reads can be read of it too.
///
/// ```no_run
/// use dllm::{Decoder, Engine, Model, Tokenizer, options};
///
/// let model = Model::load(&Engine::new(&options! {})?, "runs/first", &options! {}, None)?;
/// let tokenizer = Tokenizer::load("runs/first", &options! {})?;
/// let mut decoder = Decoder::new(&model, &options! { steps: 32, gen_length: 48 })?;
/// decoder.start(&tokenizer.encode("the cat")?, 7)?;
/// for step in decoder.steps(None) {
///     println!("{}", tokenizer.decode(&step?.ids(0)?)?);
/// }
/// # Ok::<(), dllm::Error>(())
/// ```
///
/// A decoder that was dropped cannot be used: this does not compile.
///
/// ```compile_fail,E0382
/// fn close(mut decoder: dllm::Decoder) -> dllm::Result<i64> {
///     drop(decoder);
///     decoder.step(None)
/// }
/// ```
pub struct Decoder {
    view: DecoderView,
}

/// A step of [`Decoder::steps`], with all that [`DecoderView`] reads.
#[derive(Clone)]
pub struct Step {
    view: DecoderView,
    active: i64,
}

impl Step {
    /// The slots that still have open positions; 0: everything is decided.
    pub fn active(&self) -> i64 {
        self.active
    }
}

impl Deref for Step {
    type Target = DecoderView;

    fn deref(&self) -> &DecoderView {
        &self.view
    }
}

/// The iterator of [`Decoder::steps`]. It ends when everything is decided, and after an error.
pub struct Steps<'a> {
    decoder: &'a mut Decoder,
    task: Option<&'a Task>,
    done: bool,
}

impl Iterator for Steps<'_> {
    type Item = Result<Step>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let stepped = self.decoder.step(self.task);
        self.done = !matches!(stepped, Ok(1..));
        Some(stepped.map(|active| Step { view: self.decoder.view(), active }))
    }
}

impl FusedIterator for Steps<'_> {}

impl Deref for Decoder {
    type Target = DecoderView;

    fn deref(&self) -> &DecoderView {
        &self.view
    }
}

impl Decoder {
    pub(crate) fn of(handle: Handle<sys::dllm_decoder>, turns: Arc<Turns>) -> Self {
        Self { view: DecoderView { handle: Arc::new(handle), turns } }
    }

    /// A decoder without slots; options of kind "decoder": policy, steps, gen_length, temperature, ...
    ///
    /// # Errors
    /// A model without a mask token, options that contradict each other.
    pub fn new(model: &Model, options: &Options) -> Result<Self> {
        let _turn = model.turns.read();
        let of = model.handle.as_ptr();
        let handle = options.with_name("decoder", options.policy(), |opts| {
            // SAFETY: handles are alive or NULL.
            make(|out, err| unsafe { sys::dllm_decoder_new(of, opts, out, err) })
        })?;
        Ok(Self::of(handle, Arc::clone(&model.turns)))
    }

    /// For other threads, and for callbacks.
    pub fn view(&self) -> DecoderView {
        self.view.clone()
    }

    pub(crate) fn pointer(&mut self) -> *mut sys::dllm_decoder {
        self.view.handle.as_ptr()
    }

    pub(crate) fn turns(&self) -> Arc<Turns> {
        Arc::clone(&self.view.turns)
    }

    /// Removes all slots and starts one request in slot 0: the prompt, then gen_length open positions.
    ///
    /// # Errors
    /// An id out of the vocabulary, more positions than the model allows.
    pub fn start(&mut self, prompt: &[i32], seed: i64) -> Result<()> {
        let (turns, decoder) = (self.turns(), self.pointer());
        let _turn = turns.read();
        // SAFETY: the decoder is borrowed alone, `prompt` has this length.
        check(|err| unsafe { sys::dllm_decoder_start(decoder, prompt.as_ptr(), length(prompt.len()), seed, err) })
    }

    /// Adds a request of ids that gen_length open positions follow; its slot. Options of kind "slot": seed, stop, ...
    ///
    /// # Errors
    /// An id out of the vocabulary, more positions than the model allows, no free slot.
    pub fn add(&mut self, prompt: &[i32], options: &Options) -> Result<i64> {
        self.add_raw(prompt, std::ptr::null(), options)
    }

    /// Adds a request with open positions anywhere: each position is given (Some) or open (None); its slot.
    ///
    /// # Errors
    /// As [`Decoder::add`].
    pub fn add_canvas(&mut self, canvas: &[Option<i32>], options: &Options) -> Result<i64> {
        let ids: Vec<i32> = canvas.iter().map(|id| id.unwrap_or(0)).collect();
        let fixed: Vec<u8> = canvas.iter().map(|id| u8::from(id.is_some())).collect();
        self.add_raw(&ids, fixed.as_ptr(), options)
    }

    fn add_raw(&mut self, ids: &[i32], fixed: *const u8, options: &Options) -> Result<i64> {
        let (turns, decoder) = (self.turns(), self.pointer());
        let _turn = turns.read();
        options.with("slot", |opts| {
            // SAFETY: the decoder is borrowed alone; `fixed` is NULL or has a flag per id.
            number(|out, err| unsafe {
                sys::dllm_decoder_add(decoder, ids.as_ptr(), fixed, length(ids.len()), opts, out, err)
            })
        })
    }

    /// Removes a request; its slot may be used again.
    ///
    /// # Errors
    /// A slot that is not in use.
    pub fn remove(&mut self, slot: i64) -> Result<()> {
        let decoder = self.pointer();
        // SAFETY: the decoder is borrowed alone.
        check(|err| unsafe { sys::dllm_decoder_remove(decoder, slot, err) })
    }

    /// One denoising step of every active slot; how many still have open positions.
    ///
    /// # Errors
    /// No request, cancelled, lost weights; inside a callback.
    pub fn step(&mut self, task: Option<&Task>) -> Result<i64> {
        let (turns, decoder) = (self.turns(), self.pointer());
        let (_turn, task) = (turns.step(task)?, task::pointer(task));
        // SAFETY: handles are alive or NULL, the decoder is borrowed alone.
        number(|out, err| unsafe { sys::dllm_decoder_step(decoder, task, out, err) })
    }

    /// Steps until everything is decided, one per call of `next`.
    pub fn steps<'a>(&'a mut self, task: Option<&'a Task>) -> Steps<'a> {
        Steps { decoder: self, task, done: false }
    }

    /// Steps within a time budget, such as a part of a frame: it may end inside a step, which the next call continues.
    /// How many slots still have open positions. The callback gets the events of complete steps.
    ///
    /// # Errors
    /// As [`Decoder::step`]; what the callback returned.
    ///
    /// # Panics
    /// When the callback panics, with its payload.
    pub fn step_for<A: Answer>(
        &mut self,
        budget: Duration,
        task: Option<&Task>,
        callback: impl FnMut(&Event<'_>) -> A,
    ) -> Result<i64> {
        let (turns, decoder) = (self.turns(), self.pointer());
        let (_turn, task) = (turns.step(task)?, task::pointer(task));
        let (milliseconds, mut active) = (budget.as_secs_f64() * 1e3, 0);
        // SAFETY: handles are alive or NULL, the decoder is borrowed alone.
        with_callback(callback, None, |callback, user_data, err| unsafe {
            sys::dllm_decoder_step_for(decoder, milliseconds, callback, user_data, task, &mut active, err)
        })?;
        Ok(active)
    }

    /// Steps until everything is decided; the callback gets every event. It may return nothing, `ControlFlow` or a
    /// `Result`: see [`Answer`].
    ///
    /// # Errors
    /// As [`Decoder::step`]; what the callback returned.
    ///
    /// # Panics
    /// When the callback panics, with its payload.
    pub fn run<A: Answer>(&mut self, task: Option<&Task>, callback: impl FnMut(&Event<'_>) -> A) -> Result<()> {
        let (turns, decoder) = (self.turns(), self.pointer());
        let (_turn, task) = (turns.step(task)?, task::pointer(task));
        // SAFETY: as in step.
        with_callback(callback, None, |callback, user_data, err| unsafe {
            sys::dllm_decoder_run(decoder, callback, user_data, task, err)
        })
    }

    /// Runs the model for the next step and decides nothing: see [`DecoderView::statistics`] and [`Decoder::commit`].
    ///
    /// # Errors
    /// As [`Decoder::step`].
    pub fn predict(&mut self, task: Option<&Task>) -> Result<()> {
        let (turns, decoder) = (self.turns(), self.pointer());
        let (_turn, task) = (turns.step(task)?, task::pointer(task));
        // SAFETY: as in step.
        check(|err| unsafe { sys::dllmx_decoder_predict(decoder, task, err) })
    }

    /// Decides positions of one slot and ends its step.
    ///
    /// # Errors
    /// A position that was not predicted, a token that cannot be decided; no prediction.
    pub fn commit(&mut self, slot: i64, positions: &[i64], ids: &[i32]) -> Result<()> {
        if positions.len() != ids.len() {
            return Err(Error::invalid(format!("{} positions, {} ids", positions.len(), ids.len())));
        }
        let (turns, decoder) = (self.turns(), self.pointer());
        let _turn = turns.read();
        let (where_, what, count) = (positions.as_ptr(), ids.as_ptr(), length(ids.len()));
        // SAFETY: the decoder is borrowed alone, both arrays have `count` elements.
        check(|err| unsafe { sys::dllmx_decoder_commit(decoder, slot, where_, what, count, err) })
    }
}
