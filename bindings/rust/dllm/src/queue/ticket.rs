//! One request of a queue.

use super::Shared;
use crate::error::{Code, Error, Result, check};
use crate::generator::{Generation, Piece};
use crate::handle::{text, with_text};
use crate::json::Json;
use crate::task::Task;
use dllm_sys as sys;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request that [`Queue::submit`](super::Queue::submit) has taken. Any thread may read it, wait for it and cancel it.
/// Clones are the same request: keep one on the thread that cancels. The drop of the last one removes the request.
#[derive(Clone)]
pub struct Ticket(Arc<Request>);

struct Request {
    queue: Arc<Shared>,
    number: i64,
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: the queue is alive; without an error it reports nothing.
        unsafe { sys::dllm_queue_remove(self.queue.handle.as_ptr(), self.number, std::ptr::null_mut()) };
    }
}

/// A request at one time.
pub(super) struct Now {
    pub(super) version: i64,
    pub(super) made: Generation,
    pub(super) is_over: bool,
}

impl Ticket {
    pub(super) fn of(queue: &Arc<Shared>, number: i64) -> Self {
        Self(Arc::new(Request { queue: Arc::clone(queue), number }))
    }

    fn pointer(&self) -> *mut sys::dllm_queue {
        self.0.queue.handle.as_ptr()
    }

    /// The number of the request, which no other request of the queue has.
    #[must_use]
    pub fn number(&self) -> i64 {
        self.0.number
    }

    /// Waits until the request is over, or for this time. Whether it is over.
    ///
    /// # Errors
    /// Cancelled: the request goes on.
    pub fn wait(&self, most: Option<Duration>, task: Option<&Task>) -> Result<bool> {
        let begin = Instant::now();
        let (mut version, mut left) = (0, most);
        loop {
            let (now, is_over) = self.0.queue.wait(self.number(), version, left, task)?;
            if is_over || left == Some(Duration::ZERO) {
                return Ok(is_over);
            }
            version = now;
            left = most.map(|most| most.saturating_sub(begin.elapsed()));
        }
    }

    /// A part of the text, as of the last complete step: "completion", "text", "next" or "canvas", as of
    /// [`Generator::text`](crate::Generator::text).
    ///
    /// # Errors
    /// No such part; the error of a request that failed.
    pub fn text(&self, part: &str) -> Result<String> {
        let (queue, request) = (self.pointer(), self.number());
        // SAFETY: the queue is alive, `part` ends with a byte 0.
        with_text(part, |part| text(|out, err| unsafe { sys::dllm_queue_text(queue, request, part, out, err) }))
    }

    /// The request as a JSON object: what [`Generator::describe`](crate::Generator::describe) has, and phase, version,
    /// seconds_waited and more.
    ///
    /// # Errors
    /// The queue forgot it: too many requests are over.
    pub fn describe(&self) -> Result<String> {
        self.0.queue.describe(self.number())
    }

    /// Waits for the end; the answer.
    ///
    /// # Errors
    /// Of the request: cancelled, after its timeout, that of a step. When the task ends the wait, the request goes on.
    pub fn generation(&self, task: Option<&Task>) -> Result<Generation> {
        self.wait(None, task)?;
        self.text("completion")?;
        Ok(self.now()?.made)
    }

    fn now(&self) -> Result<Now> {
        let description = self.describe()?;
        let unreadable = || Error::new(Code::Internal, "a request has no readable description", "");
        let all = Json::read(&description).ok_or_else(unreadable)?;
        Ok(Now {
            version: all.get("version").and_then(Json::number).ok_or_else(unreadable)?,
            is_over: all.get("phase").and_then(Json::text).as_deref() == Some("over"),
            made: Generation::read(&description).ok_or_else(unreadable)?,
        })
    }

    /// What is new when the version is above `seen`.
    pub(super) fn piece(&self, seen: i64, task: Option<&Task>) -> Result<(Piece, Now)> {
        self.0.queue.wait(self.number(), seen, None, task)?;
        self.text("completion")?; // the error of a request that failed, which has no generation
        let now = self.now()?; // before the text, which is then not older
        let piece =
            Piece { text: self.text("next")?, canvas: self.text("canvas")?, open: now.made.open, step: now.made.steps };
        Ok((piece, now))
    }

    /// Ends the request: whoever reads it gets [`Code::Cancelled`]. One that is over stays as it is.
    ///
    /// # Errors
    /// The queue forgot it: too many requests are over.
    pub fn cancel(&self) -> Result<()> {
        // SAFETY: the queue is alive.
        check(|err| unsafe { sys::dllm_queue_cancel(self.pointer(), self.number(), err) })
    }
}
