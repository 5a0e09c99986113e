//! What the hub's functions write as JSON.

use super::{Fault, Plan, PlannedFile, Report, Repository, Snapshot};
use crate::json::Json;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

pub(super) fn number(of: &Json, key: &str) -> Option<u64> {
    of.get(key)?.number()
}

fn text(of: &Json, key: &str) -> Option<String> {
    of.get(key)?.text()
}

fn path(of: &Json) -> Option<PathBuf> {
    Some(text(of, "path")?.into())
}

fn flag(of: &Json, key: &str) -> Option<bool> {
    of.get(key)?.number()
}

pub(super) fn plan(all: &Json) -> Option<Plan> {
    Some(Plan {
        name: text(all, "name")?,
        commit: text(all, "commit")?,
        path: path(all)?,
        bytes: number(all, "bytes")?,
        missing: number(all, "missing")?,
        free: number(all, "free")?,
        memory: number(all, "memory")?,
        files: all.get("files")?.items(planned_file),
    })
}

fn planned_file(file: &Json) -> Option<PlannedFile> {
    Some(PlannedFile {
        path: text(file, "path")?,
        size: number(file, "size")?,
        cached: flag(file, "cached")?,
        weights: flag(file, "weights")?,
    })
}

pub(super) fn repositories(all: &Json) -> Option<Vec<Repository>> {
    Some(all.items(repository))
}

fn repository(one: &Json) -> Option<Repository> {
    let used: f64 = one.get("used")?.number()?;
    Some(Repository {
        name: text(one, "name")?,
        kind: text(one, "kind")?,
        bytes: number(one, "bytes")?,
        incomplete: number(one, "incomplete")?,
        used: SystemTime::UNIX_EPOCH + Duration::try_from_secs_f64(used).ok()?,
        path: path(one)?,
        snapshots: one.get("snapshots")?.items(snapshot),
    })
}

fn snapshot(one: &Json) -> Option<Snapshot> {
    Some(Snapshot {
        commit: text(one, "commit")?,
        revisions: one.get("revisions")?.items(Json::text),
        files: number(one, "files")?,
        bytes: number(one, "bytes")?,
        path: path(one)?,
    })
}

pub(super) fn report(all: &Json) -> Option<Report> {
    Some(Report {
        name: text(all, "name")?,
        files: number(all, "files")?,
        checked: number(all, "checked")?,
        bytes: number(all, "bytes")?,
        faults: all
            .get("faults")?
            .items(|fault| Some(Fault { path: text(fault, "path")?, what: text(fault, "what")? })),
    })
}
