//! How a batch is corrupted and how the loss is computed.

use crate::batch::Batch;
use crate::error::Result;
use crate::handle::{Handle, make, number, with_text};
use crate::model::Model;
use crate::options::Options;
use crate::schedule::Schedule;
use crate::task::{self, Task};
use dllm_sys as sys;

/// How a batch is corrupted and how the loss is computed.
pub struct Objective {
    pub(crate) handle: Handle<sys::dllm_objective>,
}

/// The loss of every row for itself.
#[derive(Clone, Debug, PartialEq)]
pub struct RowLosses {
    /// In nats, not normalized.
    pub sums: Vec<f64>,
    /// What normalizes each sum.
    pub counts: Vec<f64>,
}

impl Objective {
    /// An objective by name; [`names("objective")`](crate::names) lists them. Options of kind "objective".
    ///
    /// # Errors
    /// An unknown name; the hint names the nearest.
    pub fn new(name: &str, schedule: Option<&Schedule>, options: &Options) -> Result<Self> {
        let schedule = schedule.map_or(std::ptr::null_mut(), |schedule| schedule.handle.as_ptr());
        let handle = options.with_name("objective", Some(name), |opts| {
            // SAFETY: handles are alive or NULL, `name` ends with a byte 0.
            with_text(name, |name| make(|out, err| unsafe { sys::dllm_objective_new(name, schedule, opts, out, err) }))
        })?;
        Ok(Self { handle })
    }

    /// Draws the noise of one step: ids with masks, targets, weights. `model` gives its mask id, shift and vocabulary.
    ///
    /// # Errors
    /// A missing array, a wrong shape, no mask id.
    pub fn prepare(&self, model: Option<&Model>, batch: &Batch, seed: i64, step: i64) -> Result<Batch> {
        let (objective, batch) = (self.handle.as_ptr(), batch.handle.as_ptr());
        let _turn = model.map(|model| model.turns.read());
        let model = model.map_or(std::ptr::null_mut(), |model| model.handle.as_ptr());
        // SAFETY: handles are alive or NULL.
        let handle =
            make(|out, err| unsafe { sys::dllm_objective_prepare(objective, model, batch, seed, step, out, err) })?;
        Ok(Batch { handle })
    }

    /// The loss of one batch in nats; nothing changes.
    ///
    /// # Errors
    /// A missing array, a wrong shape, a number out of range, cancelled; inside a callback.
    pub fn loss(&mut self, model: &Model, batch: &Batch, seed: i64, task: Option<&Task>) -> Result<f64> {
        let (objective, batch) = (self.handle.as_ptr(), batch.handle.as_ptr());
        let (_turn, task) = (model.turns.work(task)?, task::pointer(task));
        // SAFETY: handles are alive or NULL; the objective is borrowed alone, the turn is the only one that works.
        number(|out, err| unsafe {
            sys::dllm_objective_loss(objective, model.handle.as_ptr(), batch, seed, task, out, err)
        })
    }

    /// The loss of every row for itself.
    ///
    /// # Errors
    /// As [`Objective::loss`].
    pub fn row_losses(&mut self, model: &Model, batch: &Batch, seed: i64, task: Option<&Task>) -> Result<RowLosses> {
        let (objective, batch) = (self.handle.as_ptr(), batch.handle.as_ptr());
        let (turn, task) = (model.turns.work(task)?, task::pointer(task));
        // SAFETY: as in loss.
        let handle = make(|out, err| unsafe {
            sys::dllm_objective_row_losses(objective, model.handle.as_ptr(), batch, seed, task, out, err)
        })?;
        drop(turn);
        let rows = Batch { handle };
        Ok(RowLosses { sums: rows.tensor("sums")?.read()?, counts: rows.tensor("counts")?.read()? })
    }
}
