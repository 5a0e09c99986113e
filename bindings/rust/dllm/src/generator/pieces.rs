//! A request that is read step by step.

use super::{Generation, Generator, Prompt};
use crate::error::Result;
use crate::options::Options;
use crate::task::Task;
use std::iter::FusedIterator;

/// What one step added to a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece {
    /// New final text, may be empty; all of them together are the answer.
    pub text: String,
    /// The whole text, with `<mask:N>` for N open positions.
    pub canvas: String,
    /// Open positions.
    pub open: i64,
    /// Denoising steps so far.
    pub step: i64,
}

/// The iterator of [`Generator::stream`]. It ends when the request is over, and after an error. Its drop removes the
/// request.
pub struct Pieces<'a> {
    generator: &'a mut Generator,
    request: i64,
    task: Option<&'a Task>,
    last: Option<Generation>,
    done: bool,
}

impl Pieces<'_> {
    /// The generation after the last piece, None before the first one. Its finish is "open" before the request is over.
    pub fn generation(&self) -> Option<&Generation> {
        self.last.as_ref()
    }

    fn step(&mut self) -> Result<Piece> {
        let (piece, made) = self.generator.piece(self.request, self.task)?;
        self.done = made.finish != "open";
        self.last = Some(made);
        Ok(piece)
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let piece = self.step();
        self.done |= piece.is_err();
        Some(piece)
    }
}

impl FusedIterator for Pieces<'_> {}

impl Drop for Pieces<'_> {
    fn drop(&mut self) {
        let _ = self.generator.remove(self.request);
    }
}

impl Generator {
    /// One step, what it added to the text of a request, and the request after it.
    pub(super) fn piece(&mut self, request: i64, task: Option<&Task>) -> Result<(Piece, Generation)> {
        self.step(task)?;
        let made = self.generation(request)?;
        let piece = Piece {
            text: self.text(request, "next")?,
            canvas: self.text(request, "canvas")?,
            open: made.open,
            step: made.steps,
        };
        Ok((piece, made))
    }

    /// Adds a request, as [`Generator::add`] takes it, for a loop over its pieces, one per step. Other open requests take
    /// their steps too.
    ///
    /// # Errors
    /// As [`Generator::add`].
    pub fn stream<'a>(
        &'a mut self,
        prompt: impl Into<Prompt>,
        options: &Options,
        task: Option<&'a Task>,
    ) -> Result<Pieces<'a>> {
        let request = self.add(prompt, options, task)?;
        Ok(Pieces { generator: self, request, task, last: None, done: false })
    }
}
