//! A request of a queue that is read while it is decided.

use super::Ticket;
use crate::error::Result;
use crate::generator::{Generation, Piece};
use crate::task::Task;
use std::iter::FusedIterator;

/// The version of a request before its first step.
const SUBMITTED: i64 = 1;

/// The iterator of [`Ticket::pieces`]. It ends when the request is over, and after an error.
pub struct TicketPieces {
    ticket: Ticket,
    task: Option<Task>,
    seen: i64,
    last: Option<Generation>,
    done: bool,
}

impl TicketPieces {
    /// The generation after the last piece, None before the first one. Its finish is "open" before the request is over.
    #[must_use]
    pub fn generation(&self) -> Option<&Generation> {
        self.last.as_ref()
    }

    #[cfg(feature = "stream")]
    pub(super) fn is_over(&self) -> bool {
        self.done
    }

    fn piece(&mut self) -> Result<Piece> {
        let (piece, now) = self.ticket.piece(self.seen, self.task.as_ref())?;
        (self.seen, self.done, self.last) = (now.version, now.is_over, Some(now.made));
        Ok(piece)
    }
}

impl Iterator for TicketPieces {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let piece = self.piece();
        self.done |= piece.is_err();
        Some(piece)
    }
}

impl FusedIterator for TicketPieces {}

impl Ticket {
    /// What is new each time that the request has changed. A slow loop misses steps and no text. One loop reads the pieces of
    /// a request. The iterator keeps the request.
    #[must_use]
    pub fn pieces(&self, task: Option<&Task>) -> TicketPieces {
        TicketPieces { ticket: self.clone(), task: task.cloned(), seen: SUBMITTED, last: None, done: false }
    }
}
