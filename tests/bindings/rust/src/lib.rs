//! A model, a tokenizer and text small enough for every test.

use dllm::{Dataset, Decoder, Engine, Loader, Model, Objective, Options, Result, Tokenizer, Trainer, options};
use std::path::{Path, PathBuf};

pub fn sentences() -> Vec<String> {
    (0..200).map(|i| format!("the cat sat on the mat and looked at the moon number {}", i % 7)).collect()
}

/// One of everything.
pub struct Tiny {
    pub engine: Engine,
    pub tokenizer: Tokenizer,
    pub data: Dataset,
    pub loader: Loader,
    pub model: Model,
}

impl Tiny {
    pub fn new() -> Result<Self> {
        let engine = Engine::new(&options! { threads: 2 })?;
        let tokenizer = Tokenizer::train(&Dataset::of(sentences(), None)?, &options! { vocab_size: 300 }, None)?;
        let data = Dataset::of(sentences(), Some(&tokenizer))?;
        let loader = Loader::new(&data, &options! { batch: 4, length: 32, epochs: 0 })?;
        let model = Model::new(&engine, &Self::config(&tokenizer)?, &options! {}, None)?;
        Ok(Self { engine, tokenizer, data, loader, model })
    }

    fn config(tokenizer: &Tokenizer) -> Result<String> {
        Ok(format!(
            r#"{{"model_type": "llama", "vocab_size": {}, "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64,
            "tie_word_embeddings": true,
            "dllm": {{"attention": "bidirectional", "shift": 0, "mask_token_id": {}}}}}"#,
            tokenizer.len(),
            tokenizer.id("<|mask|>")?
        ))
    }

    /// Settings of the scenario's decoder.
    pub fn decoding() -> Options {
        options! { steps: 6, gen_length: 12 }
    }

    /// Started with "the cat" and seed 7.
    pub fn decoder(&self, settings: &Options) -> Result<Decoder> {
        let mut decoder = Decoder::new(&self.model, settings)?;
        decoder.start(&self.tokenizer.encode("the cat")?, 7)?;
        Ok(decoder)
    }

    pub fn trainer(&self) -> Result<Trainer> {
        Trainer::new(&self.model, &Objective::new("mdlm", None, &options! {})?, &options! { lr: 3e-3 })
    }
}

/// A hash of `tests/bindings/scenario.md`: FNV-1a over the ids.
pub fn hash(ids: &[i32]) -> String {
    let bytes = ids.iter().flat_map(|id| id.to_le_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// A folder that is removed with its drop.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dllm-rust-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder in the system's folder for such");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
