use super::*;
use crate::json::Json;
use crate::{Code, EngineOptions, EventKind, GeneratorOptions, Message, RequestOptions, ThresholdPolicy, options};
use std::path::PathBuf;

/// A file of the checkout; None where the crate is alone.
pub(crate) fn in_checkout(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(name);
    if !path.exists() {
        println!("skip: {name} is not here");
    }
    path.exists().then_some(path)
}

pub(super) fn stories() -> Option<Generator> {
    Some(Generator::load(in_checkout("scripts/recipes/stories.gguf")?, &options! {}, None).expect("the model"))
}

/// Eight positions in four steps.
pub(crate) fn short() -> RequestOptions {
    RequestOptions::new().length(8).steps(4)
}

fn value(json: &Json<'_>) -> Option<Value> {
    match json {
        Json::Plain(word) => {
            let whole = word.parse::<i64>().ok().map(Value::Int);
            whole.or_else(|| word.parse::<f64>().ok().map(Value::Float))
        }
        Json::Text(text) => Some(Value::Text(text.clone())),
        Json::List(items) => items.iter().map(value).collect::<Option<Vec<_>>>().map(Value::List),
        Json::Object(_) => None,
    }
}

fn settings(json: &Json<'_>) -> Options {
    let Json::Object(pairs) = json else { panic!("settings are an object") };
    pairs.iter().fold(Options::new(), |made, (key, each)| made.set(key, value(each).expect("a value")))
}

pub(super) fn no_request_is_left(generator: &mut Generator) {
    assert_eq!(generator.step(None).unwrap_err().code(), Code::FailedPrecondition);
}

/// A text that every language must generate.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) prompt: Prompt,
    pub(crate) settings: Options,
    pub(crate) expect: String,
}

/// None where the crate is alone.
pub(crate) fn cases() -> Option<Vec<Case>> {
    let table = std::fs::read_to_string(in_checkout("tests/bindings/generate_cases.json")?).expect("the table");
    let table = Json::read(&table).expect("JSON");
    let Some(Json::List(cases)) = table.get("cases") else { panic!("cases are a list") };
    assert!(cases.len() >= 8);
    let read = |case: &Json<'_>| {
        let word = |key| case.get(key).and_then(Json::text).expect(key);
        let prompt = if word("call") == "infill" { Prompt::infill(word("text")) } else { word("text").into() };
        let settings = settings(case.get("settings").expect("settings"));
        Case { name: word("name"), prompt, settings, expect: word("expect") }
    };
    Some(cases.iter().map(read).collect())
}

#[test]
fn generated_texts() -> Result<()> {
    let (Some(mut generator), Some(cases)) = (stories(), cases()) else { return Ok(()) };
    for Case { name, prompt, settings, expect } in cases {
        let made = generator.generate(prompt.clone(), &settings, None)?;
        assert_eq!(made.whole, expect, "{name}");
        let mut pieces = generator.stream(prompt, &settings, None)?;
        let text: String = pieces.by_ref().map(|piece| piece.map(|piece| piece.text)).collect::<Result<_>>()?;
        assert_eq!(text, made.to_string(), "{name}");
        assert_eq!(pieces.generation(), Some(&made));
    }
    Ok(())
}

#[test]
fn what_a_generation_has() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let made = generator.generate("Once upon a time", &short().seed(-3), None)?;
    assert_eq!((made.finish.as_str(), made.policy.as_str(), made.seed), ("full", "low_confidence", -3));
    assert_eq!((made.completion_tokens, made.steps, made.nfe, made.open), (8, 4, 4, 0));
    assert_eq!(made.whole, format!("Once upon a time{made}"));
    assert_eq!((made.ids.len(), made.confidence.len()), (16, 16));
    assert_eq!(generator.infill("The<mask:3> was sad. Then<mask:5> came.", &short(), None)?.holes.len(), 2);
    Ok(())
}

#[test]
fn a_dropped_iterator_removes_its_request() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let mut pieces = generator.stream("Once upon a time", &short(), None)?;
    assert!(pieces.generation().is_none());
    let first = pieces.next().expect("a piece")?;
    assert_eq!((first.step, first.open), (1, 6));
    assert!(first.canvas.contains("<mask"), "{first:?}");
    assert_eq!(pieces.generation().map(|made| made.finish.as_str()), Some("open"));
    drop(pieces);
    no_request_is_left(&mut generator);
    Ok(())
}

#[test]
fn one_failed_prompt_leaves_the_others() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let prompts = ["The sun".into(), Prompt::infill("no hole <mask:x>"), "A cat".into()];
    let results = generator.batch(prompts, &short().seed(5), None);
    assert_eq!(results[1].as_ref().unwrap_err().code(), Code::InvalidArgument);
    for (index, prompt, seed) in [(0, "The sun", 5), (2, "A cat", 7)] {
        let alone = generator.generate(prompt, &short().seed(seed), None)?;
        assert_eq!(results[index].as_ref().unwrap(), &alone);
    }
    no_request_is_left(&mut generator);
    Ok(())
}

