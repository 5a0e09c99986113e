//! Save a training run, resume it, read its tensors.

use crate::error::{Code, Error, Result, check};
use crate::handle::{Handle, make, text, with_path, with_text};
use crate::loader::Loader;
use crate::options::Options;
use crate::task::{self, Task};
use crate::tensor::Tensor;
use crate::trainer::Trainer;
use dllm_sys as sys;
use std::path::{Path, PathBuf};

/// Saves everything needed to resume a run bit for bit; returns the new folder. Options of kind "checkpoint". Inside a
/// callback of the trainer's run: [`RunningTrainer::save`](crate::RunningTrainer::save).
///
/// # Errors
/// This step is saved already, no permission, a full disk, cancelled.
pub fn save(
    trainer: &mut Trainer,
    loader: Option<&Loader>,
    root: impl AsRef<Path>,
    options: &Options,
    task: Option<&Task>,
) -> Result<PathBuf> {
    let (turns, trainer) = (trainer.turns(), trainer.pointer());
    let _turn = turns.read_for(task)?;
    let loader = loader.map_or(std::ptr::null_mut(), |loader| loader.handle.as_ptr());
    save_raw(trainer, loader, root.as_ref(), options, task)
}

/// Both handles are alive for the call, and no other thread works with the trainer.
pub(crate) fn save_raw(
    trainer: *mut sys::dllm_trainer,
    loader: *const sys::dllm_loader,
    root: &Path,
    options: &Options,
    task: Option<&Task>,
) -> Result<PathBuf> {
    let task = task::pointer(task);
    let folder = options.with("checkpoint", |opts| {
        with_path(root, |root| {
            // SAFETY: as this function requires; the path ends with a byte 0.
            text(|out, err| unsafe { sys::dllm_checkpoint_save(trainer, loader, root, opts, task, out, err) })
        })
    })?;
    Ok(folder.into())
}

/// Restores a trainer, its model and a loader to the state of a checkpoint folder.
///
/// # Errors
/// A missing, incomplete or damaged checkpoint, one of another model, cancelled; inside a callback.
pub fn restore(
    trainer: &mut Trainer,
    loader: Option<&mut Loader>,
    folder: impl AsRef<Path>,
    task: Option<&Task>,
) -> Result<()> {
    let (turns, trainer) = (trainer.turns(), trainer.pointer());
    let (_turn, task) = (turns.work(task)?, task::pointer(task));
    let loader = loader.map_or(std::ptr::null_mut(), |loader| loader.handle.as_ptr());
    with_path(folder.as_ref(), |folder| {
        // SAFETY: trainer and loader are borrowed alone, the turn is the only one that works, the path ends with 0.
        check(|err| unsafe { sys::dllm_checkpoint_restore(trainer, loader, folder, task, err) })
    })
}

/// The folder of a run's highest complete checkpoint, None when there is none.
///
/// # Errors
/// The run's folder cannot be read.
pub fn latest(root: impl AsRef<Path>) -> Result<Option<PathBuf>> {
    latest_task(root, None)
}

/// The same of an object store, with a task that can cancel it.
///
/// # Errors
/// As [`latest`], cancelled.
pub fn latest_task(root: impl AsRef<Path>, task: Option<&Task>) -> Result<Option<PathBuf>> {
    let task = task::pointer(task);
    let found = with_path(root.as_ref(), |root| {
        // SAFETY: the path ends with a byte 0, the task is alive or NULL.
        text(|out, err| unsafe { sys::dllm_checkpoint_latest_task(root, task, out, err) })
    });
    match found {
        Ok(folder) => Ok(Some(folder.into())),
        Err(Error::Call { code: Code::NotFound, .. }) => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// Weights that are open for reading.
pub struct Checkpoint {
    pub(crate) handle: Handle<sys::dllm_checkpoint>,
}

impl Checkpoint {
    /// Opens a checkpoint, a model folder, a safetensors, PyTorch or GGUF file.
    ///
    /// # Errors
    /// A missing or damaged file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_task(path, None)
    }

    /// The same of an object store, with a task that can cancel it.
    ///
    /// # Errors
    /// As [`Checkpoint::open`], cancelled.
    pub fn open_task(path: impl AsRef<Path>, task: Option<&Task>) -> Result<Self> {
        let task = task::pointer(task);
        let handle = with_path(path.as_ref(), |path| {
            // SAFETY: the path ends with a byte 0, the task is alive or NULL.
            make(|out, err| unsafe { sys::dllm_checkpoint_open_task(path, task, out, err) })
        })?;
        Ok(Self { handle })
    }

    /// Kind, step, metadata, tensors, ... as a JSON object.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn describe(&self) -> Result<String> {
        // SAFETY: the handle is alive.
        text(|out, err| unsafe { sys::dllm_checkpoint_describe(self.handle.as_ptr(), out, err) })
    }

    /// Reads one tensor.
    ///
    /// # Errors
    /// No such tensor, the hint names the nearest; a type that dllm does not read; a file that changed.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        // SAFETY: the handle is alive, `name` ends with a byte 0.
        let handle = with_text(name, |name| {
            make(|out, err| unsafe { sys::dllm_checkpoint_tensor(self.handle.as_ptr(), name, out, err) })
        })?;
        Ok(Tensor { handle })
    }

    /// Reads every byte and compares sizes and checksums.
    ///
    /// # Errors
    /// A damaged file, the message names it; cancelled.
    pub fn verify(&self, task: Option<&Task>) -> Result<()> {
        // SAFETY: handles are alive or NULL.
        check(|err| unsafe { sys::dllm_checkpoint_verify(self.handle.as_ptr(), task::pointer(task), err) })
    }
}
