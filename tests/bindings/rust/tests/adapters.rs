//! Adapters of a model: added, trained, saved, loaded, scaled, merged, removed.

use dllm::{Adapter, AdapterOptions, Batch, Code, Model, Options, Result, Task, options};
use dllm_tests::{Folder, Tiny};

/// Two matrices of 64 x 64.
fn rank_two() -> Options {
    AdapterOptions::new().rank(2).targets(&["q", "v"]).layers(&["1"]).into()
}

fn logits(model: &Model) -> Result<Vec<f32>> {
    let rows = Batch::of_ids(&[5, 6, 7, 8, 9, 10])?;
    model.forward(&rows, &options! {}, None)?.tensor("logits")?.read()
}

/// The largest difference of two results.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Trains an adapter of the default name; the results before and after.
fn adapt(tiny: &mut Tiny) -> Result<(Vec<f32>, Vec<f32>)> {
    let plain = logits(&tiny.model)?;
    tiny.model.add_adapter(Adapter::DEFAULT, &rank_two(), None)?;
    assert_eq!(logits(&tiny.model)?, plain); // a new adapter changes no result
    tiny.trainer()?.run(&mut tiny.loader, 4, None, |_| {})?;
    let trained = logits(&tiny.model)?;
    assert!(distance(&trained, &plain) > 1e-5);
    Ok((plain, trained))
}

/// name, rank, alpha, rslora, scale, modules, params, bytes
type Row = (String, u64, f64, bool, f64, u64, u64, u64);

fn rows(model: &Model) -> Result<Vec<Row>> {
    let row = |a: Adapter| (a.name, a.rank, a.alpha, a.rslora, a.scale, a.modules, a.params, a.bytes);
    Ok(model.adapters()?.into_iter().map(row).collect())
}

#[test]
fn adapters_are_listed() -> Result<()> {
    let tiny = Tiny::new()?;
    let model = &tiny.model;
    assert_eq!(model.adapters()?, []);
    model.add_adapter("b", &rank_two(), None)?;
    model.add_adapter("a", &options! { rank: 3, alpha: 4.5, rslora: true, targets: ["q"] }, None)?;
    let listed =
        [("b".to_string(), 2, 4.0, false, 1.0, 2, 512, 2048), ("a".to_string(), 3, 4.5, true, 1.0, 2, 768, 3072)];
    assert_eq!(rows(model)?, listed);
    for (name, settings, code) in [
        ("b", rank_two(), Code::AlreadyExists),
        ("c", options! { targets: ["no_such"] }, Code::NotFound),
        ("c", options! { targets: ["embed_tokens"] }, Code::Unimplemented),
        ("c", options! { rnk: 2 }, Code::NotFound),
        ("c/d", rank_two(), Code::InvalidArgument),
        ("c\0", rank_two(), Code::InvalidArgument),
    ] {
        assert_eq!(model.add_adapter(name, &settings, None).unwrap_err().code(), code, "{name} {settings:?}");
    }
    assert_eq!(rows(model)?, listed);
    model.merge_adapter(None, None)?;
    assert_eq!(model.adapters()?, []);
    Ok(())
}

