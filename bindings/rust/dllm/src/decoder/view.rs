//! What any thread may read of a decoder, also while it runs.

use crate::batch::Batch;
use crate::error::Result;
use crate::handle::{Handle, array, make, number, text, with_text};
use crate::turns::Turns;
use dllm_sys as sys;
use std::sync::Arc;

/// Reads a decoder, on any thread, also while it runs: it shows the last complete step and does not wait. Clones are
/// cheap. It keeps the decoder's memory.
#[derive(Clone)]
pub struct DecoderView {
    pub(super) handle: Arc<Handle<sys::dllm_decoder>>,
    pub(super) turns: Arc<Turns>,
}

/// The state of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// Open.
    Masked,
    /// Has a token that a later step may change.
    Provisional,
    /// Decided.
    Final,
    /// Given by the caller.
    Fixed,
    /// One that this crate has no name for.
    Other(u8),
}

impl From<State> for u8 {
    fn from(state: State) -> Self {
        let number = match state {
            State::Masked => sys::DLLM_MASKED,
            State::Provisional => sys::DLLM_PROVISIONAL,
            State::Final => sys::DLLM_FINAL,
            State::Fixed => sys::DLLM_FIXED,
            State::Other(number) => return number,
        };
        Self::try_from(number).unwrap_or(Self::MAX)
    }
}

impl From<u8> for State {
    fn from(number: u8) -> Self {
        match i32::from(number) {
            sys::DLLM_MASKED => Self::Masked,
            sys::DLLM_PROVISIONAL => Self::Provisional,
            sys::DLLM_FINAL => Self::Final,
            sys::DLLM_FIXED => Self::Fixed,
            _ => Self::Other(number),
        }
    }
}

/// Positions that are copied without a second call.
const ROOM: usize = 512;

impl DecoderView {
    fn at(&self) -> *const sys::dllm_decoder {
        self.handle.as_ptr()
    }

    /// The canvas of a slot: prompt and answer, the mask id where a position is open.
    ///
    /// # Errors
    /// A slot that is not in use.
    pub fn ids(&self, slot: i64) -> Result<Vec<i32>> {
        // SAFETY: the handle is alive, `dst` has `room`.
        array(ROOM, |dst, room, count, err| unsafe { sys::dllm_decoder_ids(self.at(), slot, dst, room, count, err) })
    }

    /// The state of every position.
    ///
    /// # Errors
    /// A slot that is not in use.
    pub fn states(&self, slot: i64) -> Result<Vec<State>> {
        // SAFETY: as in ids.
        let numbers: Vec<u8> = array(ROOM, |dst, room, count, err| unsafe {
            sys::dllm_decoder_states(self.at(), slot, dst, room, count, err)
        })?;
        Ok(numbers.into_iter().map(State::from).collect())
    }

    /// The probability each token had when its position was last predicted.
    ///
    /// # Errors
    /// A slot that is not in use.
    pub fn confidence(&self, slot: i64) -> Result<Vec<f32>> {
        // SAFETY: as in ids.
        array(ROOM, |dst, room, count, err| unsafe {
            sys::dllm_decoder_confidence(self.at(), slot, dst, room, count, err)
        })
    }

    /// A metric of a slot (None: all slots together): "done" "steps" "nfe" "open" "decided" "finish" ...
    ///
    /// # Errors
    /// A slot that is not in use, an unknown key.
    pub fn metric(&self, slot: Option<i64>, key: &str) -> Result<f64> {
        let slot = slot.unwrap_or(-1);
        // SAFETY: the handle is alive, `key` ends with a byte 0.
        with_text(key, |key| number(|out, err| unsafe { sys::dllm_decoder_metric(self.at(), slot, key, out, err) }))
    }

    /// The trace of a slot, one JSON object per line; the decoder was made with option trace.
    ///
    /// # Errors
    /// A slot that is not in use, a decoder without a trace.
    pub fn trace(&self, slot: i64) -> Result<String> {
        // SAFETY: the handle is alive.
        text(|out, err| unsafe { sys::dllm_decoder_trace(self.at(), slot, out, err) })
    }

    /// Options, slots and metrics as a JSON object.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn describe(&self) -> Result<String> {
        // SAFETY: the handle is alive.
        text(|out, err| unsafe { sys::dllm_decoder_describe(self.at(), out, err) })
    }

    /// The predictions of [`Decoder::predict`](super::Decoder::predict): positions, token, probability, argmax, entropy, top_ids, ...
    ///
    /// # Errors
    /// A slot that is not in use, or was not predicted.
    pub fn statistics(&self, slot: i64) -> Result<Batch> {
        // SAFETY: the handle is alive.
        let handle = make(|out, err| unsafe { sys::dllmx_decoder_statistics(self.at(), slot, out, err) })?;
        Ok(Batch { handle })
    }
}