/// A request in which no token may be drawn fails in its first step.
#[test]
fn a_request_that_fails_in_a_step() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let all: Vec<i64> = (0..).take(generator.tokenizer()?.len()).collect();
    let bad = generator.add("The sun", &short().suppress(&all), None)?;
    let good = generator.add("The sun", &short(), None)?;
    let (mut texts, mut answers) = (0, 0);
    generator.run(None, |event| match event.kind() {
        EventKind::Text => texts += 1,
        EventKind::Answer => answers += 1,
        other => panic!("{other:?}"),
    })?;
    assert!(texts >= 4 && answers == 2, "{texts} {answers}");
    assert!(generator.generation(bad).is_err());
    assert_eq!(generator.generation(good)?.finish, "full");
    generator.remove(bad)?;
    generator.remove(good)?;
    assert!(generator.remove(good).is_err());
    let mut pieces = generator.stream("The sun", &short().suppress(&all), None)?;
    assert!(pieces.next().expect("an error").is_err());
    assert!(pieces.next().is_none());
    Ok(())
}

#[test]
fn more_prompts_than_slots() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let few = GeneratorOptions::new().slots(2);
    let mut small = Generator::new(&generator.model()?, &generator.tokenizer()?, &few)?;
    let prompts = ["One", "Two", "Three", "Four", "Five"];
    let texts = |all: Vec<Result<Generation>>| all.into_iter().collect::<Result<Vec<_>>>();
    assert_eq!(texts(small.batch(prompts, &short(), None))?, texts(generator.batch(prompts, &short(), None))?);
    Ok(())
}

#[test]
fn settings_of_a_generator() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let wrong = generator.generate("The sun", &options! { temprature: 1 }, None).unwrap_err();
    assert_eq!(wrong.code(), Code::NotFound);
    assert!(wrong.hint().contains("temperature"), "{wrong}");
    let typed = short().and(&ThresholdPolicy::new().threshold(0.5));
    let typed = generator.generate("The sun", &typed, None)?;
    let plain = options! { length: 8, steps: 4, policy: "threshold", threshold: 0.5 };
    assert_eq!(typed, generator.generate("The sun", &plain, None)?);
    assert_eq!(typed.policy, "threshold");
    let Some(path) = in_checkout("scripts/recipes/stories.gguf") else { return Ok(()) };
    let on = options! { policy: "random", dtype: "f32", engine: EngineOptions::new().threads(1) };
    let mut loaded = Generator::load(&path, &on, None)?;
    assert_eq!(loaded.generate("The sun", &short(), None)?.policy, "random");
    for (wrong, hint) in [
        (options! { engine: 3 }, ""),
        (options! { engine: options! { thraeds: 1 } }, "did you mean threads?"),
        (options! { polcy: "random" }, "did you mean policy?"),
        (options! { dtpe: "f32" }, "did you mean dtype?"),
        (options! { xyz: 1 }, "dtype, engine, heads"),
    ] {
        let Err(problem) = Generator::load(&path, &wrong, None) else { panic!("{wrong:?} is taken") };
        assert!(problem.hint().contains(hint), "{problem}");
    }
    for (wrong, message) in [
        (options! { temperature: f64::NAN }, "option temperature must not be NaN"),
        (options! { stop_ids: vec![1.0, f64::NAN] }, "stop_ids, item 2 is NaN: write a finite number"),
        (options! { stop_ids: vec![f64::NEG_INFINITY] }, "stop_ids, item 1 is -Infinity: write a finite number"),
    ] {
        let problem = generator.generate("x", &wrong, None).unwrap_err().to_string();
        assert!(problem.contains(message), "{problem}");
    }
    assert!(generator.generate("x", &options! { steps: options! {} }, None).is_err());
    let hello = [Message { role: "user", content: "Hi" }];
    assert_eq!(generator.generate(&hello, &short(), None).unwrap_err().code(), Code::FailedPrecondition);
    let template = short().template("{% for m in messages %}{{ m.content }}{% endfor %}");
    assert_eq!(generator.generate(&hello, &template, None)?.finish, "full");
    Ok(())
}

#[test]
fn a_task_cancels() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let task = Task::new();
    let mut pieces = generator.stream("Once", &RequestOptions::new().length(64), Some(&task))?;
    pieces.next().expect("a piece")?;
    task.cancel();
    assert_eq!(pieces.next().expect("an error").unwrap_err().code(), Code::Cancelled);
    assert!(pieces.next().is_none());
    drop(pieces);
    for result in generator.batch(["a", "b"], &short(), Some(&task)) {
        assert_eq!(result.unwrap_err().code(), Code::Cancelled);
    }
    no_request_is_left(&mut generator);
    assert_eq!(generator.decoder()?.start(&[1], 0).unwrap_err().code(), Code::FailedPrecondition);
    Ok(())
}
