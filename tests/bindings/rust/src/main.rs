//! The ten points of `tests/bindings/scenario.md`.

use dllm::{Batch, Code, Decoder, Error, EventKind, Model, Options, Result, Task, options};
use dllm_tests::{Folder, Tiny, hash};
use std::fmt;
use std::sync::mpsc;
use std::thread;

fn main() -> Result<()> {
    let mut tiny = Tiny::new()?;
    let points: [(&str, Point); 10] = [
        ("version", |_| version()),
        ("option", |tiny| option(tiny)),
        ("load", |tiny| load(tiny)),
        ("encode", |tiny| encode(tiny)),
        ("decode", |tiny| decode(tiny, "fresh", &Tiny::decoding())),
        ("train", train),
        ("cancel", cancel),
        ("callback", |tiny| callback(tiny)),
        ("close", |_| close()),
        ("thousand", |tiny| thousand(tiny)),
    ];
    for (index, (name, point)) in points.iter().enumerate() {
        point(&mut tiny)?;
        println!("point {} {name} ok", index + 1);
    }
    Ok(())
}

type Point = fn(&mut Tiny) -> Result<()>;

fn version() -> Result<()> {
    assert_eq!(dllm::abi_version()?, 1);
    let version = dllm::version()?;
    assert_eq!(version.split('.').filter(|part| part.parse::<u32>().is_ok()).count(), 3, "{version}");
    assert!(dllm::names("objective")?.contains(&"mdlm".to_string()));
    assert!(dllm::build_info()?.contains("compiler"));
    Ok(())
}

fn option(tiny: &Tiny) -> Result<()> {
    let (message, hint) = match Decoder::new(&tiny.model, &options! { stepz: 4 }) {
        Err(Error::Call { code: Code::NotFound, message, hint }) => (message, hint),
        Err(other) => return Err(other),
        Ok(_) => panic!("stepz is no option"),
    };
    assert!(message.contains("stepz") && hint.contains("steps"), "{message} {hint}");
    let wrong = Decoder::new(&tiny.model, &options! { steps: "many" }).unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);
    Ok(())
}

fn load(tiny: &Tiny) -> Result<()> {
    let folder = Folder::new("load");
    let path = folder.path().join("model");
    tiny.model.save(&path, &options! {}, None)?;
    let loaded = Model::load(&tiny.engine, &path, &options! {}, None)?;
    assert_eq!(loaded.param_names(), tiny.model.param_names());
    for name in loaded.param_names() {
        assert_eq!(loaded.param(&name)?.bytes()?, tiny.model.param(&name)?.bytes()?, "{name}");
    }
    let missing = Model::load(&tiny.engine, folder.path().join("nowhere"), &options! {}, None).unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    assert!(missing.to_string().contains("nowhere"), "{missing}");
    Ok(())
}

fn encode(tiny: &Tiny) -> Result<()> {
    let text = "the cat sat on the m\u{f6}\u{f6}n";
    let ids = tiny.tokenizer.encode(text)?;
    assert_eq!(tiny.tokenizer.decode(&ids)?, text);
    assert_eq!(tiny.tokenizer.encode_task(text, None)?, ids);
    println!("encode {}", hash(&tiny.tokenizer.encode("the cat sat on the mat")?));
    Ok(())
}

fn decode(tiny: &Tiny, name: &str, settings: &Options) -> Result<()> {
    let (mut pushed, mut pulled, mut seen) = (tiny.decoder(settings)?, tiny.decoder(settings)?, 0);
    pushed.run(None, |event| {
        if event.kind() == EventKind::DecodeStep {
            seen += 1;
            assert_eq!(event.i32s("ids").map(<[i32]>::len), event.i32s("states").map(<[i32]>::len));
            assert!(event.i32s("no such key").is_none());
        }
    })?;
    let active: Vec<i64> = pulled.steps(None).map(|step| step.map(|step| step.active())).collect::<Result<_>>()?;
    assert_eq!(active.last(), Some(&0));
    assert_eq!(seen, active.len());
    assert_eq!(pushed.ids(0)?, pulled.ids(0)?);
    println!("{name} {}", hash(&pushed.ids(0)?));
    Ok(())
}

fn train(tiny: &mut Tiny) -> Result<()> {
    let mut trainer = tiny.trainer()?;
    let mut losses = Vec::new();
    for batch in tiny.loader.by_ref().take(10) {
        losses.push(trainer.step(&batch?, None)?);
    }
    assert!(losses[9] < losses[0], "{losses:?}");
    decode(tiny, "trained", &Tiny::decoding().set("temperature", 0.8))
}

fn cancel(tiny: &mut Tiny) -> Result<()> {
    let mut trainer = tiny.trainer()?;
    let (task, (started, wait)) = (Task::new(), mpsc::channel());
    let remote = task.clone();
    let other = thread::spawn(move || {
        wait.recv().expect("a first step");
        remote.cancel();
    });
    let ended = trainer.run(&mut tiny.loader, 1_000_000, Some(&task), |_| {
        let _ = started.send(());
    });
    other.join().expect("the thread that cancels");
    assert_eq!(ended.unwrap_err().code(), Code::Cancelled);
    assert!(trainer.metric("step")? >= 1.0);
    let batch = tiny.loader.next().expect("endless")?;
    assert!(trainer.step(&batch, None)?.is_finite());
    Ok(())
}

#[derive(Debug, PartialEq)]
struct Mine(u32);

impl fmt::Display for Mine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mine {}", self.0)
    }
}

impl std::error::Error for Mine {}

fn callback(tiny: &Tiny) -> Result<()> {
    let mut decoder = tiny.decoder(&Tiny::decoding())?;
    let failed = decoder.run(None, |_| Err::<(), _>(Mine(7))).unwrap_err();
    assert_eq!(failed.into_callback::<Mine>().expect("my own error"), Mine(7));
    decoder.run(None, |_| {})?;
    assert_eq!(decoder.metric(None, "open")?.to_bits(), 0.0_f64.to_bits());
    Ok(())
}

/// A second close, or a use after it, does not compile: `drop` takes the object (see the crate's `compile_fail` examples).
fn close() -> Result<()> {
    let tiny = Tiny::new()?;
    let mut decoder = Decoder::new(&tiny.model, &options! { steps: 2, gen_length: 4 })?;
    drop(tiny.engine);
    drop(tiny.model);
    decoder.start(&[], 7)?;
    decoder.run(None, |_| {})?;
    assert_eq!(decoder.ids(0)?.len(), 4);
    drop(tiny.tokenizer);
    drop(tiny.data);
    let mut loader = tiny.loader;
    assert!(loader.next().expect("endless")?.names().contains(&"ids".to_string()));
    Ok(())
}

fn thousand(tiny: &Tiny) -> Result<()> {
    let round = |count: i32| -> Result<()> {
        for number in 0..count {
            let batch = Batch::of_ids(&[number, 1, 2])?;
            assert_eq!(batch.tensor("ids")?.view::<i32>()?, [number, 1, 2]);
            drop((Task::new(), Decoder::new(&tiny.model, &options! {})?));
        }
        Ok(())
    };
    round(50)?;
    let before = resident();
    round(1000)?;
    let grown = resident().saturating_sub(before);
    assert!(grown < 20 << 20, "memory grew by {grown} bytes");
    Ok(())
}

/// Bytes of memory of this process; 0 where there is no /proc.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}
