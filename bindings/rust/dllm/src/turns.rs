//! Who may work on a model. In C the host keeps the rules of `dllm/model.h`; here they are kept for it, so that models,
//! trainers and decoders can be shared by threads without `unsafe`:
//!
//! - forward, new weights and training: one call at a time per model ([`Turns::work`]).
//! - a new trainer, a script: no other call of the model or its decoders meanwhile ([`Turns::remake`]).
//! - all else runs together ([`Turns::read`], and [`Turns::step`] for decoding).
//! - a queue decodes at any time, so what is remade has none ([`Decoding`]).
//!
//! A callback may not begin work, so a thread waits for a turn only while it holds none, and nothing waits forever. The
//! task of a call ends its wait too.

use crate::error::{Code, Error, Result};
use crate::task::Task;
use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two looks at the task of a call that waits, as the library has.
const PAUSE: Duration = Duration::from_millis(10);

thread_local! {
    static CALLBACKS: Cell<usize> = const { Cell::new(0) };
}

/// This thread runs a callback of a call, until it is dropped.
pub(crate) struct InCallback;

impl InCallback {
    pub(crate) fn enter() -> Self {
        CALLBACKS.with(|depth| depth.set(depth.get() + 1));
        Self
    }

    fn is_here() -> bool {
        CALLBACKS.with(Cell::get) > 0
    }

    fn refuse() -> Result<()> {
        if Self::is_here() {
            let hint = "do it after the call that has the callback, or on another thread";
            return Err(Error::new(Code::FailedPrecondition, "a callback cannot step, train or run a model", hint));
        }
        Ok(())
    }
}

impl Drop for InCallback {
    fn drop(&mut self) {
        CALLBACKS.with(|depth| depth.set(depth.get() - 1));
    }
}

#[derive(Default)]
struct State {
    working: bool,  // work or remake
    remaking: bool, // readers wait
    readers: usize,
    queues: usize,
    wanted: usize, // threads that wait for remake: new readers stay behind them, callbacks excepted
}

/// Of one model, shared by its trainers and decoders.
#[derive(Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

enum Kind {
    Read,
    Work,
    Remake,
}

/// Ends with its drop.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    kind: Kind,
}

/// A queue has the model, until it is dropped.
pub(crate) struct Decoding(Arc<Turns>);

impl Decoding {
    /// It waits while the model is remade.
    pub(crate) fn begin(turns: &Arc<Turns>) -> Self {
        let _turn = turns.read();
        turns.lock().queues += 1;
        Self(Arc::clone(turns))
    }

    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.0
    }
}

