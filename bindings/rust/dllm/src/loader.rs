//! Batches of a dataset, in a reproducible order.

use crate::batch::Batch;
use crate::dataset::Dataset;
use crate::error::{Code, Error, Result, check};
use crate::handle::{Handle, make};
use crate::options::Options;
use dllm_sys as sys;

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
