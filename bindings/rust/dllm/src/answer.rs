//! The text of a canvas while it is decided.

use crate::decoder::State;
use crate::error::{Error, Result};
use crate::handle::{Buffer, Handle, array, length, make, number, text};
use crate::options::Options;
use crate::tokenizer::Tokenizer;
use dllm_sys as sys;

/// Turns the ids and states of a canvas into text, from any loop that decides a canvas.
///
/// ```no_run
/// use dllm::{AnswerText, Decoder, Engine, Model, Tokenizer, options};
///
/// let model = Model::load(&Engine::new(&options! {})?, "runs/first", &options! {}, None)?;
/// let tokenizer = Tokenizer::load("runs/first", &options! {})?;
/// let mut decoder = Decoder::new(&model, &options! { gen_length: 48 })?;
/// let prompt = tokenizer.encode("the cat")?;
/// decoder.start(&prompt, 7)?;
/// let mut answer = AnswerText::new(&tokenizer, &options! { begin: prompt.len() })?;
/// while answer.update(&decoder.ids(0)?, &decoder.states(0)?)?.is_none() {
///     print!("{}", answer.next_text()?);
///     decoder.step(None)?;
/// }
/// println!("{}", answer.next_text()?);
/// # Ok::<(), dllm::Error>(())
/// ```
pub struct AnswerText {
    pub(crate) handle: Handle<sys::dllm_answer>,
}

/// Why an answer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerEnd {
    /// Every position is decided.
    Full,
    /// An end token is decided, and every position before it.
    EndToken,
    /// The text of the decided beginning contains a stop text.
    StopText,
}

impl AnswerText {
    /// An answer without a canvas. Options of kind "answer": begin, prompt, end_tokens, stop, stop_texts, stop_pattern.
    ///
    /// # Errors
    /// A stop that is not an id, an empty stop text.
    pub fn new(tokenizer: &Tokenizer, options: &Options) -> Result<Self> {
        let handle = options.with("answer", |opts| {
            // SAFETY: the tokenizer is alive, options are alive or NULL.
            make(|out, err| unsafe { sys::dllm_answer_new(tokenizer.handle.as_ptr(), opts, out, err) })
        })?;
        Ok(Self { handle })
    }

    /// Sets the canvas as it is now. None: the answer is not over.
    ///
    /// # Errors
    /// Not one state for each id.
    pub fn update(&mut self, ids: &[i32], states: &[State]) -> Result<Option<AnswerEnd>> {
        if ids.len() != states.len() {
            return Err(Error::invalid(format!("{} ids, {} states", ids.len(), states.len())));
        }
        let (count, numbers) = (length(ids.len()), states.iter().map(|state| u8::from(*state)).collect::<Vec<_>>());
        // SAFETY: the handle is alive, both arrays have this length.
        let end = number(|out, err| unsafe {
            sys::dllm_answer_update(self.handle.as_ptr(), ids.as_ptr(), numbers.as_ptr(), count, out, err)
        })?;
        Ok(match end {
            sys::DLLM_ANSWER_FULL => Some(AnswerEnd::Full),
            sys::DLLM_ANSWER_END_TOKEN => Some(AnswerEnd::EndToken),
            sys::DLLM_ANSWER_STOP_TEXT => Some(AnswerEnd::StopText),
            _ => None,
        })
    }

    /// The text up to the first masked position or the end of the answer.
    ///
    /// # Errors
    /// Out of memory.
    pub fn text(&mut self) -> Result<String> {
        // SAFETY: the handles are alive.
        text(|out, err| unsafe { sys::dllm_answer_text(self.handle.as_ptr(), out, err) })
    }

    /// The final text that is new since the last call.
    ///
    /// # Errors
    /// Final positions have changed whose text was returned.
    pub fn next_text(&mut self) -> Result<String> {
        // SAFETY: the handles are alive.
        text(|out, err| unsafe { sys::dllm_answer_next(self.handle.as_ptr(), out, err) })
    }

    /// One text per position of the canvas.
    ///
    /// # Errors
    /// Out of memory.
    pub fn cells(&mut self) -> Result<Vec<String>> {
        let all = Buffer::new()?;
        // SAFETY: the handles are alive, `dst` has `room`.
        let ends = array(256, |dst: *mut i64, room, count, err| unsafe {
            sys::dllm_answer_cells(self.handle.as_ptr(), all.as_ptr(), dst, room, count, err)
        })?;
        let mut begin = 0;
        let cell = |end: i64| {
            let end = usize::try_from(end).unwrap_or(begin);
            let bytes = all.bytes().get(std::mem::replace(&mut begin, end)..end).unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        Ok(ends.into_iter().map(cell).collect())
    }
}
