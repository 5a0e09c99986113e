//! Train a model.

use crate::batch::Batch;
use crate::error::{Result, check};
use crate::event::{Answer, Event, RunningTrainer, with_callback};
use crate::handle::{Handle, make, number, text, with_path, with_text};
use crate::loader::Loader;
use crate::model::Model;
use crate::objective::Objective;
use crate::options::Options;
use crate::task::{self, Task};
use crate::turns::Turns;
use dllm_sys as sys;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// Trains a model; all that [`TrainerView`] reads can be read of it too.
pub struct Trainer {
    view: TrainerView,
}

/// Reads a trainer, on any thread, also while it runs; clones are cheap. It keeps the trainer's memory.
#[derive(Clone)]
pub struct TrainerView {
    handle: Arc<Handle<sys::dllm_trainer>>,
    turns: Arc<Turns>,
}

/// The model of a trainer in one of its roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// What is trained.
    Live,
    /// Its moving average, a copy.
    Ema,
}

impl Deref for Trainer {
    type Target = TrainerView;

    fn deref(&self) -> &TrainerView {
        &self.view
    }
}

impl Trainer {
    /// A trainer at step 0; options of kind "trainer": lr, optimizer, schedule, ...
    ///
    /// It waits until no other call uses the model.
    ///
    /// # Errors
    /// Options that do not fit the optimizer, no mask token to be had, too little memory; inside a callback.
    pub fn new(model: &Model, objective: &Objective, options: &Options) -> Result<Self> {
        let _turn = model.turns.remake(None)?;
        let (of, objective) = (model.handle.as_ptr(), objective.handle.as_ptr());
        let handle = options.with("trainer", |opts| {
            // SAFETY: handles are alive or NULL; no other call uses the model.
            make(|out, err| unsafe { sys::dllm_trainer_new(of, objective, opts, out, err) })
        })?;
        Ok(Self { view: TrainerView { handle: Arc::new(handle), turns: Arc::clone(&model.turns) } })
    }

    /// For other threads, and for callbacks.
    pub fn view(&self) -> TrainerView {
        self.view.clone()
    }

    pub(crate) fn pointer(&mut self) -> *mut sys::dllm_trainer {
        self.view.handle.as_ptr()
    }

    pub(crate) fn turns(&self) -> Arc<Turns> {
        Arc::clone(&self.view.turns)
    }

    /// One optimizer step; the loss before the update, in nats.
    ///
    /// # Errors
    /// A missing array, a wrong shape, a loss that is not finite, cancelled; inside a callback.
    pub fn step(&mut self, batch: &Batch, task: Option<&Task>) -> Result<f64> {
        let (turns, trainer) = (self.turns(), self.pointer());
        let (_turn, task) = (turns.work(task)?, task::pointer(task));
        // SAFETY: handles are alive or NULL; the trainer is borrowed alone, the turn is the only one that works.
        number(|out, err| unsafe { sys::dllm_trainer_step(trainer, batch.handle.as_ptr(), task, out, err) })
    }

    /// Starts one optimizer step and does not wait for its result, where the engine works by itself (kind "pjrt").
    ///
    /// # Errors
    /// As [`Trainer::step`], of an earlier step too.
    pub fn start_step(&mut self, batch: &Batch, task: Option<&Task>) -> Result<()> {
        let (turns, trainer) = (self.turns(), self.pointer());
        let (_turn, batch, task) = (turns.work(task)?, batch.handle.as_ptr(), task::pointer(task));
        // SAFETY: as in step; NULL: the loss is not read.
        check(|err| unsafe { sys::dllm_trainer_step(trainer, batch, task, std::ptr::null_mut(), err) })
    }

