//! Cancel and watch a long call from any thread.

use crate::error::{Code, Error, Result};
use crate::handle::Handle;
use dllm_sys as sys;
use std::sync::Arc;
use std::time::Duration;

/// Cancels and watches the calls that it is passed to. Clones are the same task: keep one on the thread that cancels.
///
/// The call returns [`Code::Cancelled`](crate::Code::Cancelled) and leaves every object usable. A cancelled task stays
/// cancelled.
///
/// ```
/// let task = dllm::Task::new();
/// let remote = task.clone();
/// std::thread::spawn(move || remote.cancel()).join().unwrap();
/// assert!(task.is_cancelled());
/// ```
#[derive(Clone)]
pub struct Task(Arc<Handle<sys::dllm_task>>);

/// How far a running call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes, steps or records, see the call.
    pub done: i64,
    /// None: not known yet.
    pub total: Option<i64>,
}

impl Task {
    /// A task that is not cancelled and has no deadline.
    ///
    /// # Panics
    /// When the library cannot be loaded ([`load`](crate::load) returns why), or memory is exhausted.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a default would hide that it may panic")]
    pub fn new() -> Self {
        // SAFETY: a new task is the caller's.
        let made = unsafe { Handle::take(sys::dllm_task_new()) };
        Self(Arc::new(made.expect("out of memory")))
    }

    /// A task whose calls return [`Code::DeadlineExceeded`](crate::Code::DeadlineExceeded) after this time.
    ///
    /// # Panics
    /// As [`Task::new`].
    #[must_use]
    pub fn with_deadline(time: Duration) -> Self {
        let made = Self::new();
        made.set_deadline(Some(time));
        made
    }

    /// Requests the calls that use this task to stop. Allowed in a signal handler.
    pub fn cancel(&self) {
        // SAFETY: the handle is alive; any thread may call.
        unsafe { sys::dllm_task_cancel(self.0.as_ptr()) }
    }

    /// Whether [`Task::cancel`] was called or the deadline has passed.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        // SAFETY: as in cancel.
        unsafe { sys::dllm_task_is_cancelled(self.0.as_ptr()) != 0 }
    }

    /// A deadline from now; None removes it.
    pub fn set_deadline(&self, time: Option<Duration>) {
        let milliseconds = time.map_or(-1, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        // SAFETY: as in cancel.
        unsafe { sys::dllm_task_set_deadline(self.0.as_ptr(), milliseconds) }
    }

    /// What a call with this task would return, when it was cancelled or its deadline has passed.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_cancelled() {
            return Ok(());
        }
        // Without its deadline a task is cancelled only by a cancel. The deadline is back before the next look.
        self.set_deadline(None);
        let was_cancelled = self.is_cancelled();
        self.set_deadline(Some(Duration::ZERO));
        Err(if was_cancelled {
            Error::new(Code::Cancelled, "the task was cancelled", "")
        } else {
            Error::new(Code::DeadlineExceeded, "the task's deadline has passed", "")
        })
    }

    /// How far the running call is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let (mut done, mut total) = (0, 0);
        // SAFETY: as in cancel; both outs are alive.
        unsafe { sys::dllm_task_progress(self.0.as_ptr(), &mut done, &mut total) };
        Progress { done, total: (total > 0).then_some(total) }
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("is_cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

pub(crate) fn pointer(task: Option<&Task>) -> *mut sys::dllm_task {
    task.map_or(std::ptr::null_mut(), |task| task.0.as_ptr())
}
