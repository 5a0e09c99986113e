//! Text to ids and back.

use crate::batch::Batch;
use crate::dataset::Dataset;
use crate::error::{Result, check};
use crate::handle::{Buffer, Handle, array, length, make, number, text, with_path, with_text};
use crate::json;
use crate::options::Options;
use crate::source::Source;
use crate::task::{self, Task};
use dllm_sys as sys;
use std::path::Path;

/// Converts text to ids and back. It never changes: threads may share it.
pub struct Tokenizer {
    pub(crate) handle: Handle<sys::dllm_tokenizer>,
}

/// One message of a conversation, for [`Tokenizer::chat`] and [`Generator`](crate::Generator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// "system", "user", "assistant".
    pub role: &'a str,
    /// What is said.
    pub content: &'a str,
}

/// A rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    /// The ids.
    pub ids: Vec<i32>,
    /// For each id false for text of the assistant, which is trained.
    pub keep: Vec<bool>,
}

/// Messages as the JSON that the library reads.
pub(crate) fn conversation(messages: &[Message<'_>]) -> String {
    let message = |said: &Message<'_>| {
        format!("{{\"role\": {}, \"content\": {}}}", json::quote(said.role), json::quote(said.content))
    };
    json::list(messages.iter().map(message))
}

impl Tokenizer {
    /// Loads a tokenizer.json, a folder that holds one, a run, or the vocabulary of a GGUF file.
    ///
    /// # Errors
    /// A missing or damaged file, a kind of tokenizer that dllm does not have.
    pub fn load(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Self::load_task(path, options, None)
    }

    /// The same of an object store, with a task that can cancel it.
    ///
    /// # Errors
    /// As [`Tokenizer::load`], cancelled.
    pub fn load_task(path: impl AsRef<Path>, options: &Options, task: Option<&Task>) -> Result<Self> {
        let task = task::pointer(task);
        let handle = options.with("tokenizer", |opts| {
            with_path(path.as_ref(), |path| {
                // SAFETY: options and task are alive or NULL, the path ends with a byte 0.
                make(|out, err| unsafe { sys::dllm_tokenizer_load_task(path, opts, task, out, err) })
            })
        })?;
        Ok(Self { handle })
    }

    /// Loads a tokenizer from files in memory.
    ///
    /// # Errors
    /// As [`Tokenizer::load`].
    pub fn load_source(source: &Source, options: &Options) -> Result<Self> {
        let source = source.handle.as_ptr();
        let handle = options.with("tokenizer", |opts| {
            // SAFETY: handles are alive or NULL.
            make(|out, err| unsafe { sys::dllm_tokenizer_load_source(source, opts, out, err) })
        })?;
        Ok(Self { handle })
    }

    /// Trains a byte-level BPE tokenizer on a dataset without a tokenizer; options of kind "tokenizer_train".
    ///
    /// # Errors
    /// The dataset holds ids, cancelled.
    pub fn train(texts: &Dataset, options: &Options, task: Option<&Task>) -> Result<Self> {
        let (texts, task) = (texts.handle.as_ptr(), task::pointer(task));
        let handle = options.with("tokenizer_train", |opts| {
            // SAFETY: handles are alive or NULL.
            make(|out, err| unsafe { sys::dllm_tokenizer_train(texts, opts, task, out, err) })
        })?;
        Ok(Self { handle })
    }

