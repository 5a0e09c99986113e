//! Who may work on a model. In C the host keeps the rules of `dllm/model.h`; here they are kept for it, so that models,
//! trainers and decoders can be shared by threads without `unsafe`:
//!
//! - forward, new weights and training: one call at a time per model ([`Turns::work`]).
//! - a new trainer, a script: no other call of the model or its decoders meanwhile ([`Turns::remake`]).
//! - all else runs together ([`Turns::read`], and [`Turns::step`] for decoding).
//!
//! A callback may not begin work, so a thread waits for a turn only while it holds none, and nothing waits forever.

use crate::error::{Code, Error, Result};
use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, ready: impl Fn(&State) -> bool) -> MutexGuard<'a, State> {
        self.changed.wait_while(state, |state| !ready(state)).unwrap_or_else(PoisonError::into_inner)
    }

    /// For what only reads; allowed in callbacks.
    pub(crate) fn read(&self) -> Turn<'_> {
        let inside = InCallback::is_here();
        let mut state = self.wait(self.lock(), |state| !state.remaking && (state.wanted == 0 || inside));
        state.readers += 1;
        Turn { turns: self, kind: Kind::Read }
    }

    /// For a step of a decoder.
    pub(crate) fn step(&self) -> Result<Turn<'_>> {
        InCallback::refuse()?;
        Ok(self.read())
    }

    /// For forward, new weights, training.
    pub(crate) fn work(&self) -> Result<Turn<'_>> {
        InCallback::refuse()?;
        self.wait(self.lock(), |state| !state.working).working = true;
        Ok(Turn { turns: self, kind: Kind::Work })
    }

    /// For what changes more than weights.
    pub(crate) fn remake(&self) -> Result<Turn<'_>> {
        InCallback::refuse()?;
        let mut state = self.lock();
        state.wanted += 1;
        let mut state = self.wait(state, |state| !state.working && state.readers == 0);
        state.wanted -= 1;
        state.working = true;
        state.remaking = true;
        Ok(Turn { turns: self, kind: Kind::Remake })
    }

    fn try_remake(&self) -> Option<Turn<'_>> {
        let mut state = self.lock();
        if state.working || state.readers > 0 {
            return None;
        }
        state.working = true;
        state.remaking = true;
        Some(Turn { turns: self, kind: Kind::Remake })
    }

    /// `remake` of several models. It waits for one at a time, and while it waits it holds none.
    pub(crate) fn remake_all(all: &[Arc<Self>]) -> Result<Vec<Turn<'_>>> {
        let mut first = 0;
        loop {
            let Some(awaited) = all.get(first) else { return Ok(Vec::new()) };
            let mut turns = vec![awaited.remake()?];
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
                                let _turn = turns[0].work().unwrap();
                                worked(working);
                            }
                            1 => {
                                let _turn = turns[0].step().unwrap();
                                reading.fetch_add(1, Ordering::SeqCst);
                                let _callback = InCallback::enter();
                                let _again = turns[0].read();
                                reading.fetch_sub(1, Ordering::SeqCst);
                            }
                            _ => {
                                let _turns = Turns::remake_all(turns).unwrap();
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
        let _working = turns.work().unwrap();
        let _callback = InCallback::enter();
        drop(turns.read());
        for refused in [turns.work().err(), turns.step().err(), turns.remake().err()] {
            assert_eq!(refused.unwrap().code(), Code::FailedPrecondition);
        }
    }
}
