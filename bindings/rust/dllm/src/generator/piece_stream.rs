//! A request that an async program reads step by step.

#[cfg(test)]
mod tests;

use super::{Generation, Generator, Piece, Prompt};
use crate::error::{Code, Error, Result};
use crate::options::Options;
use crate::task::Task;
use futures_core::Stream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The step that is under way.
enum Step {
    None,
    /// A thread takes it, and wakes the program.
    Running(Waker),
    /// As `Running`, and the stream is dropped: the thread removes the request.
    Abandoned,
    Done(Box<Result<(Piece, Generation)>>),
}

/// The stream of [`Generator::stream_async`]. It ends when the request is over, and after an error. Its drop removes the
/// request.
///
/// A step runs on a thread of its own and wakes the task that polls. A drop in the middle of a step does not wait: the
/// thread removes the request, and the next call of the generator waits for that. Without a task of the program the step
/// ends within milliseconds.
pub struct PieceStream<'a> {
    generator: &'a mut Generator,
    request: i64,
    task: Task,
    /// The task is not the program's, and a drop cancels it.
    own_task: bool,
    step: Arc<Mutex<Step>>,
    last: Option<Generation>,
    done: bool,
}

fn lock(step: &Mutex<Step>) -> MutexGuard<'_, Step> {
    step.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On the thread of a step.
fn take(mut generator: Generator, request: i64, task: &Task, step: &Mutex<Step>) {
    let made = Box::new(generator.piece(request, Some(task)));
    let before = std::mem::replace(&mut *lock(step), Step::Done(made));
    match before {
        Step::Running(waker) => waker.wake(),
        Step::Abandoned => drop(generator.remove(request)),
        Step::None | Step::Done(_) => {}
    }
}

impl PieceStream<'_> {
    /// The generation after the last piece, None before the first one. Its finish is "open" before the request is over.
    #[must_use]
    pub fn generation(&self) -> Option<&Generation> {
        self.last.as_ref()
    }

    /// Starts a thread for the next step.
    fn begin(&mut self, waker: &Waker) -> Result<()> {
        self.generator.wait();
        *lock(&self.step) = Step::Running(waker.clone());
        let twin = Generator::of(Arc::clone(&self.generator.handle), Arc::clone(&self.generator.turns));
        let (request, task, step) = (self.request, self.task.clone(), Arc::clone(&self.step));
        let thread = std::thread::Builder::new().name("dllm step".into());
        match thread.spawn(move || take(twin, request, &task, &step)) {
            Ok(thread) => self.generator.away = Some(thread),
            Err(problem) => {
                *lock(&self.step) = Step::None;
                return Err(Error::new(Code::ResourceExhausted, format!("no thread for a step: {problem}"), ""));
            }
        }
        Ok(())
    }
}

impl Stream for PieceStream<'_> {
    type Item = Result<Piece>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let step = Arc::clone(&self.step);
        let mut state = lock(&step);
        match std::mem::replace(&mut *state, Step::None) {
            Step::Done(made) => {
                let piece = made.map(|(piece, made)| {
                    self.done = made.finish != "open";
                    self.last = Some(made);
                    piece
                });
                self.done |= piece.is_err();
                Poll::Ready(Some(piece))
            }
            Step::Running(_) => {
                *state = Step::Running(context.waker().clone());
                Poll::Pending
            }
            Step::None | Step::Abandoned => {
                drop(state);
                match self.begin(context.waker()) {
                    Ok(()) => Poll::Pending,
                    Err(problem) => {
                        self.done = true;
                        Poll::Ready(Some(Err(problem)))
                    }
                }
            }
        }
    }
}

impl Drop for PieceStream<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.step);
        if matches!(*state, Step::Running(_)) {
            *state = Step::Abandoned;
            if self.own_task {
                self.task.cancel();
            }
            return;
        }
        drop(state);
        let _ = self.generator.remove(self.request);
    }
}

impl Generator {
    /// As [`Generator::stream`], for async programs: the pieces are a [`Stream`] of the crate futures-core. The steps run
    /// on other threads. The prompt becomes tokens on the thread that calls.
    ///
    /// # Errors
    /// As [`Generator::add`].
    ///
    /// # Panics
    /// As [`Task::new`], without a task.
    pub fn stream_async(
        &mut self,
        prompt: impl Into<Prompt>,
        options: &Options,
        task: Option<&Task>,
    ) -> Result<PieceStream<'_>> {
        let request = self.add(prompt, options, task)?;
        Ok(PieceStream {
            generator: self,
            request,
            own_task: task.is_none(),
            task: task.cloned().unwrap_or_else(Task::new),
            step: Arc::new(Mutex::new(Step::None)),
            last: None,
            done: false,
        })
    }

    /// Waits until no step of a stream runs: a stream that was dropped or forgotten may have one.
    pub(super) fn wait(&mut self) {
        if let Some(thread) = self.away.take() {
            let _ = thread.join();
        }
    }
}
