//! Requests of many threads, which one model answers.

mod pieces;
#[cfg(test)]
mod tests;
mod ticket;
#[cfg(feature = "stream")]
mod ticket_stream;

use crate::engine::Engine;
use crate::error::{Error, Result, check};
use crate::generator::{Generation, Prompt};
use crate::handle::{Handle, make, number, text, with_path};
use crate::model::Model;
use crate::options::{Options, Value};
use crate::task::{self, Task};
use crate::tokenizer::Tokenizer;
use crate::turns::{Decoding, Turns};
use dllm_sys as sys;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use pieces::TicketPieces;
pub use ticket::Ticket;
#[cfg(feature = "stream")]
pub use ticket_stream::TicketStream;

/// Answers the requests of many threads with one model. It decodes on a thread of its own, and requests join and leave
/// between two steps. The text of a request is the one that a [`Generator`](crate::Generator) returns for it.
///
/// ```no_run
/// use dllm::{Queue, RequestOptions, options};
///
/// let queue = Queue::load("runs/first", &options! { slots: 8 }, None)?;
/// std::thread::scope(|scope| {
///     for prompt in ["the cat", "the dog"] {
///         let queue = &queue;
///         scope.spawn(move || println!("{:?}", queue.generate(prompt, &RequestOptions::new().length(48), None)));
///     }
/// });
/// for piece in queue.submit("the cat", &options! { client: "ann" }, None)?.pieces(None) {
///     print!("{}", piece?.text);
/// }
/// # Ok::<(), dllm::Error>(())
/// ```
///
/// Tickets keep it alive. A model that a queue decodes with gets no new trainer.
pub struct Queue(Arc<Shared>);

/// A queue and what keeps its model as it is.
struct Shared {
    handle: Handle<sys::dllm_queue>, // dropped first: then nothing decodes
    decoding: Decoding,
}

impl Shared {
    /// The version of a request after a wait, and whether the request is over.
    fn wait(&self, request: i64, seen: i64, most: Option<Duration>, task: Option<&Task>) -> Result<(i64, bool)> {
        let (queue, task) = (self.handle.as_ptr(), task::pointer(task));
        let most = most.map_or(i64::MAX, |most| i64::try_from(most.as_millis()).unwrap_or(i64::MAX));
        let (mut version, mut over) = (seen, 0);
        // SAFETY: handles are alive or NULL, both outs are alive.
        check(|err| unsafe { sys::dllm_queue_wait(queue, request, most, task, &mut version, &mut over, err) })?;
        Ok((version, over != 0))
    }

    fn describe(&self, request: i64) -> Result<String> {
        // SAFETY: the handle is alive.
        text(|out, err| unsafe { sys::dllm_queue_describe(self.handle.as_ptr(), request, out, err) })
    }
}

impl Queue {
    /// Loads a model with its tokenizer on an engine of its own, as [`Generator::load`](crate::Generator::load) does.
    /// Options of kinds "queue" and "model" at one level; `engine`: options of kind "engine".
    ///
    /// # Errors
    /// As [`Generator::load`](crate::Generator::load).
    pub fn load(path: impl AsRef<Path>, options: &Options, task: Option<&Task>) -> Result<Self> {
        let (engine, others) = options.clone().take("engine");
        match engine {
            None => Self::load_from(None, path.as_ref(), &others, task),
            Some(Value::Options(settings)) => Self::load_on(&Engine::new(&settings)?, path, &others, task),
            Some(other) => Err(Error::invalid(format!("option engine is {other:?}, not the options of an engine"))),
        }
    }

    /// Loads a model with its tokenizer on this engine; options of kinds "queue" and "model" at one level.
    ///
    /// # Errors
    /// As [`Queue::load`].
    pub fn load_on(engine: &Engine, path: impl AsRef<Path>, options: &Options, task: Option<&Task>) -> Result<Self> {
        Self::load_from(Some(engine), path.as_ref(), options, task)
    }