    /// Adds the gradients of one batch to the sum, without an update.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn accumulate(&mut self, batch: &Batch, task: Option<&Task>) -> Result<()> {
        let (turns, trainer) = (self.turns(), self.pointer());
        let (_turn, task) = (turns.work(task)?, task::pointer(task));
        // SAFETY: as in step.
        check(|err| unsafe { sys::dllm_trainer_accumulate(trainer, batch.handle.as_ptr(), task, err) })
    }

    /// Updates with the gradients of [`Trainer::accumulate`]; their mean loss in nats.
    ///
    /// # Errors
    /// Nothing is accumulated; as [`Trainer::step`].
    pub fn apply(&mut self, task: Option<&Task>) -> Result<f64> {
        let (turns, trainer) = (self.turns(), self.pointer());
        let (_turn, task) = (turns.work(task)?, task::pointer(task));
        // SAFETY: as in step.
        number(|out, err| unsafe { sys::dllm_trainer_apply(trainer, task, out, err) })
    }

    /// Waits for all steps in flight and a checkpoint that is being written.
    ///
    /// # Errors
    /// The first late failure, once.
    pub fn sync(&mut self) -> Result<()> {
        let (turns, trainer) = (self.turns(), self.pointer());
        let _turn = turns.work(None)?;
        // SAFETY: as in step.
        check(|err| unsafe { sys::dllm_trainer_sync(trainer, err) })
    }

    /// Many steps; the callback gets every event. It may return nothing, `ControlFlow` or a `Result`: see [`Answer`].
    ///
    /// # Errors
    /// The data ends first; what the callback returned; as [`Trainer::step`].
    ///
    /// # Panics
    /// When the callback panics, with its payload.
    pub fn run<A: Answer>(
        &mut self,
        loader: &mut Loader,
        steps: i64,
        task: Option<&Task>,
        callback: impl FnMut(&Event<'_>) -> A,
    ) -> Result<()> {
        let (turns, trainer) = (self.turns(), self.pointer());
        let (_turn, loader, task) = (turns.work(task)?, loader.handle.as_ptr(), task::pointer(task));
        let running = RunningTrainer { trainer, loader };
        // SAFETY: as in step; the loader is borrowed alone too.
        with_callback(callback, Some(running), |callback, user_data, err| unsafe {
            sys::dllm_trainer_run(trainer, loader, steps, callback, user_data, task, err)
        })
    }

    /// The mean loss over batches of a loader in nats, without an update.
    ///
    /// # Errors
    /// No batch, cancelled; inside a callback.
    pub fn eval(&mut self, loader: &mut Loader, max_batches: i64, task: Option<&Task>) -> Result<f64> {
        let (turns, trainer) = (self.turns(), self.pointer());
        let (_turn, loader, task) = (turns.work(task)?, loader.handle.as_ptr(), task::pointer(task));
        // SAFETY: as in run.
        number(|out, err| unsafe { sys::dllm_trainer_eval(trainer, loader, max_batches, task, out, err) })
    }

    /// Changes "lr", "weight_decay" or "clip". Inside a callback: [`Event::trainer`].
    ///
    /// # Errors
    /// An unknown key, a value out of range.
    pub fn set(&mut self, key: &str, value: f64) -> Result<()> {
        let trainer = self.pointer();
        // SAFETY: the trainer is borrowed alone, `key` ends with a byte 0.
        with_text(key, |key| check(|err| unsafe { sys::dllm_trainer_set_f64(trainer, key, value, err) }))
    }

    /// Writes every event to a sink: "jsonl" or "csv" (a file), "tensorboard" (a folder) or "console" (standard error, no target);
    /// options of kind "sink".
    ///
    /// # Errors
    /// An unknown kind, no permission, a folder or a pipe.
    pub fn add_sink(&mut self, kind: &str, target: Option<&Path>, options: &Options) -> Result<()> {
        let trainer = self.pointer();
        // SAFETY: the trainer is borrowed alone, texts are NULL or end with a byte 0.
        let add =
            |kind, target, opts| check(|err| unsafe { sys::dllm_trainer_add_sink(trainer, kind, target, opts, err) });
        with_text(kind, |kind| {
            options.with("sink", |opts| match target {
                Some(path) => with_path(path, |path| add(kind, path, opts)),
                None => add(kind, std::ptr::null(), opts),
            })
        })
    }
}

impl TrainerView {
    /// A metric of the last step: "step" "loss" "lr" "grad_norm" "tokens" "tokens_per_second" ...
    ///
    /// # Errors
    /// An unknown key; the hint names the nearest.
    pub fn metric(&self, key: &str) -> Result<f64> {
        // SAFETY: the handle is alive, `key` ends with a byte 0.
        with_text(key, |key| {
            number(|out, err| unsafe { sys::dllm_trainer_metric(self.handle.as_ptr(), key, out, err) })
        })
    }

    /// Metrics, options, the optimizer's arrays as a JSON object.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn describe(&self) -> Result<String> {
        // SAFETY: the handle is alive.
        text(|out, err| unsafe { sys::dllm_trainer_describe(self.handle.as_ptr(), out, err) })
    }

    /// The model in one of its roles.
    ///
    /// # Errors
    /// No moving average; the weights are lost.
    pub fn model(&self, role: Role) -> Result<Model> {
        let (name, turns) = match role {
            Role::Live => (c"live", Arc::clone(&self.turns)),
            Role::Ema => (c"ema", Arc::default()),
        };
        // SAFETY: the handle is alive, the name ends with a byte 0.
        let handle =
            make(|out, err| unsafe { sys::dllm_trainer_model(self.handle.as_ptr(), name.as_ptr(), out, err) })?;
        Ok(Model::of(handle, turns))
    }
}
