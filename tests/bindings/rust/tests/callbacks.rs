//! What callbacks return, and what comes out of the call.

use dllm::{Code, Error, EventKind, Result, checkpoint, options};
use dllm_tests::{Folder, Tiny};
use std::num::ParseIntError;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

#[test]
fn a_panic_goes_on_when_the_call_has_returned() -> Result<()> {
    let tiny = Tiny::new()?;
    let mut decoder = tiny.decoder(&Tiny::decoding())?;
    let caught = catch_unwind(AssertUnwindSafe(|| decoder.run(None, |_| -> () { std::panic::panic_any(42_u64) })));
    assert_eq!(caught.unwrap_err().downcast_ref::<u64>(), Some(&42));
    decoder.run(None, |_| {})?; // it goes on after it, and model turns were given up
    assert!(tiny.trainer()?.metric("step")? < 0.5);
    Ok(())
}

#[test]
fn break_ends_a_run_and_a_later_run_goes_on() -> Result<()> {
    let tiny = Tiny::new()?;
    let mut decoder = tiny.decoder(&Tiny::decoding())?;
    decoder.run(None, |event| match event.kind() {
        EventKind::DecodeStep => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })?;
    assert!((decoder.metric(None, "steps")? - 1.0).abs() < 0.5);
    decoder.run(None, |_| {})?;
    assert!(decoder.metric(None, "open")? < 0.5);
    Ok(())
}

#[test]
fn the_error_of_a_callback_keeps_its_type() -> Result<()> {
    let tiny = Tiny::new()?;
    let failed = tiny.decoder(&Tiny::decoding())?.run(None, |_| "x".parse::<i32>().map(|_| ())).unwrap_err();
    assert_eq!(failed.code(), Code::CallbackFailed);
    assert!(std::error::Error::source(&failed).is_some());
    let failed = failed.into_callback::<std::fmt::Error>().unwrap_err(); // another type: the error is as before
    assert!(failed.into_callback::<ParseIntError>().is_ok());

    // An error of the library inside the callback is an error of the callback.
    let failed = tiny.decoder(&Tiny::decoding())?.run(None, |event| event.f64("no such key").map(|_| ())).unwrap_err();
    let inner = failed.into_callback::<Error>().expect("an error of this crate");
    assert_eq!(inner.code(), Code::NotFound);
    Ok(())
}

#[test]
fn events_have_arrays_without_a_copy() -> Result<()> {
    let tiny = Tiny::new()?;
    let (mut decoder, mut changed, mut slices) = (tiny.decoder(&Tiny::decoding())?, Vec::new(), 0);
    loop {
        let active = decoder.step_for(Duration::ZERO, None, |event| {
            if event.kind() == EventKind::DecodeStep {
                assert_eq!(event.f32s("confidence").map(<[f32]>::len), event.i32s("ids").map(<[i32]>::len));
                changed.extend_from_slice(event.i32s("changed").unwrap_or_default());
                assert!(event.describe()?.contains("decode_step"));
                assert!(event.trainer().is_none() && event.str("dir").is_none());
            }
            Ok::<(), Error>(())
        })?;
        slices += 1;
        if active == 0 {
            break;
        }
    }
    assert!(slices > 12, "{slices}");
    changed.sort_unstable();
    changed.dedup();
    assert_eq!(changed.len(), 12);
    Ok(())
}

#[test]
fn a_callback_may_set_and_save_and_not_train() -> Result<()> {
    let mut tiny = Tiny::new()?;
    let (mut trainer, folder, model) = (tiny.trainer()?, Folder::new("callbacks"), &tiny.model);
    let (view, rows) = (trainer.view(), dllm::Batch::of_ids(&[5, 6, 7])?);
    let mut saved = None;
    trainer.run(&mut tiny.loader, 3, None, |event| {
        let running = event.trainer().expect("a run of a trainer");
        if event.i64("step")? == 2 {
            saved = Some(running.save(folder.path(), &options! {})?);
        }
        running.set("lr", 1e-4)?;
        assert!(view.metric("loss")?.is_finite());
        model.param(&model.param_names()[0])?;
        let refused = model.forward(&rows, &options! {}, None).unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        Ok::<(), Error>(())
    })?;
    assert!((trainer.metric("lr")? - 1e-4).abs() < 1e-9);
    assert_eq!(checkpoint::latest(folder.path())?, saved);
    checkpoint::restore(&mut trainer, Some(&mut tiny.loader), saved.expect("a checkpoint"), None)?;
    assert!((trainer.metric("step")? - 2.0).abs() < 0.5);
    Ok(())
}
