//! What one call through this crate costs, in nanoseconds: the smallest of many rounds.
//!
//!     cargo run --release --example overhead

use dllm::{Engine, Model, Task, options};
use std::hint::black_box;
use std::time::Instant;

const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 16,
    "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "max_position_embeddings": 32,
    "dllm": {"attention": "bidirectional", "mask_token_id": 1}}"#;

fn measure<T>(what: &str, call: impl Fn() -> T) {
    const CALLS: u32 = 10_000;
    let round = |_| {
        let start = Instant::now();
        for _ in 0..CALLS {
            drop(black_box(call()));
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    let best = (0..200).map(round).fold(f64::INFINITY, f64::min);
    println!("{what:<34} {best:7.1} ns");
}

fn main() -> dllm::Result<()> {
    let engine = Engine::new(&options! { threads: 1 })?;
    let model = Model::new(&engine, CONFIG, &options! {}, None)?;
    let mut decoder = dllm::Decoder::new(&model, &options! { steps: 2, gen_length: 4 })?;
    decoder.start(&[2, 3], 7)?;
    let task = Task::new();
    // SAFETY: no arguments.
    measure("dllm_sys::dllm_abi_version", || unsafe { dllm_sys::dllm_abi_version() });
    measure("dllm::abi_version", dllm::abi_version);
    measure("Task::is_cancelled", || task.is_cancelled());
    measure("Model::version", || model.version());
    measure("Decoder::metric(None, \"open\")", || decoder.metric(None, "open"));
    measure("Decoder::metric, unknown key", || decoder.metric(None, "opne"));
    measure("Decoder::ids of 6 positions", || decoder.ids(0));
    measure("Task::new and drop", Task::new);
    Ok(())
}
