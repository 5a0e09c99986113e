//! The texts of requests that are over.

use super::{Generator, Prompt};
use crate::error::{Code, Error, Result};
use crate::json::Json;
use crate::options::{Options, Value};
use crate::task::Task;
use std::fmt;

/// The text of a request with what is known of it. The lists have one entry per position of the canvas.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Generation {
    /// The answer; of a text with holes: the whole text.
    pub text: String,
    /// The prompt and the answer.
    pub whole: String,
    /// "full", "end_token", "stop_text" or "incomplete"; "open": the request is not over.
    pub finish: String,
    /// The texts in the holes of an infill.
    pub holes: Vec<String>,
    /// Tokens of the prompt.
    pub prompt_tokens: i64,
    /// Tokens of the answer.
    pub completion_tokens: i64,
    /// Open positions.
    pub open: i64,
    /// Denoising steps.
    pub steps: i64,
    /// Forward passes of the model.
    pub nfe: i64,
    /// Token ids.
    pub ids: Vec<i32>,
    /// The probability each token had when its position was last predicted.
    pub confidence: Vec<f32>,
    /// The policy.
    pub policy: String,
    /// The seed.
    pub seed: i64,
}

/// The answer.
impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Generation {
    /// None: `description` is not what the library writes about a request that has not failed.
    pub(crate) fn read(description: &str) -> Option<Self> {
        let all = Json::read(description)?;
        let text = |key: &str| all.get(key)?.text();
        let number = |key: &str| all.get(key)?.number();
        Some(Self {
            text: text("completion")?,
            whole: text("text")?,
            finish: text("finish")?,
            holes: all.get("holes").map_or_else(Vec::new, |holes| holes.items(Json::text)),
            prompt_tokens: number("prompt_tokens")?,
            completion_tokens: number("completion_tokens")?,
            open: number("open")?,
            steps: number("steps")?,
            nfe: number("nfe")?,
            ids: all.get("ids")?.items(Json::number),
            confidence: all.get("confidence")?.items(|value| Some(value.number().unwrap_or(f32::NAN))),
            policy: text("policy")?,
            seed: number("seed")?,
        })
    }
}

impl Generator {
    /// A request as it is now.
    ///
    /// # Errors
    /// No such request; the error of a request that failed.
    pub fn generation(&mut self, request: i64) -> Result<Generation> {
        self.text(request, "completion")?;
        let description = self.describe(Some(request))?;
        Generation::read(&description)
            .ok_or_else(|| Error::new(Code::Internal, format!("request {request} has no readable description"), ""))
    }

    /// Decodes one request, as [`Generator::add`] takes it, and removes it. Other open requests take their steps too.
    ///
    /// # Errors
    /// As [`Generator::add`] and [`Generator::run`]; the error of the request.
    pub fn generate(
        &mut self,
        prompt: impl Into<Prompt>,
        options: &Options,
        task: Option<&Task>,
    ) -> Result<Generation> {
        let request = self.add(prompt, options, task)?;
        let made = self.run(task, |_| {}).and_then(|()| self.generation(request));
        self.remove(request)?;
        made
    }

    /// Fills the holes of a text, all at once: `<mask:N>` is N open tokens, `<mask>` is one.
    ///
    /// # Errors
    /// As [`Generator::generate`]; a text like a hole that is not one.
    pub fn infill(&mut self, text: impl Into<String>, options: &Options, task: Option<&Task>) -> Result<Generation> {
        self.generate(Prompt::infill(text), options, task)
    }

    /// Decodes several requests together, as many at a time as the generator has slots. Prompt i has seed + i. One
    /// result per prompt: an error of one leaves the others alone.
    pub fn batch<P: Into<Prompt>>(
        &mut self,
        prompts: impl IntoIterator<Item = P>,
        options: &Options,
        task: Option<&Task>,
    ) -> Vec<Result<Generation>> {
        let (mut done, mut wave) = (Vec::new(), Vec::new());
        for (index, prompt) in (0..).zip(prompts) {
            let (prompt, options) = (prompt.into(), seeded(options, index));
            let mut added = self.add(prompt.clone(), &options, task);
            if wave.iter().any(Result::is_ok) && matches!(&added, Err(full) if full.code() == Code::ResourceExhausted) {
                self.finish(&mut wave, &mut done, task);
                added = self.add(prompt, &options, task);
            }
            wave.push(added);
        }
        self.finish(&mut wave, &mut done, task);
        done
    }

    /// Runs the requests of a batch that were added, and removes them.
    fn finish(&mut self, wave: &mut Vec<Result<i64>>, done: &mut Vec<Result<Generation>>, task: Option<&Task>) {
        let ran = if wave.iter().any(Result::is_ok) { self.run(task, |_| {}) } else { Ok(()) };
        for added in wave.drain(..) {
            done.push(added.and_then(|request| {
                let made = self.generation(request);
                self.remove(request)?;
                match (&ran, made) {
                    (Err(ended), Ok(made)) if made.finish == "open" => {
                        Err(Error::new(ended.code(), ended.to_string(), ended.hint()))
                    }
                    (_, made) => made,
                }
            }));
        }
    }
}

/// The settings of a prompt of a batch.
fn seeded(options: &Options, index: i64) -> Options {
    match options.get("seed") {
        None => options.clone().set("seed", index),
        Some(Value::Int(seed)) => options.clone().set("seed", seed.wrapping_add(index)),
        Some(_) => options.clone(), // for the library to refuse
    }
}
