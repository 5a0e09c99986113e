//! Batches of a dataset, in a reproducible order.

use crate::batch::Batch;
use crate::dataset::Dataset;
use crate::error::{Code, Error, Result, check};
use crate::handle::{Handle, make, with_path};
use crate::model::Model;
use crate::options::Options;
use crate::task::{self, Task};
use dllm_sys as sys;
use std::path::Path;

/// An iterator of batches. A seed and a position always give the same batch.
///
/// ```
/// use dllm::{Dataset, Loader, Tokenizer, options};
///
/// let tokenizer = Tokenizer::train(&Dataset::of(["one two three"], None)?, &options! { vocab_size: 270 }, None)?;
/// let data = Dataset::of(["one two", "two three"], Some(&tokenizer))?;
/// for batch in Loader::new(&data, &options! { batch: 1, length: 8, epochs: 1 })? {
///     assert_eq!(batch?.tensor("ids")?.shape(), [1, 8]);
/// }
/// # Ok::<(), dllm::Error>(())
/// ```
pub struct Loader {
    pub(crate) handle: Handle<sys::dllm_loader>,
}

impl Loader {
    /// A loader at position 0; options of kind "loader": batch, length, seed, epochs, ...
    ///
    /// # Errors
    /// Raw text, a split without rows.
    pub fn new(data: &Dataset, options: &Options) -> Result<Self> {
        let data = data.handle.as_ptr();
        // SAFETY: handles are alive or NULL.
        let handle =
            options.with("loader", |opts| make(|out, err| unsafe { sys::dllm_loader_new(data, opts, out, err) }))?;
        Ok(Self { handle })
    }

    /// Moves to a position, as [`Loader::position`] returned it.
    ///
    /// # Errors
    /// Past the end.
    pub fn seek(&mut self, position: i64) -> Result<()> {
        // SAFETY: the handle is borrowed alone.
        check(|err| unsafe { sys::dllm_loader_seek(self.handle.as_ptr(), position, err) })
    }

    /// Writes what a teacher computes from the rows of one epoch to a folder, and returns the number of new chunks;
    /// options of kind "anchors".
    ///
    /// # Errors
    /// A layer that the teacher lacks, anchors of another teacher or of other options, a full disk, cancelled.
    pub fn write_anchors(
        &mut self,
        teacher: &Model,
        path: impl AsRef<Path>,
        options: &Options,
        task: Option<&Task>,
    ) -> Result<i64> {
        let _turn = teacher.turns.work(task)?;
        let (loader, model) = (self.handle.as_ptr(), teacher.handle.as_ptr());
        let (task, mut chunks) = (task::pointer(task), 0);
        options.with("anchors", |opts| {
            with_path(path.as_ref(), |path| {
                // SAFETY: handles are alive or NULL, the path ends with a byte 0, the turn is the only one that works.
                check(|err| unsafe {
                    sys::dllm_loader_write_anchors(loader, model, path, opts, task, &raw mut chunks, err)
                })
            })
        })?;
        Ok(chunks)
    }

    /// Rows read since the start.
    pub fn position(&self) -> i64 {
        // SAFETY: the handle is alive.
        unsafe { sys::dllm_loader_position(self.handle.as_ptr()) }
    }
}

impl Iterator for Loader {
    type Item = Result<Batch>;

    /// None at the end of the data.
    fn next(&mut self) -> Option<Self::Item> {
        // SAFETY: the handle is borrowed alone.
        match make(|out, err| unsafe { sys::dllm_loader_next(self.handle.as_ptr(), out, err) }) {
            Ok(handle) => Some(Ok(Batch { handle })),
            Err(Error::Call { code: Code::OutOfRange, .. }) => None,
            Err(problem) => Some(Err(problem)),
        }
    }
}
