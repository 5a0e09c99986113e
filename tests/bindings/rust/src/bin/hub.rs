//! The nine points of `../../../run_hub.py`.

use dllm::{Code, HubOptions, Result, Task, hub, options};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

const NAME: &str = "tester/tiny";

fn pull_with_progress() -> Result<PathBuf> {
    let task = Task::new();
    let path = hub::pull(NAME, &HubOptions::new().attempts(2), Some(&task))?;
    let progress = task.progress();
    assert!(path.join("config.json").exists(), "{}", path.display());
    assert!(progress.total == Some(progress.done) && progress.done > 320_000, "{progress:?}");
    Ok(path)
}

fn what_the_cache_has(path: &Path) -> Result<()> {
    let plan = hub::describe(NAME, &options! {}, None)?;
    assert!(plan.name == NAME && plan.missing == 0 && plan.files.len() == 3 && plan.path == path, "{plan:?}");
    assert!(plan.files[2].cached && plan.files[2].weights && plan.free > 0, "{plan:?}");
    let all = hub::list(None)?;
    assert!(all.len() == 1 && all[0].name == NAME && all[0].kind == "model", "{all:?}");
    let one = &all[0].snapshots[0];
    assert!(one.files == 3 && one.revisions == ["main"] && one.path == path, "{one:?}");
    assert!(all[0].used > SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000), "{all:?}");
    let report = hub::verify(NAME, None)?;
    assert!(report.files == 3 && report.checked == 1 && report.faults.is_empty(), "{report:?}");
    Ok(())
}

fn what_fails(path: &Path) -> Result<()> {
    let problem = hub::pull("tester/tin", &options! {}, None).unwrap_err();
    assert!(
        problem.code() == Code::NotFound && problem.to_string().contains("the hub has no model tester/tin"),
        "{problem}"
    );
    let offline = HubOptions::new().offline(true);
    assert_eq!(hub::pull(NAME, &offline, None)?, path);
    let problem = hub::pull("tester/none", &offline, None).unwrap_err();
    assert!(problem.to_string().contains("not in the cache"), "{problem}");
    let problem = hub::pull(NAME, &options! { endpoint: "http://127.0.0.1:1" }, None).unwrap_err();
    assert!(problem.to_string().contains("endpoint"), "{problem}");
    Ok(())
}

fn cancel() {
    let task = Task::new();
    let remote = task.clone();
    let waits = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        remote.cancel();
    });
    let begin = Instant::now();
    let problem = hub::pull("tester/slow", &options! {}, Some(&task)).unwrap_err();
    assert_eq!(problem.code(), Code::Cancelled, "{problem}");
    assert!(begin.elapsed() < Duration::from_secs(10), "the cancelled pull took {:?}", begin.elapsed());
    waits.join().unwrap();
}

fn remove() -> Result<()> {
    let freed = hub::remove(NAME, None)?;
    assert!(freed > 320_000, "{freed} bytes were freed");
    assert_eq!(hub::remove(NAME, None).unwrap_err().code(), Code::NotFound);
    Ok(())
}

fn main() -> Result<()> {
    let path = pull_with_progress()?;
    what_the_cache_has(&path)?;
    what_fails(&path)?;
    cancel();
    remove()
}
