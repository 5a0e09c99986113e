//! Models and data sets of the Hugging Face hub by name, and the cache that has them.
//!
//! ```no_run
//! use dllm::{Generator, HubOptions, hub, options};
//!
//! let path = hub::pull("Qwen/Qwen3-0.6B", &HubOptions::new(), None)?;
//! let generator = Generator::load(path, &options! {}, None)?;
//! # Ok::<(), dllm::Error>(())
//! ```
//!
//! The address of the hub, the token and the folder of the cache are in the variables `HF_ENDPOINT`, `HF_TOKEN` and
//! `HF_HUB_CACHE`, as for Python's `huggingface_hub`. Sizes are in bytes.

mod read;

use crate::error::Result;
use crate::handle::{text, with_text};
use crate::json;
use crate::options::Options;
use crate::task::{self, Task};
use dllm_sys as sys;
use std::path::PathBuf;
use std::time::SystemTime;

/// What a pull would load, as [`describe`] returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The name of the repository.
    pub name: String,
    /// The commit of its revision.
    pub commit: String,
    /// The path that [`pull`] will return.
    pub path: PathBuf,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes that are not in the cache yet.
    pub missing: u64,
    /// Bytes that the disk has left.
    pub free: u64,
    /// Bytes of memory that this process may use.
    pub memory: u64,
    /// The files in the order of the pull.
    pub files: Vec<PlannedFile>,
}

/// One file of a [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedFile {
    /// Its path in the repository.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it is in the cache.
    pub cached: bool,
    /// Whether it has weights.
    pub weights: bool,
}

/// A model or a data set in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repository {
    /// Its name, "org/name".
    pub name: String,
    /// "model" or "dataset".
    pub kind: String,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Bytes of files whose pull ended early.
    pub incomplete: u64,
    /// When it was last used.
    pub used: SystemTime,
    /// Its folder in the cache.
    pub path: PathBuf,
    /// Its commits.
    pub snapshots: Vec<Snapshot>,
}

/// One commit of a [`Repository`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The commit.
    pub commit: String,
    /// The branches and tags that are this commit.
    pub revisions: Vec<String>,
    /// How many files it has.
    pub files: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its folder, which `load` takes.
    pub path: PathBuf,
}

/// What [`verify`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The name of the repository.
    pub name: String,
    /// How many files it has.
    pub files: u64,
    /// How many of them have a SHA-256; small files have none.
    pub checked: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// The files whose content is wrong.
    pub faults: Vec<Fault>,
}

/// A file whose content is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Its path.
    pub path: String,
    /// What is wrong, with the numbers.
    pub what: String,
}

/// Loads the files of a name into the cache, unless they are there, and returns the path that `load` takes. A name is
/// "org/name", "org/name@revision" or "org/name:file"; options of kind "hub": [`HubOptions`](crate::HubOptions).
///
/// The progress of the task counts bytes. A cancelled or failed pull keeps what it has loaded, and the next one goes on
/// with it.
///
/// # Errors
/// [`Code::NotFound`](crate::Code::NotFound) for a name, a revision or a file that the hub does not have; no permission;
/// a full disk; content that differs from its SHA-256; [`Code::Unavailable`](crate::Code::Unavailable) when the hub does
/// not answer; several GGUF files of which none is named; cancelled.
pub fn pull(name: &str, options: &Options, task: Option<&Task>) -> Result<PathBuf> {
    let task = task::pointer(task);
    let path = options.with("hub", |opts| {
        // SAFETY: handles are alive or NULL, the name ends with a byte 0.
        with_text(name, |name| text(|out, err| unsafe { sys::dllm_hub_pull(name, opts, task, out, err) }))
    })?;
    Ok(path.into())
}

/// Asks the hub what [`pull`] would load, and loads nothing.
///
/// # Errors
/// As [`pull`].
pub fn describe(name: &str, options: &Options, task: Option<&Task>) -> Result<Plan> {
    let task = task::pointer(task);
    let made = options.with("hub", |opts| {
        // SAFETY: as in pull.
        with_text(name, |name| text(|out, err| unsafe { sys::dllm_hub_describe(name, opts, task, out, err) }))
    })?;
    json::answer(&made, read::plan)
}

/// The repositories in the cache. The network is not used.
///
/// # Errors
/// Cancelled.
pub fn list(task: Option<&Task>) -> Result<Vec<Repository>> {
    let task = task::pointer(task);
    // SAFETY: the task is alive or NULL.
    json::answer(&text(|out, err| unsafe { sys::dllm_hub_list(task, out, err) })?, read::repositories)
}

/// Reads every file of a repository in the cache and compares the SHA-256 of large files. Faults are in the report and
/// not an error.
///
/// # Errors
/// [`Code::NotFound`](crate::Code::NotFound) for a name that the cache does not have; cancelled.
pub fn verify(name: &str, task: Option<&Task>) -> Result<Report> {
    let task = task::pointer(task);
    // SAFETY: the name ends with a byte 0, the task is alive or NULL.
    let made = with_text(name, |name| text(|out, err| unsafe { sys::dllm_hub_verify(name, task, out, err) }))?;
    json::answer(&made, read::report)
}

/// Removes a repository from the cache, or one revision of it for "org/name@revision"; how many bytes were freed. Files
/// that another revision uses stay.
///
/// # Errors
/// [`Code::NotFound`](crate::Code::NotFound) for a name that the cache does not have; cancelled.
pub fn remove(name: &str, task: Option<&Task>) -> Result<u64> {
    let task = task::pointer(task);
    // SAFETY: as in verify.
    let made = with_text(name, |name| text(|out, err| unsafe { sys::dllm_hub_remove(name, task, out, err) }))?;
    json::answer(&made, |removal| read::number(removal, "freed"))
}
