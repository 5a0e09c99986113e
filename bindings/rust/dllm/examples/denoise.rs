//! Shows a text while it is decoded: open positions as dots, the newest tokens in bold.
//!
//!     cargo run --example denoise -- MODEL [PROMPT] [--steps N] [--length N] [--seed N] [--seconds N]
//!
//! Ctrl-C ends the decoding and leaves the text as it is.

use dllm::{Code, Decoder, Engine, Error, EventKind, Model, Task, Tokenizer, options};
use std::ffi::c_int;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

const USAGE: &str = "usage: denoise MODEL [PROMPT] [--steps N] [--length N] [--seed N] [--seconds N]";

struct Arguments {
    model: String,
    prompt: String,
    steps: i64,
    length: i64,
    seed: i64,
    seconds: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match denoise(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut found =
        Arguments { model: String::new(), prompt: String::new(), steps: 32, length: 48, seed: 1, seconds: None };
    while let Some(word) = words.next() {
        let mut number = || -> Result<i64, String> {
            let value = words.next().ok_or_else(|| format!("{word} needs a number"))?;
            value.parse().map_err(|_| format!("{word} needs a number, not {value}"))
        };
        match word.as_str() {
            "--steps" => found.steps = number()?,
            "--length" => found.length = number()?,
            "--seed" => found.seed = number()?,
            "--seconds" => found.seconds = Some(number()?.unsigned_abs()),
            option if option.starts_with("--") => return Err(format!("there is no option {option}")),
            _ if found.model.is_empty() => found.model = word,
            _ => found.prompt = word,
        }
    }
    if found.model.is_empty() { Err("which model?".into()) } else { Ok(found) }
}

fn denoise(arguments: &Arguments) -> dllm::Result<()> {
    let model = Model::load(&Engine::new(&options! {})?, &arguments.model, &options! {}, None)?;
    let tokenizer = Tokenizer::load(&arguments.model, &options! {})?;
    let settings = options! { steps: arguments.steps, gen_length: arguments.length };
    let mut decoder = Decoder::new(&model, &settings)?;
    decoder.start(&tokenizer.encode(&arguments.prompt)?, arguments.seed)?;

    let task = Task::new();
    task.set_deadline(arguments.seconds.map(Duration::from_secs));
    cancel_on_interrupt(&task);
    let (mask, in_place) = (model.get("mask_id")?, io::stdout().is_terminal());
    let ended = decoder.run(Some(&task), |event| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if event.kind() == EventKind::DecodeStep {
            let (ids, changed) = (event.i32s("ids").unwrap_or_default(), event.i32s("changed").unwrap_or_default());
            let line = picture(&tokenizer, ids, changed, mask, in_place)?;
            let (before, after) = if in_place { ("\r\x1b[K", "") } else { ("", "\n") };
            write!(io::stdout(), "{before}{:>3} {line}{after}", event.i64("step")?)?;
            io::stdout().flush()?;
        }
        Ok(())
    });
    if in_place {
        println!();
    }
    match ended {
        Err(Error::Call { code: Code::Cancelled | Code::DeadlineExceeded, message, .. }) => eprintln!("{message}"),
        other => other?,
    }
    let given: Vec<i32> = decoder.ids(0)?.into_iter().filter(|id| i64::from(*id) != mask).collect();
    println!("{}", tokenizer.decode(&given)?);
    Ok(())
}

/// The canvas on one line: "." for an open position, tokens that this step changed in bold where the terminal has it.
fn picture(tokenizer: &Tokenizer, ids: &[i32], changed: &[i32], mask: i64, bold: bool) -> dllm::Result<String> {
    let mut line = String::new();
    for (position, id) in (0..).zip(ids) {
        let text = if i64::from(*id) == mask { ".".into() } else { tokenizer.decode(&[*id])?.replace('\n', " ") };
        if bold && changed.contains(&position) {
            line += &format!("\x1b[1m{text}\x1b[0m");
        } else {
            line += &text;
        }
    }
    Ok(line)
}

static INTERRUPTED: OnceLock<Task> = OnceLock::new();

unsafe extern "C" {
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
}

extern "C" fn interrupt(_: c_int) {
    if let Some(task) = INTERRUPTED.get() {
        task.cancel(); // allowed in a signal handler
    }
}

fn cancel_on_interrupt(task: &Task) {
    const SIGINT: c_int = 2;
    if INTERRUPTED.set(task.clone()).is_ok() {
        // SAFETY: the handler only reads a OnceLock and cancels a task.
        unsafe { signal(SIGINT, interrupt) };
    }
}
