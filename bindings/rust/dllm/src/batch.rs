//! Named arrays: token rows, prepared noise, results of a forward pass.

use crate::error::{Result, check};
use crate::handle::{Handle, length, make, text_at, with_text};
use crate::tensor::{Element, Tensor, dims_of};
use dllm_sys as sys;

/// Named arrays. `include/dllm/batch.h` has the reserved names with their types and shapes.
///
/// ```
/// let mut batch = dllm::Batch::new()?;
/// batch.set("ids", &[1, 3], &[5, 6, 7_i32])?;
/// assert_eq!(batch.names(), ["ids"]);
/// assert_eq!(batch.tensor("ids")?.view::<i32>()?, [5, 6, 7]);
/// # Ok::<(), dllm::Error>(())
/// ```
pub struct Batch {
    pub(crate) handle: Handle<sys::dllm_batch>,
}

impl Batch {
    /// An empty batch.
    ///
    /// # Errors
    /// The library cannot be loaded.
    pub fn new() -> Result<Self> {
        // SAFETY: outs are alive.
        Ok(Self { handle: make(|out, err| unsafe { sys::dllm_batch_new(out, err) })? })
    }

    /// One row of ids.
    ///
    /// # Errors
    /// As [`Batch::new`].
    pub fn of_ids(ids: &[i32]) -> Result<Self> {
        let mut made = Self::new()?;
        made.set("ids", &[1, ids.len()], ids)?;
        Ok(made)
    }

    /// Copies an array into the batch; replaces an array of that name.
    ///
    /// # Errors
    /// A shape that does not fit the values; a reserved name with another type or rank.
    pub fn set<T: Element>(&mut self, name: &str, shape: &[usize], values: &[T]) -> Result<()> {
        let dims = dims_of(shape, values.len())?;
        let (batch, rank, data) = (self.handle.as_ptr(), length(dims.len()), values.as_ptr().cast());
        with_text(name, |name| {
            // SAFETY: the handle is borrowed alone; `data` has product(dims) elements of this type.
            check(|err| unsafe { sys::dllm_batch_set(batch, name, T::NUMBER, dims.as_ptr(), rank, data, err) })
        })
    }

    /// A copy of one array.
    ///
    /// # Errors
    /// No array of that name; the hint names the nearest.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        // SAFETY: the handle is alive, `name` ends with a byte 0.
        let handle = with_text(name, |name| {
            make(|out, err| unsafe { sys::dllm_batch_array(self.handle.as_ptr(), name, out, err) })
        })?;
        Ok(Tensor { handle })
    }

    /// The names, in the order in which they were first set.
    pub fn names(&self) -> Vec<String> {
        // SAFETY: the handle is alive; a name is valid until the batch changes, and copied here.
        let name = |index| unsafe { text_at(sys::dllm_batch_name(self.handle.as_ptr(), index)) };
        (0..length(self.len())).filter_map(name).collect()
    }

    /// The number of arrays.
    pub fn len(&self) -> usize {
        // SAFETY: the handle is alive.
        usize::try_from(unsafe { sys::dllm_batch_count(self.handle.as_ptr()) }).unwrap_or(0)
    }

    /// Whether there is no array.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
