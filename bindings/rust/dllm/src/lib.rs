//! Train and decode diffusion language models from Rust, over the C ABI of libdllm.
//!
//! One module per noun, with the noun's C name; `include/dllm/<noun>.h` has the contracts. Settings are [`options!`],
//! a failed call returns [`Error`] with code, message and hint, an object frees itself when it is dropped, in any order.
//!
//! ```no_run
//! use dllm::{Generator, RequestOptions, options};
//!
//! let mut generator = Generator::load("runs/first", &options! {}, None)?;
//! println!("{}", generator.generate("the cat", &RequestOptions::new().length(48), None)?);
//! # Ok::<(), dllm::Error>(())
//! ```
//!
//! # Threads
//!
//! Every object is `Send` and `Sync`. What the C headers call `Threads any` takes `&self`. What they call `owner` takes
//! `&mut self`; a [`Model`] has an order of its own in place of that, so that it can be shared: one call works on it at a
//! time (forward, new weights, a training step), others wait, and decoders go on meanwhile. [`DecoderView`] and
//! [`TrainerView`] read while the decoder or the trainer runs. [`Task`] cancels from any thread.
//!
//! # Callbacks
//!
//! A callback is `FnMut(&Event) -> impl Answer` on the thread of the call. It may return nothing, `ControlFlow`, or a
//! `Result`. Its error comes out as [`Error::Callback`], its panic goes on when the call has returned. A callback may
//! read, cancel, save and set (see [`Event::trainer`]); a step, a training step or a forward inside it returns
//! [`Code::FailedPrecondition`].
//!
//! # JSON
//!
//! Configs and documents come in, descriptions go out, as JSON text: this crate has no dependencies, and leaves the
//! choice of a JSON crate to the program.
//!
//! # Async programs
//!
//! The feature `stream` adds `Generator::stream_async` and `Ticket::stream`, a `Stream` of the crate futures-core. A step
//! takes a thread of its own, so that it does not block an executor.

mod adapter;
mod answer;
mod batch;
pub mod checkpoint;
mod dataset;
mod decoder;
mod engine;
mod error;
mod event;
mod generator;
mod handle;
pub mod hub;
mod json;
mod library;
mod loader;
mod lua;
mod model;
mod objective;
mod options;
mod queue;
mod schedule;
mod settings;
mod source;
mod task;
mod tensor;
mod tokenizer;
mod trainer;
mod turns;

pub use adapter::Adapter;
pub use answer::{AnswerEnd, AnswerText};
pub use batch::Batch;
pub use checkpoint::Checkpoint;
pub use dataset::Dataset;
pub use decoder::{Decoder, DecoderView, State, Step, Steps};
pub use dllm_sys::LoadError;
pub use engine::Engine;
pub use error::{Code, Error, Result};
pub use event::{Answer, Event, EventKind, RunningTrainer};
#[cfg(feature = "stream")]
pub use generator::PieceStream;
pub use generator::{Generation, Generator, Piece, Pieces, Prompt};
#[cfg(not(feature = "link"))]
pub use library::load_from;
pub use library::{
    Level, Sink, abi_version, build_info, describe_plugin, has_feature, load, log_config, log_lines, log_to, names,
    plugins, version,
};
pub use loader::Loader;
pub use lua::{Lua, Scriptable};
pub use model::Model;
pub use objective::{Objective, RowLosses};
pub use options::{Options, Value, schema};
#[cfg(feature = "stream")]
pub use queue::TicketStream;
pub use queue::{Queue, Ticket, TicketPieces};
pub use schedule::{Schedule, ScheduleValues};
pub use settings::*;
pub use source::Source;
pub use task::{Progress, Task};
pub use tensor::{DType, Element, Tensor};
pub use tokenizer::{Chat, Message, Tokenizer};
pub use trainer::{Role, Trainer, TrainerView};

/// `{:?}` of objects that have no fields to show.
macro_rules! debug_by_name {
    ($($type:ty: $name:literal;)*) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct($name).finish_non_exhaustive()
            }
        }
    )*};
}

debug_by_name! {
    AnswerText: "AnswerText";
    Batch: "Batch";
    Checkpoint: "Checkpoint";
    Dataset: "Dataset";
    Decoder: "Decoder";
    DecoderView: "DecoderView";
    Engine: "Engine";
    Generator: "Generator";
    Loader: "Loader";
    Lua<'_>: "Lua";
    Model: "Model";
    Objective: "Objective";
    Pieces<'_>: "Pieces";
    Queue: "Queue";
    RunningTrainer: "RunningTrainer";
    Schedule: "Schedule";
    Source: "Source";
    Step: "Step";
    Steps<'_>: "Steps";
    Ticket: "Ticket";
    TicketPieces: "TicketPieces";
    Tokenizer: "Tokenizer";
    Trainer: "Trainer";
    TrainerView: "TrainerView";
}

#[cfg(feature = "stream")]
debug_by_name! {
    PieceStream<'_>: "PieceStream";
    TicketStream: "TicketStream";
}
