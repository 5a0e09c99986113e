//! A request of a queue that an async program reads while it is decided.

use super::{Ticket, TicketPieces};
use crate::error::{Code, Error, Result};
use crate::generator::{Generation, Piece};
use crate::task::Task;
use futures_core::Stream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Who has the pieces.
enum Turn {
    /// The stream, with the piece of the last wait.
    Here(Box<TicketPieces>, Option<Result<Piece>>),
    /// A thread waits for the next piece, and wakes the program.
    Away(Waker),
}

/// The stream of [`Ticket::stream`]. It ends when the request is over, and after an error.
///
/// A wait runs on a thread of its own and wakes the task that polls. A drop in the middle of a wait does not wait itself: it
/// ends the thread within milliseconds, where the task is not one of the program.
pub struct TicketStream {
    turn: Arc<Mutex<Turn>>,
    last: Option<Generation>,
    done: bool,
    task: Task,
    /// The task is not the program's, and a drop cancels it.
    own_task: bool,
}

fn lock(turn: &Mutex<Turn>) -> MutexGuard<'_, Turn> {
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TicketStream {
    /// The generation after the last piece, None before the first one. Its finish is "open" before the request is over.
    #[must_use]
    pub fn generation(&self) -> Option<&Generation> {
        self.last.as_ref()
    }

    /// Starts a thread for the next piece.
    fn begin(&self, mut pieces: Box<TicketPieces>) -> Result<()> {
        let turn = Arc::clone(&self.turn);
        let wait = move || {
            let piece = pieces.next();
            let before = std::mem::replace(&mut *lock(&turn), Turn::Here(pieces, piece));
            drop(turn); // the program may drop the stream, and the last ticket with it
            if let Turn::Away(waker) = before {
                waker.wake();
            }
        };
        match std::thread::Builder::new().name("dllm wait".into()).spawn(wait) {
            Ok(_) => Ok(()),
            Err(problem) => Err(Error::new(Code::ResourceExhausted, format!("no thread for a wait: {problem}"), "")),
        }
    }
}

impl Stream for TicketStream {
    type Item = Result<Piece>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let turn = Arc::clone(&self.turn);
        let mut turn = lock(&turn);
        match std::mem::replace(&mut *turn, Turn::Away(context.waker().clone())) {
            Turn::Here(pieces, Some(piece)) => {
                (self.last, self.done) = (pieces.generation().cloned(), pieces.is_over());
                *turn = Turn::Here(pieces, None);
                Poll::Ready(Some(piece))
            }
            Turn::Here(pieces, None) => match self.begin(pieces) {
                Ok(()) => Poll::Pending,
                Err(problem) => {
                    self.done = true;
                    Poll::Ready(Some(Err(problem)))
                }
            },
            Turn::Away(_) => Poll::Pending,
        }
    }
}

impl Drop for TicketStream {
    fn drop(&mut self) {
        if self.own_task {
            self.task.cancel();
        }
    }
}

impl Ticket {
    /// As [`Ticket::pieces`], for async programs: the pieces are a [`Stream`] of the crate futures-core.
    ///
    /// # Panics
    /// As [`Task::new`], without a task.
    #[must_use]
    pub fn stream(&self, task: Option<&Task>) -> TicketStream {
        let (own_task, task) = (task.is_none(), task.cloned().unwrap_or_else(Task::new));
        let pieces = Box::new(self.pieces(Some(&task)));
        TicketStream { turn: Arc::new(Mutex::new(Turn::Here(pieces, None))), last: None, done: false, task, own_task }
    }
}