    fn load_from(engine: Option<&Engine>, path: &Path, options: &Options, task: Option<&Task>) -> Result<Self> {
        let engine = engine.map_or(std::ptr::null_mut(), |engine| engine.handle.as_ptr());
        let (own, model) = options.of_load("queue")?;
        let task = task::pointer(task);
        let handle = own.with("queue", |own| {
            model.with("model", |model| {
                with_path(path, |path| {
                    // SAFETY: handles are alive or NULL, the path ends with a byte 0.
                    make(|out, err| unsafe { sys::dllm_queue_load(path, engine, model, own, task, out, err) })
                })
            })
        })?;
        Ok(Self::of(handle, Decoding::begin(&Arc::default())))
    }

    fn of(handle: Handle<sys::dllm_queue>, decoding: Decoding) -> Self {
        Self(Arc::new(Shared { handle, decoding }))
    }

    /// A queue of a model and a tokenizer; options of kind "queue".
    ///
    /// # Errors
    /// As [`Generator::new`](crate::Generator::new).
    pub fn new(model: &Model, tokenizer: &Tokenizer, options: &Options) -> Result<Self> {
        let decoding = Decoding::begin(&model.turns);
        let (of, with) = (model.handle.as_ptr(), tokenizer.handle.as_ptr());
        let handle = options.with("queue", |opts| {
            // SAFETY: handles are alive or NULL.
            make(|out, err| unsafe { sys::dllm_queue_new(of, with, opts, out, err) })
        })?;
        Ok(Self::of(handle, decoding))
    }

    fn pointer(&self) -> *mut sys::dllm_queue {
        self.0.handle.as_ptr()
    }

    fn turns(&self) -> &Arc<Turns> {
        self.0.decoding.turns()
    }

    /// Submits a request; its ticket, at once. Options of a request, and of kind "submission" at the same level: priority,
    /// client, timeout. The task ends this call, not the request.
    ///
    /// # Errors
    /// A request that cannot be read, as of [`Generator::add`](crate::Generator::add); too many requests wait; after
    /// [`Queue::drain`]. The ticket has later errors.
    pub fn submit(&self, prompt: impl Into<Prompt>, options: &Options, task: Option<&Task>) -> Result<Ticket> {
        let (queue, task) = (self.pointer(), task::pointer(task));
        let (own, request) = prompt.into().put(options).split("submission")?;
        let number = request.with_name("request", request.policy(), |request| {
            own.with("submission", |own| {
                // SAFETY: handles are alive or NULL.
                number(|out, err| unsafe { sys::dllm_queue_submit(queue, request, own, task, out, err) })
            })
        })?;
        Ok(Ticket::of(&self.0, number))
    }

    /// Decodes one request together with the requests of other threads, and removes it, also when the task ends the wait.
    ///
    /// # Errors
    /// As [`Queue::submit`]; the error of the request.
    pub fn generate(&self, prompt: impl Into<Prompt>, options: &Options, task: Option<&Task>) -> Result<Generation> {
        self.submit(prompt, options, task)?.generation(task)
    }

    /// Waits until any request has changed: until the version of the queue is above `seen`, or for this time. The version
    /// now.
    ///
    /// # Errors
    /// Cancelled.
    pub fn wait(&self, seen: i64, most: Option<Duration>, task: Option<&Task>) -> Result<i64> {
        Ok(self.0.wait(-1, seen, most, task)?.0)
    }

    /// The queue as a JSON object: slots, waiting, decoding, over, totals and more.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn describe(&self) -> Result<String> {
        self.0.describe(-1)
    }

    /// Takes no further requests, and waits until all are over.
    ///
    /// # Errors
    /// Cancelled: requests are refused all the same.
    pub fn drain(&self, task: Option<&Task>) -> Result<()> {
        // SAFETY: handles are alive or NULL.
        check(|err| unsafe { sys::dllm_queue_drain(self.pointer(), task::pointer(task), err) })
    }

    /// The model.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn model(&self) -> Result<Model> {
        // SAFETY: the handle is alive.
        let handle = make(|out, err| unsafe { sys::dllm_queue_model(self.pointer(), out, err) })?;
        Ok(Model::of(handle, Arc::clone(self.turns())))
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        // SAFETY: the handle is alive.
        let handle = make(|out, err| unsafe { sys::dllm_queue_tokenizer(self.pointer(), out, err) })?;
        Ok(Tokenizer { handle })
    }
}
