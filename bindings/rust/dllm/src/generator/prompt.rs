//! What a request begins with.

use crate::options::Options;
use crate::tokenizer::{self, Message};

/// The text that an answer continues, a conversation, or a text with holes.
///
/// ```
/// use dllm::{Message, Prompt};
///
/// let _: [Prompt; 3] = [
///     "the cat".into(),
///     (&[Message { role: "user", content: "Hi" }]).into(),
///     Prompt::infill("the<mask:3> sat"),
/// ];
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    key: &'static str,
    text: String,
}

impl Prompt {
    /// A text with holes: `<mask:N>` is N open tokens, `<mask>` is one.
    #[must_use]
    pub fn infill(text: impl Into<String>) -> Self {
        Self { key: "infill", text: text.into() }
    }

    /// A conversation as JSON, such as `[{"role": "user", "content": "Hi"}]`.
    #[must_use]
    pub fn conversation(json: impl Into<String>) -> Self {
        Self { key: "messages", text: json.into() }
    }

    /// The settings of a request with this text.
    pub(crate) fn put(self, options: &Options) -> Options {
        options.clone().set(self.key, self.text)
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self { key: "prompt", text }
    }
}

impl From<&String> for Prompt {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        text.to_string().into()
    }
}

impl From<&[Message<'_>]> for Prompt {
    fn from(messages: &[Message<'_>]) -> Self {
        Self::conversation(tokenizer::conversation(messages))
    }
}

impl<const N: usize> From<&[Message<'_>; N]> for Prompt {
    fn from(messages: &[Message<'_>; N]) -> Self {
        messages.as_slice().into()
    }
}

impl From<&Vec<Message<'_>>> for Prompt {
    fn from(messages: &Vec<Message<'_>>) -> Self {
        messages.as_slice().into()
    }
}