impl Drop for Decoding {
    fn drop(&mut self) {
        self.0.lock().queues -= 1;
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready`. The task ends the wait as it would end the call.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        task: Option<&Task>,
        ready: impl Fn(&State) -> bool,
    ) -> (MutexGuard<'a, State>, Result<()>) {
        while !ready(&state) {
            state = match task {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(task) => match task.check() {
                    Ok(()) => self.changed.wait_timeout(state, PAUSE).unwrap_or_else(PoisonError::into_inner).0,
                    Err(ended) => return (state, Err(ended)),
                },
            };
        }
        (state, Ok(()))
    }

    /// For what only reads; allowed in callbacks.
    pub(crate) fn read(&self) -> Turn<'_> {
        let (state, _) = self.wait_to_read(None);
        self.begin_reading(state)
    }

    /// As `read`, for a call with a task.
    pub(crate) fn read_for(&self, task: Option<&Task>) -> Result<Turn<'_>> {
        let (state, waited) = self.wait_to_read(task);
        waited.map(|()| self.begin_reading(state))
    }

    fn wait_to_read(&self, task: Option<&Task>) -> (MutexGuard<'_, State>, Result<()>) {
        let inside = InCallback::is_here();
        self.wait(self.lock(), task, |state| !state.remaking && (state.wanted == 0 || inside))
    }

    fn begin_reading<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Turn<'a> {
        state.readers += 1;
        Turn { turns: self, kind: Kind::Read }
    }

    /// For a step of a decoder.
    pub(crate) fn step(&self, task: Option<&Task>) -> Result<Turn<'_>> {
        InCallback::refuse()?;
        self.read_for(task)
    }

    /// For forward, new weights, training.
    pub(crate) fn work(&self, task: Option<&Task>) -> Result<Turn<'_>> {
        InCallback::refuse()?;
        let (mut state, waited) = self.wait(self.lock(), task, |state| !state.working);
        waited?;
        state.working = true;
        Ok(Turn { turns: self, kind: Kind::Work })
    }

    /// For what changes more than weights.
    pub(crate) fn remake(&self, task: Option<&Task>) -> Result<Turn<'_>> {
        InCallback::refuse()?;
        let mut state = self.lock();
        if state.queues > 0 {
            let hint = "drop the queue and its tickets first";
            return Err(Error::new(Code::FailedPrecondition, "a queue decodes with this model", hint));
        }
        state.wanted += 1;
        let (mut state, waited) = self.wait(state, task, |state| !state.working && state.readers == 0);
        state.wanted -= 1;
        if let Err(ended) = waited {
            drop(state);
            self.changed.notify_all(); // readers stayed behind this one
            return Err(ended);
        }
        state.working = true;
        state.remaking = true;
        Ok(Turn { turns: self, kind: Kind::Remake })
    }

    fn try_remake(&self) -> Option<Turn<'_>> {
        let mut state = self.lock();
        if state.working || state.readers > 0 || state.queues > 0 {
            return None;
        }
        state.working = true;
        state.remaking = true;
        Some(Turn { turns: self, kind: Kind::Remake })
    }

    /// `remake` of several models. It waits for one at a time, and while it waits it holds none.
    pub(crate) fn remake_all<'a>(all: &'a [Arc<Self>], task: Option<&Task>) -> Result<Vec<Turn<'a>>> {
        let mut first = 0;
        loop {
            let Some(awaited) = all.get(first) else { return Ok(Vec::new()) };
            let mut turns = vec![awaited.remake(task)?];
            let others = all.iter().enumerate().filter(|(index, _)| *index != first);
            let missed = others.into_iter().find_map(|(index, other)| match other.try_remake() {
                Some(turn) => {
                    turns.push(turn);
                    None
                }
                None => Some(index),
            });
            match missed {
                None => return Ok(turns),
                Some(index) => first = index,
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        match self.kind {
            Kind::Read => state.readers -= 1,
            Kind::Work => state.working = false,
            Kind::Remake => (state.working, state.remaking) = (false, false),
        }
        drop(state);
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn work_excludes_work_and_remake_excludes_all() {
        let turns = [Arc::new(Turns::default()), Arc::new(Turns::default())];
        let (working, reading) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let worked = |count: &AtomicUsize| {
            assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0);
            thread::yield_now();
            count.fetch_sub(1, Ordering::SeqCst);
        };
        thread::scope(|scope| {
            for number in 0..6 {
                let (turns, working, reading) = (&turns, &working, &reading);
                scope.spawn(move || {
                    for _ in 0..300 {
                        match number % 3 {
                            0 => {
                                let _turn = turns[0].work(None).unwrap();
                                worked(working);
                            }
                            1 => {
                                let _turn = turns[0].step(None).unwrap();
                                reading.fetch_add(1, Ordering::SeqCst);
                                let _callback = InCallback::enter();
                                let _again = turns[0].read();
                                reading.fetch_sub(1, Ordering::SeqCst);
                            }
                            _ => {
                                let _turns = Turns::remake_all(turns, None).unwrap();
                                assert_eq!(reading.load(Ordering::SeqCst), 0);
                                worked(working);
                            }
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_callback_reads_and_does_not_work() {
        let turns = Turns::default();
        let _working = turns.work(None).unwrap();
        let _callback = InCallback::enter();
        drop(turns.read());
        for refused in [turns.work(None).err(), turns.step(None).err(), turns.remake(None).err()] {
            assert_eq!(refused.unwrap().code(), Code::FailedPrecondition);
        }
    }

    #[test]
    fn a_task_ends_the_wait() {
        let turns = [Arc::new(Turns::default())];
        let late = || Task::with_deadline(Duration::from_millis(20));
        let cancelled = Task::new();
        cancelled.cancel();
        let reading = turns[0].read();
        for (task, code) in [(late(), Code::DeadlineExceeded), (cancelled.clone(), Code::Cancelled)] {
            assert_eq!(Turns::remake_all(&turns, Some(&task)).err().unwrap().code(), code);
        }
        drop(reading);
        let remaking = turns[0].remake(None).unwrap();
        for (task, code) in [(late(), Code::DeadlineExceeded), (cancelled, Code::Cancelled)] {
            for ended in [turns[0].read_for(Some(&task)), turns[0].step(Some(&task)), turns[0].work(Some(&task))] {
                assert_eq!(ended.err().unwrap().code(), code);
            }
        }
        drop(remaking);
        drop(turns[0].work(Some(&Task::new())).unwrap());
        drop(turns[0].remake(None).unwrap());
    }
}
