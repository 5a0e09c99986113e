//! Documents to train on.

use crate::error::{Result, check};
use crate::handle::{Handle, length, make, with_path};
use crate::json;
use crate::model::Model;
use crate::options::Options;
use crate::task::{self, Task};
use crate::tokenizer::Tokenizer;
use dllm_sys as sys;
use std::path::Path;

/// Documents: ids where there is a tokenizer, else raw text, for [`Tokenizer::train`].
pub struct Dataset {
    pub(crate) handle: Handle<sys::dllm_dataset>,
}

fn pointer(tokenizer: Option<&Tokenizer>) -> *const sys::dllm_tokenizer {
    tokenizer.map_or(std::ptr::null(), |tokenizer| tokenizer.handle.as_ptr())
}

impl Dataset {
    /// Opens a file, a folder, or a mixture of parts: text, JSON lines, token files; options of kind "dataset".
    ///
    /// # Errors
    /// A missing or damaged file, a bad line (the message has file and line), cancelled.
    pub fn open(
        path: impl AsRef<Path>,
        tokenizer: Option<&Tokenizer>,
        options: &Options,
        task: Option<&Task>,
    ) -> Result<Self> {
        let (tokenizer, task) = (pointer(tokenizer), task::pointer(task));
        let handle = options.with("dataset", |opts| {
            with_path(path.as_ref(), |path| {
                // SAFETY: handles are alive or NULL, the path ends with a byte 0.
                make(|out, err| unsafe { sys::dllm_dataset_open(path, tokenizer, opts, task, out, err) })
            })
        })?;
        Ok(Self { handle })
    }

    /// An empty dataset, to fill.
    ///
    /// # Errors
    /// Options that do not fit.
    pub fn new(tokenizer: Option<&Tokenizer>, options: &Options) -> Result<Self> {
        let tokenizer = pointer(tokenizer);
        let handle = options.with("dataset", |opts| {
            // SAFETY: handles are alive or NULL.
            make(|out, err| unsafe { sys::dllm_dataset_new(tokenizer, opts, out, err) })
        })?;
        Ok(Self { handle })
    }

    /// A dataset of texts.
    ///
    /// # Errors
    /// As [`Dataset::new`] and [`Dataset::add`].
    pub fn of<T: AsRef<str>>(texts: impl IntoIterator<Item = T>, tokenizer: Option<&Tokenizer>) -> Result<Self> {
        let mut made = Self::new(tokenizer, &Options::new())?;
        for text in texts {
            made.add(text.as_ref())?;
        }
        Ok(made)
    }

    /// Adds one text.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn add(&mut self, text: &str) -> Result<()> {
        self.add_json(&json::object("text", &json::quote(text)))
    }

    /// Adds one document, a JSON object as in a line of a JSONL file: text, prompt and response, messages, or ids.
    ///
    /// # Errors
    /// JSON that is not a document.
    pub fn add_json(&mut self, document: &str) -> Result<()> {
        let (start, size) = (document.as_ptr().cast(), length(document.len()));
        // SAFETY: the handle is borrowed alone, `start` has `size` bytes.
        check(|err| unsafe { sys::dllm_dataset_add(self.handle.as_ptr(), start, size, err) })
    }

    /// The number of documents.
    pub fn len(&self) -> usize {
        // SAFETY: the handle is alive.
        usize::try_from(unsafe { sys::dllm_dataset_size(self.handle.as_ptr()) }).unwrap_or(0)
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Saves the ids as a token file; options of kind "save".
    ///
    /// # Errors
    /// Raw text, a file that is there, no permission, a full disk, cancelled.
    pub fn save(&self, path: impl AsRef<Path>, options: &Options, task: Option<&Task>) -> Result<()> {
        let (data, task) = (self.handle.as_ptr(), task::pointer(task));
        options.with("save", |opts| {
            // SAFETY: handles are alive or NULL, the path ends with a byte 0.
            with_path(path.as_ref(), |path| check(|err| unsafe { sys::dllm_dataset_save(data, path, opts, task, err) }))
        })
    }

    /// Appends the trajectories of the rows that the file lacks, and returns their number; options of kind
    /// "trajectories". No teacher: for method left_to_right.
    ///
    /// # Errors
    /// Raw text, an option that the method does not use, a file of another form, a full disk, cancelled.
    pub fn extract_trajectories(
        &mut self,
        teacher: Option<&Model>,
        path: impl AsRef<Path>,
        options: &Options,
        task: Option<&Task>,
    ) -> Result<i64> {
        let _turn = teacher.map(|model| model.turns.work(task)).transpose()?;
        let model = teacher.map_or(std::ptr::null_mut(), |model| model.handle.as_ptr());
        let (data, task, mut rows) = (self.handle.as_ptr(), task::pointer(task), 0);
        options.with("trajectories", |opts| {
            with_path(path.as_ref(), |path| {
                // SAFETY: handles are alive or NULL, the path ends with a byte 0, the turn is the only one that works.
                check(|err| unsafe {
                    sys::dllm_dataset_extract_trajectories(data, model, path, opts, task, &raw mut rows, err)
                })
            })
        })?;
        Ok(rows)
    }
}