    /// Saves a tokenizer.json.
    ///
    /// # Errors
    /// A file that was not written by this function, no permission, a full disk.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        // SAFETY: the handle is alive, the path ends with a byte 0.
        with_path(path.as_ref(), |path| {
            check(|err| unsafe { sys::dllm_tokenizer_save(self.handle.as_ptr(), path, err) })
        })
    }

    /// The size of the vocabulary: the largest id plus one.
    #[expect(clippy::len_without_is_empty, reason = "a vocabulary has a token")]
    pub fn len(&self) -> usize {
        // SAFETY: the handle is alive.
        usize::try_from(unsafe { sys::dllm_tokenizer_size(self.handle.as_ptr()) }).unwrap_or(0)
    }

    /// The id of one token by its text, or of "mask", "bos", "eos", "pad".
    ///
    /// # Errors
    /// No such token.
    pub fn id(&self, name: &str) -> Result<i32> {
        // SAFETY: the handle is alive, `name` ends with a byte 0.
        with_text(name, |name| {
            number(|out, err| unsafe { sys::dllm_tokenizer_id(self.handle.as_ptr(), name, out, err) })
        })
    }

    /// The ids of a text (UTF-8; other bytes are kept as bytes).
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn encode(&self, text: impl AsRef<[u8]>) -> Result<Vec<i32>> {
        let text = text.as_ref();
        let (start, size) = (text.as_ptr().cast(), length(text.len()));
        let room = text.len() + 8; // a token has a byte or more, and few come before and behind the text
        // SAFETY: the handle is alive, `start` has `size` bytes.
        array(room, |dst, room, count, err| unsafe {
            sys::dllm_tokenizer_encode(self.handle.as_ptr(), start, size, dst, room, count, err)
        })
    }

    /// The ids of a long text, with a task that can cancel it.
    ///
    /// # Errors
    /// Cancelled.
    pub fn encode_task(&self, text: impl AsRef<[u8]>, task: Option<&Task>) -> Result<Vec<i32>> {
        let (text, task) = (text.as_ref(), task::pointer(task));
        let (start, size) = (text.as_ptr().cast(), length(text.len()));
        // SAFETY: handles are alive or NULL, `start` has `size` bytes.
        let handle = make(|out, err| unsafe {
            sys::dllm_tokenizer_encode_task(self.handle.as_ptr(), start, size, task, out, err)
        })?;
        Batch { handle }.tensor("ids")?.read()
    }

    /// The text of ids; bytes that are not valid UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// An id out of the vocabulary.
    pub fn decode(&self, ids: &[i32]) -> Result<String> {
        // SAFETY: the handle is alive, `ids` has this length.
        text(|out, err| unsafe {
            sys::dllm_tokenizer_decode(self.handle.as_ptr(), ids.as_ptr(), length(ids.len()), out, err)
        })
    }

    /// As many ids as give whole characters: the text, and how many were used. Keep the rest for the next call.
    ///
    /// # Errors
    /// An id out of the vocabulary.
    pub fn decode_stream(&self, ids: &[i32]) -> Result<(String, usize)> {
        let (shown, mut used) = (Buffer::new()?, 0);
        // SAFETY: handles are alive, `ids` has this length.
        check(|err| unsafe {
            let count = length(ids.len());
            sys::dllm_tokenizer_decode_stream(self.handle.as_ptr(), ids.as_ptr(), count, shown.as_ptr(), &mut used, err)
        })?;
        Ok((shown.text(), usize::try_from(used).unwrap_or(0)))
    }

    /// Renders a conversation with the chat template; options of kind "chat".
    ///
    /// # Errors
    /// No template, messages that it refuses, a template that fails, cancelled.
    pub fn chat(&self, messages: &[Message<'_>], options: &Options, task: Option<&Task>) -> Result<Chat> {
        self.chat_json(&conversation(messages), options, task)
    }

    /// The same of JSON: a list of messages, or an object with "messages" and "tools".
    ///
    /// # Errors
    /// As [`Tokenizer::chat`]; broken JSON.
    pub fn chat_json(&self, messages: &str, options: &Options, task: Option<&Task>) -> Result<Chat> {
        let (start, size, task) = (messages.as_ptr().cast(), length(messages.len()), task::pointer(task));
        let handle = options.with("chat", |opts| {
            // SAFETY: handles are alive or NULL, `start` has `size` bytes.
            make(|out, err| unsafe {
                sys::dllm_tokenizer_chat_task(self.handle.as_ptr(), start, size, opts, task, out, err)
            })
        })?;
        let rows = Batch { handle };
        let keep = rows.tensor("keep")?.read::<u8>()?;
        Ok(Chat { ids: rows.tensor("ids")?.read()?, keep: keep.into_iter().map(|flag| flag != 0).collect() })
    }
}