#[test]
fn an_adapter_is_trained_saved_and_merged() -> Result<()> {
    let (mut tiny, folder) = (Tiny::new()?, Folder::new("adapters"));
    let (plain, trained) = adapt(&mut tiny)?;
    let (model, path, task) = (&tiny.model, folder.path().join("adapter"), Task::new());
    model.save_adapter(&path, Adapter::DEFAULT, Some(&task))?;
    let progress = task.progress();
    assert!(progress.done >= 2048 && progress.total == Some(progress.done), "{progress:?}");
    let twice = model.save_adapter(&path, Adapter::DEFAULT, None).unwrap_err();
    assert_eq!(twice.code(), Code::AlreadyExists);
    model.remove_adapter(Adapter::DEFAULT)?;
    assert_eq!(model.adapters()?, []);
    assert_eq!(logits(model)?, plain);
    model.add_network(model, "teacher")?;
    assert_eq!(model.add_network(model, "teacher").unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(logits(model)?, plain);
    model.remove_network("teacher")?;
    assert_eq!(model.remove_network("teacher").unwrap_err().code(), Code::NotFound);
    model.load_adapter(&path, "again", None)?;
    assert_eq!(logits(model)?, trained);
    model.set_adapter_scale("again", 0.5)?;
    assert_eq!(rows(model)?, [("again".to_string(), 2, 4.0, false, 0.5, 2, 512, 2048)]);
    let scaled = logits(model)?;
    assert!(distance(&scaled, &plain) > 1e-6 && distance(&scaled, &trained) > 1e-6);
    model.merge_adapter(Some("again"), None)?;
    assert_eq!(model.adapters()?, []);
    assert!(distance(&logits(model)?, &scaled) < 1e-4);
    Ok(())
}

#[test]
fn a_wrong_name_and_a_cancelled_task_change_nothing() -> Result<()> {
    let (mut tiny, folder) = (Tiny::new()?, Folder::new("no-adapters"));
    let (_, trained) = adapt(&mut tiny)?;
    let (model, saved, none) = (&tiny.model, folder.path().join("saved"), folder.path().join("none"));
    model.save_adapter(&saved, Adapter::DEFAULT, None)?;
    let (listed, wrong, cancelled) = (rows(model)?, "defautl", Task::new());
    cancelled.cancel();
    for (ended, code) in [
        (model.save_adapter(&none, wrong, None), Code::NotFound),
        (model.load_adapter(&none, "other", None), Code::NotFound),
        (model.load_adapter(&saved, Adapter::DEFAULT, None), Code::AlreadyExists),
        (model.merge_adapter(Some(wrong), None), Code::NotFound),
        (model.merge_adapter(Some(""), None), Code::NotFound),
        (model.remove_adapter(wrong), Code::NotFound),
        (model.set_adapter_scale(wrong, 1.0), Code::NotFound),
        (model.set_adapter_scale(Adapter::DEFAULT, f64::NAN), Code::InvalidArgument),
        (model.add_adapter("other", &rank_two(), Some(&cancelled)), Code::Cancelled),
        (model.load_adapter(&saved, "other", Some(&cancelled)), Code::Cancelled),
        (model.save_adapter(&none, Adapter::DEFAULT, Some(&cancelled)), Code::Cancelled),
        (model.merge_adapter(Some(Adapter::DEFAULT), Some(&cancelled)), Code::Cancelled),
        (model.merge_adapter(None, Some(&cancelled)), Code::Cancelled),
    ] {
        assert_eq!(ended.unwrap_err().code(), code);
    }
    assert!(model.remove_adapter(wrong).unwrap_err().hint().contains(Adapter::DEFAULT));
    assert_eq!(rows(model)?, listed);
    assert_eq!(logits(model)?, trained);
    Ok(())
}

#[test]
fn a_callback_lists_adapters_and_does_not_change_them() -> Result<()> {
    let mut tiny = Tiny::new()?;
    tiny.model.add_adapter(Adapter::DEFAULT, &rank_two(), None)?;
    let (mut trainer, model, folder, mut seen) = (tiny.trainer()?, &tiny.model, Folder::new("in-adapters"), 0);
    trainer.run(&mut tiny.loader, 1, None, |_| {
        seen += model.adapters()?.len();
        model.save_adapter(folder.path().join("adapter"), Adapter::DEFAULT, None)?;
        for refused in [
            model.add_adapter("other", &rank_two(), None),
            model.load_adapter(folder.path().join("adapter"), "other", None),
            model.merge_adapter(None, None),
            model.remove_adapter(Adapter::DEFAULT),
            model.set_adapter_scale(Adapter::DEFAULT, 0.5),
        ] {
            assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition);
        }
        Ok::<(), dllm::Error>(())
    })?;
    assert_eq!((seen, model.adapters()?.len()), (1, 1));
    Ok(())
}
