//! Arrays, options, files, scripts: what each noun does with values of Rust.

use dllm::{
    AnswerEnd, AnswerText, Batch, Checkpoint, Code, DType, Dataset, Decoder, Level, Loader, Lua, Message, Model,
    Objective, Result, Role, Schedule, Sink, Source, State, Tensor, Tokenizer, checkpoint, options,
};
use dllm_tests::{Folder, Tiny};
use std::sync::{Arc, Mutex};

#[test]
fn tensors_are_slices() -> Result<()> {
    let tensor = Tensor::new(&[2, 2], &[1.5_f64, 2.0, 3.0, 4.0])?;
    assert_eq!(tensor.view::<f64>()?, [1.5, 2.0, 3.0, 4.0]);
    assert_eq!(tensor.view::<f64>()?.as_ptr(), tensor.view::<f64>()?.as_ptr());
    assert_eq!(tensor.view::<f32>().unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(tensor.read::<f32>()?, [1.5, 2.0, 3.0, 4.0]);
    assert_eq!(tensor.read::<i32>().unwrap_err().code(), Code::InvalidArgument); // 1.5 is not whole
    assert_eq!(tensor.bytes()?.len(), 32);
    let empty = Tensor::new::<i32>(&[0, 3], &[])?;
    assert!(empty.is_empty() && empty.view::<i32>()?.is_empty() && empty.bytes()?.is_empty());
    assert_eq!(Tensor::new(&[], &[7_i64])?.view::<i64>()?, [7]);
    assert!(Tensor::new(&[2], &[1_u8]).unwrap_err().to_string().contains("[2]"));
    assert_eq!(format!("{tensor:?}"), "Tensor { dtype: F64, shape: [2, 2], .. }");
    Ok(())
}

#[test]
fn texts_with_a_byte_0_are_refused() {
    let refused = Batch::new().and_then(|mut batch| batch.set("i\0ds", &[1], &[1_i32]));
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(Checkpoint::open("a\0b").unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn options_have_types_lists_and_names() -> Result<()> {
    let settings = options! { pad: "<pad>", add_tokens: ["<a \"b\">", "<c>"], add_special: true };
    assert!(settings.to_json("tokenizer")?.contains(r#"<a \"b\">"#));
    let twice = options! { steps: 3 }.set("steps", 4_usize);
    assert_eq!(twice, options! { steps: 4_i64 });
    assert!(dllm::schema("decoder")?.contains("gen_length"));
    assert_eq!(dllm::schema("decodar").unwrap_err().code(), Code::NotFound);
    assert_eq!(options! { temperature: f64::NAN }.to_json("decoder").unwrap_err().code(), Code::InvalidArgument);
    let tiny = Tiny::new()?;
    Decoder::new(&tiny.model, &options! { policy: "low_confidence", steps: 2, suppress: [3, 4] })?;
    Ok(())
}

#[test]
fn requests_and_canvases() -> Result<()> {
    let tiny = Tiny::new()?;
    let mut decoder = Decoder::new(&tiny.model, &options! { steps: 4, gen_length: 4, trace: true })?;
    let first = decoder.add(&tiny.tokenizer.encode("the")?, &options! { seed: 3 })?;
    let second = decoder.add_canvas(&[Some(5), None, Some(6), None], &options! { seed: 4 })?;
    decoder.run(None, |_| {})?;
    let ids = decoder.ids(second)?;
    assert_eq!((ids[0], ids[2]), (5, 6));
    assert_eq!(decoder.states(second)?[..3], [State::Fixed, State::Final, State::Fixed]);
    assert_eq!(decoder.confidence(second)?.len(), 4);
    assert!(decoder.trace(second)?.lines().count() >= 2);
    assert!(decoder.describe()?.starts_with('{'));
    decoder.remove(first)?;
    assert_eq!(decoder.ids(first).unwrap_err().code(), Code::NotFound);
    Ok(())
}

#[test]
fn the_host_may_decide() -> Result<()> {
    let tiny = Tiny::new()?;
    let settings = Tiny::decoding().set("steps", 12).set("temperature", 0.8);
    let (mut mine, mut builtin) = (tiny.decoder(&settings)?, tiny.decoder(&settings)?);
    while mine.metric(None, "done")? < 0.5 {
        mine.predict(None)?;
        let said = mine.statistics(0)?;
        let (probability, token) = (said.tensor("probability")?.read::<f32>()?, said.tensor("token")?);
        let best =
            (0..probability.len()).rev().max_by(|a, b| probability[*a].total_cmp(&probability[*b])).expect("one");
        let position = said.tensor("positions")?.read::<i64>()?[best];
        mine.commit(0, &[position], &[token.view::<i32>()?[best]])?;
    }
    builtin.run(None, |_| {})?;
    assert_eq!(mine.ids(0)?, builtin.ids(0)?);
    assert_eq!(mine.commit(0, &[1], &[]).unwrap_err().code(), Code::InvalidArgument);
    Ok(())
}

#[test]
fn objectives_and_schedules() -> Result<()> {
    let tiny = Tiny::new()?;
    let schedule = Schedule::new("linear", &options! {})?;
    assert!((schedule.eval(&[0.25])?.alpha[0] - 0.75).abs() < 1e-6);
    assert!((Schedule::table(&[0.0, 1.0], &[1.0, 0.0], None, None)?.eval(&[0.25])?.alpha[0] - 0.75).abs() < 1e-6);
    assert_eq!(Schedule::table(&[0.0, 1.0], &[1.0], None, None).unwrap_err().code(), Code::InvalidArgument);
    let mut objective = Objective::new("mdlm", Some(&schedule), &options! {})?;
    let batch = Loader::new(&tiny.data, &options! { batch: 2, length: 16 })?.next().expect("a batch")?;
    let prepared = objective.prepare(Some(&tiny.model), &batch, 7, 0)?;
    assert!(prepared.names().contains(&"targets".to_string()));
    assert!(objective.loss(&tiny.model, &prepared, 7, None)? > 0.0);
    assert_eq!(objective.row_losses(&tiny.model, &batch, 7, None)?.sums.len(), 2);
    let logits = tiny.model.forward(&batch, &options! {}, None)?.tensor("logits")?;
    assert_eq!((logits.dtype(), logits.shape()), (DType::F32, vec![2, 16, tiny.tokenizer.len()]));
    Ok(())
}

#[test]
fn training_in_halves_checkpoints_and_roles() -> Result<()> {
    let mut tiny = Tiny::new()?;
    let folder = Folder::new("values");
    let objective = Objective::new("mdlm", None, &options! {})?;
    let mut trainer = dllm::Trainer::new(&tiny.model, &objective, &options! { lr: 1e-3, ema: 0.9, accumulate: 2 })?;
    trainer.add_sink("jsonl", Some(&folder.path().join("log.jsonl")), &options! {})?;
    for _ in 0..2 {
        let batch = tiny.loader.next().expect("endless")?;
        trainer.accumulate(&batch, None)?;
    }
    assert!(trainer.apply(None)?.is_finite());
    trainer.sync()?;
    let held_out =
        &mut Loader::new(&tiny.data, &options! { batch: 4, length: 32, split: "held_out", split_fraction: 0.5 })?;
    assert!(trainer.eval(held_out, 1, None)?.is_finite());
    assert_eq!(trainer.model(Role::Live)?.version(), tiny.model.version());
    assert_eq!(trainer.model(Role::Ema)?.get("hidden")?, 64);
    let saved = checkpoint::save(&mut trainer, Some(&tiny.loader), folder.path(), &options! {}, None)?;
    let opened = Checkpoint::open(&saved)?;
    opened.verify(None)?;
    let name = &tiny.model.param_names()[0];
    assert_eq!(opened.tensor(name)?.bytes()?, tiny.model.param(name)?.bytes()?);
    assert!(opened.describe()?.contains("tensors") && trainer.describe()?.contains("step"));
    assert_eq!(checkpoint::latest(folder.path().join("nowhere"))?, None);
    Ok(())
}

#[test]
fn a_model_from_bytes() -> Result<()> {
    let tiny = Tiny::new()?;
    let folder = Folder::new("source");
    tiny.model.set_tokenizer(&tiny.tokenizer)?;
    let path = folder.path().join("model");
    tiny.model.save(&path, &options! {}, None)?;
    let mut source = Source::new()?;
    for file in std::fs::read_dir(&path).expect("the folder") {
        let file = file.expect("a file");
        source.add(file.file_name().to_str().expect("UTF-8"), &std::fs::read(file.path()).expect("its bytes"))?;
    }
    assert_eq!(source.add_static("config.json", b"{}").unwrap_err().code(), Code::AlreadyExists);
    let model = Model::load_source(&tiny.engine, &source, &options! {}, None)?;
    let tokenizer = Tokenizer::load_source(&source, &options! {})?;
    drop(source);
    assert_eq!(model.config()?, tiny.model.config()?);
    assert_eq!(tokenizer.encode("the cat")?, tiny.tokenizer.encode("the cat")?);
    Ok(())
}

/// An answer grows and ends at a stop text.
fn answers(tokenizer: &Tokenizer) -> Result<()> {
    let said = "the cät sat. User: no";
    let ids = tokenizer.encode(said)?;
    let mut answer = AnswerText::new(tokenizer, &options! { stop_texts: [". User:"] })?;
    let (mut states, mut shown, mut end) = (vec![State::Masked; ids.len()], String::new(), None);
    for at in 0..ids.len() {
        if end.is_none() {
            states[at] = State::Final;
            end = answer.update(&ids, &states)?;
            shown += &answer.next_text()?;
        }
    }
    assert_eq!((shown.as_str(), end), ("the cät sat", Some(AnswerEnd::StopText)));
    assert_eq!(answer.text()?, shown);
    answer.update(&ids, &vec![State::Final; ids.len()])?;
    assert_eq!(answer.cells()?.len(), ids.len());
    assert_eq!(answer.cells()?.concat(), said);
    assert_eq!(answer.update(&ids, &states[1..]).unwrap_err().code(), Code::InvalidArgument);
    Ok(())
}

#[test]
fn conversations_and_datasets() -> Result<()> {
    let tiny = Tiny::new()?;
    let said = [Message { role: "user", content: "the <|mask|>" }, Message { role: "assistant", content: "\"cat\"" }];
    let template = options! { template: "{% for m in messages %}{{ m.content }}.{% endfor %}" };
    let chat = tiny.tokenizer.chat(&said, &template, None)?;
    assert_eq!(tiny.tokenizer.decode(&chat.ids)?, "the <|mask|>.\"cat\".");
    assert!(chat.keep[0] && !chat.keep[chat.keep.len() - 2]);
    assert_eq!(tiny.tokenizer.decode_stream(&chat.ids)?.1, chat.ids.len());
    answers(&tiny.tokenizer)?;
    assert_eq!(tiny.tokenizer.decode(&[-1]).unwrap_err().code(), Code::InvalidArgument);
    let mut data = Dataset::new(Some(&tiny.tokenizer), &options! {})?;
    data.add_json(r#"{"prompt": "the", "response": "cat"}"#)?;
    assert_eq!((data.len(), data.is_empty()), (1, false));
    assert!(data.add_json("nonsense").is_err());
    let mut once = Loader::new(&tiny.data, &options! { batch: 100, length: 32, epochs: 1, drop_tail: false })?;
    assert!(once.by_ref().count() >= 1 && once.next().is_none());
    once.seek(0)?;
    assert!(once.next().is_some() && once.position() > 0);
    Ok(())
}

#[test]
fn scripts_see_objects() -> Result<()> {
    if !dllm::has_feature("lua")? {
        return Ok(());
    }
    let tiny = Tiny::new()?;
    let mut lua = Lua::new(&options! {})?;
    lua.set_object("model", &tiny.model)?;
    lua.set_object("same", &tiny.model)?;
    lua.run_text("define", "function twice(n) return 2 * n, model:version() end", None)?;
    assert_eq!(lua.call("twice", "[21]", None)?, format!("[42,{}]", tiny.model.version()));
    let failed = lua.run_text("mine", "error 'no'", None).unwrap_err();
    assert_eq!(failed.code(), Code::ScriptFailed);
    assert!(failed.to_string().contains("mine"), "{failed}");
    Ok(())
}

#[test]
fn the_log_goes_to_a_function() -> Result<()> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    dllm::log_to(Level::Debug, move |level, line| seen.lock().expect("no panic").push((level, line.to_string())))?;
    drop(Tiny::new()?);
    dllm::log_config(Level::Warn, Sink::Queue)?;
    assert_eq!(Arc::strong_count(&lines), 1);
    assert!(dllm::log_lines()?.iter().all(|(level, _)| *level >= Level::Warn));
    Ok(())
}
