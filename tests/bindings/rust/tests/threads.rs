//! `Send` and `Sync` are stated from the manifest's `threads`: the types, the signatures, and threads that use them.

use dllm::{
    Batch, Checkpoint, Code, Dataset, Decoder, DecoderView, Engine, Error, Generator, Loader, Lua, Model, Objective,
    Options, Queue, Result, Schedule, Source, Step, Task, Tensor, Ticket, TicketPieces, Tokenizer, Trainer,
    TrainerView, options,
};
use dllm_sys::{FUNCTIONS, Threads};
use dllm_tests::Tiny;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const fn shared<T: Send + Sync + 'static>() {}

const _: () = {
    shared::<Batch>();
    shared::<Checkpoint>();
    shared::<Dataset>();
    shared::<Decoder>();
    shared::<DecoderView>();
    shared::<Engine>();
    shared::<Error>();
    shared::<Generator>();
    shared::<Loader>();
    shared::<Lua<'static>>();
    shared::<Model>();
    shared::<Objective>();
    shared::<Options>();
    shared::<Queue>();
    shared::<Schedule>();
    shared::<Source>();
    shared::<Step>();
    shared::<Task>();
    shared::<Ticket>();
    shared::<TicketPieces>();
    shared::<Tensor>();
    shared::<Tokenizer>();
    shared::<Trainer>();
    shared::<TrainerView>();
};

/// The functions of a source file: (signature, body).
fn functions(source: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        let indent = line.len() - start.len();
        if !["fn ", "pub fn ", "pub(crate) fn "].iter().any(|head| start.starts_with(head)) {
            continue;
        }
        let mut signature = line.to_string();
        while !signature.trim_end().ends_with('{') {
            signature += lines.next().expect("a signature that ends");
        }
        let mut body = String::new();
        for line in lines.by_ref().take_while(|line| line.trim_end() != format!("{}}}", " ".repeat(indent))) {
            body += line;
        }
        found.push((signature, body));
    }
    found
}

/// The files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the crate's sources").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// What is `Threads owner` or `callback` in C takes its object as `&mut`, has a turn of its model, or is in the list.
#[test]
fn owner_functions_borrow_their_object_alone() {
    let exceptions = HashMap::from([
        ("dllm_options_set_i64", "on options that the function made"),
        ("dllm_options_set_f64", "on options that the function made"),
        ("dllm_options_set_str", "on options that the function made"),
        ("dllm_options_set_json", "on options that the function made"),
        ("dllm_event_kind", "an event stays on the thread of its callback"),
        ("dllm_event_i64", "an event stays on the thread of its callback"),
        ("dllm_event_f64", "an event stays on the thread of its callback"),
        ("dllm_event_str", "an event stays on the thread of its callback"),
        ("dllm_event_i32s", "an event stays on the thread of its callback"),
        ("dllm_event_f32s", "an event stays on the thread of its callback"),
        ("dllm_event_describe", "an event stays on the thread of its callback"),
        ("dllm_trainer_set_f64", "allowed in a callback: RunningTrainer is on the thread of the run"),
        ("dllm_checkpoint_save", "its callers borrow the trainer alone, or are in a callback of its run"),
    ]);
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bindings/rust");
    let unbound = std::fs::read_to_string(crates.join("unbound.txt")).expect("a text");
    let is_unbound = |name: &str| unbound.lines().any(|line| line.split(' ').next() == Some(name));
    let alone = FUNCTIONS.iter().filter(|function| function.threads != Threads::Any).map(|function| function.name);
    let alone: Vec<&str> = alone.filter(|name| !is_unbound(name)).collect();
    assert!(alone.len() > 30, "{}", alone.len());
    let folder = crates.join("dllm/src");
    let mut checked = 0;
    for path in sources(&folder) {
        for (signature, body) in functions(&std::fs::read_to_string(&path).expect("a text")) {
            for name in alone.iter().filter(|name| body.contains(&format!("sys::{name}("))) {
                checked += 1;
                let kept = signature.contains("&mut self")
                    || ["turns.work(", "turns.remake("].iter().any(|turn| body.contains(turn));
                assert!(kept || exceptions.contains_key(name), "{}: {name} in {signature}", path.display());
            }
        }
    }
    assert!(checked >= alone.len(), "{checked} calls of {} functions", alone.len());
}

#[test]
fn threads_share_a_model_that_is_trained() -> Result<()> {
    let mut tiny = Tiny::new()?;
    let (model, tokenizer, loader) = (&tiny.model, &tiny.tokenizer, &mut tiny.loader);
    let mut trainer = Trainer::new(model, &Objective::new("mdlm", None, &options! {})?, &options! { lr: 1e-3 })?;
    let view = trainer.view();
    thread::scope(|scope| {
        let decoding = (0..2).map(|seed| {
            scope.spawn(move || -> Result<usize> {
                let mut decoder = Decoder::new(model, &options! { steps: 8, gen_length: 8 })?;
                decoder.start(&tokenizer.encode("the cat")?, seed)?;
                decoder.steps(None).try_fold(0, |steps, step| step.map(|_| steps + 1))
            })
        });
        let decoding: Vec<_> = decoding.collect();
        let forward = scope.spawn(move || -> Result<i64> {
            let rows = Batch::of_ids(&tokenizer.encode("the cat sat")?)?;
            for _ in 0..5 {
                model.forward(&rows, &options! {}, None)?.tensor("logits")?;
                let name = &model.param_names()[0];
                model.set_param(name, &model.param(name)?)?;
            }
            Ok(model.version())
        });
        let training = scope.spawn(move || -> Result<()> {
            let objective = Objective::new("mdlm", None, &options! {})?;
            trainer.run(loader, 20, None, |_| {})?;
            drop(Trainer::new(model, &objective, &options! {})?); // waits for the decoders' steps
            Ok(())
        });
        for thread in decoding {
            assert_eq!(thread.join().expect("a decoder")?, 8);
        }
        assert!(forward.join().expect("forward")? > 5);
        training.join().expect("training")?;
        Ok::<(), Error>(())
    })?;
    assert!((view.metric("step")? - 20.0).abs() < 0.5);
    Ok(())
}

#[test]
fn a_view_reads_while_the_decoder_runs() -> Result<()> {
    let tiny = Tiny::new()?;
    let mut decoder = tiny.decoder(&Tiny::decoding())?;
    let view = decoder.view();
    let before = view.ids(0)?;
    let running = thread::spawn(move || decoder.run(None, |_| {}));
    while view.metric(None, "open")? > 0.0 {
        assert_eq!(view.ids(0)?.len(), before.len());
        thread::yield_now();
    }
    running.join().expect("the run")?;
    assert_ne!(view.ids(0)?, before); // the view keeps the decoder that the thread dropped
    Ok(())
}

#[test]
fn a_deadline_ends_a_call() -> Result<()> {
    let mut tiny = Tiny::new()?;
    let mut trainer = tiny.trainer()?;
    let (task, start) = (Task::with_deadline(Duration::from_millis(50)), Instant::now());
    let ended = trainer.run(&mut tiny.loader, 1_000_000, Some(&task), |_| {});
    assert_eq!(ended.unwrap_err().code(), Code::DeadlineExceeded);
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(task.is_cancelled() && task.progress().done < 1_000_000, "{:?}", task.progress());
    Ok(())
}
