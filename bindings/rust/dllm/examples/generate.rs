//! Ten short programs of text in and text out: `cargo run --example generate -- MODEL`.

use dllm::{
    Code, EngineOptions, Error, Generator, GeneratorOptions, Message, ModelOptions, Prompt, RequestOptions, Task,
    ThresholdPolicy, options,
};

/// 1. Load, with options of the model, the generator and the engine.
fn load(path: &str) -> dllm::Result<Generator> {
    let settings = ModelOptions::new().dtype("f32").and(&GeneratorOptions::new().slots(8));
    let engine = options! { engine: EngineOptions::new().threads(2) };
    Generator::load(path, &settings.and(&engine), None)
}

fn main() -> dllm::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "runs/first".into());
    let mut generator = load(&path)?;
    let short = RequestOptions::new().length(16).steps(8).seed(1);

    // 2. Generate.
    let made = generator.generate("Once upon a time", &short, None)?;
    println!("generate: {made} ({}, {} tokens)", made.finish, made.completion_tokens);

    // 3. A conversation. A model without a chat template needs one.
    let said = [Message { role: "user", content: "The sun" }];
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}";
    println!("conversation: {}", generator.generate(&said, &short.clone().template(template), None)?);

    // 4. Infill.
    let made = generator.infill("The<mask:3> was sad. Then<mask:5> came.", &short, None)?;
    println!("infill: {made} {:?}", made.holes);

    // 5. A stream.
    let mut pieces = generator.stream("The sun", &short, None)?;
    for piece in &mut pieces {
        let piece = piece?;
        println!("stream: step {}, {} open: {}", piece.step, piece.open, piece.canvas);
    }
    drop(pieces);

    // 6. A batch: one result per prompt.
    for result in generator.batch(["The sun".into(), Prompt::infill("wrong <mask:x>"), "A cat".into()], &short, None) {
        match result {
            Ok(made) => println!("batch: {made}"),
            Err(problem) => println!("batch: {problem}"),
        }
    }

    // 7. Stop texts.
    let made = generator.generate("Once upon a time", &short.clone().stop(&["."]), None)?;
    println!("stop: {made} ({})", made.finish);

    // 8. A task cancels, from any thread.
    let task = Task::new();
    task.cancel();
    let ended = generator.generate("Once upon a time", &short, Some(&task));
    println!("cancel: {:?}", ended.map_err(|problem| problem.code()));

    // 9. Errors have a code, a message and a hint.
    if let Err(Error::Call { code: Code::NotFound, message, hint }) =
        generator.generate("Once", &options! { temprature: 1 }, None)
    {
        println!("error: {message}: {hint}");
    }

    // 10. Typed settings of a policy.
    let threshold = short.and(&ThresholdPolicy::new().threshold(0.6));
    println!("policy: {}", generator.generate("Tom went to the park", &threshold, None)?);
    Ok(())
}
