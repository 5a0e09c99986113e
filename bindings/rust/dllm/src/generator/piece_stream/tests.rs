use super::super::tests::{no_request_is_left, short, stories};
use super::*;
use crate::RequestOptions;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, ready};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: it sleeps until it is woken. `polls` counts.
fn block_on<T>(future: impl Future<Output = T>, polls: &AtomicUsize) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        polls.fetch_add(1, Ordering::SeqCst);
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// What `StreamExt::next` of the crate futures does.
async fn next(pieces: &mut PieceStream<'_>) -> Option<Result<Piece>> {
    poll_fn(|context| Pin::new(&mut *pieces).poll_next(context)).await
}

async fn all(pieces: &mut PieceStream<'_>) -> Result<Vec<Piece>> {
    let mut made = Vec::new();
    while let Some(piece) = next(pieces).await {
        made.push(piece?);
    }
    Ok(made)
}

/// An executor of several threads may move it.
#[test]
fn a_stream_moves_between_threads() {
    fn moves<T: Send + Unpin>() {}
    moves::<PieceStream<'_>>();
}

#[test]
fn a_stream_has_the_pieces_of_the_iterator() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let expected = generator.stream("The sun", &short(), None)?.collect::<Result<Vec<_>>>()?;
    let whole = generator.generate("The sun", &short(), None)?;
    let polls = AtomicUsize::new(0);
    let mut pieces = generator.stream_async("The sun", &short(), None)?;
    assert!(pieces.generation().is_none());
    assert_eq!(block_on(all(&mut pieces), &polls)?, expected);
    assert_eq!(pieces.generation(), Some(&whole));
    assert!(block_on(next(&mut pieces), &polls).is_none());
    drop(pieces);
    let polls = polls.into_inner();
    assert!(polls <= 2 * expected.len() + 4, "{polls} polls: the executor is woken once a step");
    no_request_is_left(&mut generator);
    Ok(())
}

/// A poll returns at once, and another future of the same thread goes on while a step runs.
#[test]
fn a_step_does_not_block_the_executor() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let mut pieces = generator.stream_async("Once", &RequestOptions::new().length(128).steps(8), None)?;
    let (mut slowest, polls) = (Duration::ZERO, AtomicUsize::new(0));
    let made = block_on(
        poll_fn(|context| {
            let begin = Instant::now();
            let polled = Pin::new(&mut pieces).poll_next(context);
            slowest = slowest.max(begin.elapsed());
            Poll::Ready(ready!(polled))
        }),
        &polls,
    );
    assert!(made.expect("a piece").is_ok());
    let polls = polls.into_inner();
    assert!(polls >= 2 && slowest < Duration::from_millis(50), "{polls} polls, the slowest took {slowest:?}");
    Ok(())
}

#[test]
fn a_drop_in_the_middle_of_a_step_removes_the_request() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let waker = Waker::noop();
    for polled in [false, true] {
        let mut pieces = generator.stream_async("Once", &RequestOptions::new().length(128), None)?;
        if polled {
            assert!(Pin::new(&mut pieces).poll_next(&mut Context::from_waker(waker)).is_pending());
        }
        let begin = Instant::now();
        drop(pieces);
        assert!(begin.elapsed() < Duration::from_millis(50), "the drop took {:?}", begin.elapsed());
        no_request_is_left(&mut generator);
    }
    let mut pieces = generator.stream_async("Once", &short(), None)?;
    block_on(next(&mut pieces), &AtomicUsize::new(0)).expect("a piece")?;
    drop(pieces);
    no_request_is_left(&mut generator);
    assert_eq!(generator.generate("The sun", &short(), None)?.finish, "full");
    Ok(())
}

/// A forgotten stream may have a step under way, which the generator waits for.
#[test]
fn a_forgotten_stream() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let mut pieces = generator.stream_async("Once", &RequestOptions::new().length(64), None)?;
    assert!(Pin::new(&mut pieces).poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
    std::mem::forget(pieces);
    assert_eq!(generator.generate("The sun", &short(), None)?.finish, "full");
    Ok(())
}

#[test]
fn errors_of_a_stream() -> Result<()> {
    let Some(mut generator) = stories() else { return Ok(()) };
    let polls = AtomicUsize::new(0);
    let every: Vec<i64> = (0..).take(generator.tokenizer()?.len()).collect();
    let mut pieces = generator.stream_async("The sun", &short().suppress(&every), None)?;
    assert!(block_on(next(&mut pieces), &polls).expect("an error").is_err());
    assert!(block_on(next(&mut pieces), &polls).is_none());
    drop(pieces);
    let task = Task::new();
    let mut pieces = generator.stream_async("Once", &RequestOptions::new().length(64), Some(&task))?;
    block_on(next(&mut pieces), &polls).expect("a piece")?;
    task.cancel();
    assert_eq!(block_on(next(&mut pieces), &polls).expect("an error").unwrap_err().code(), Code::Cancelled);
    assert!(block_on(next(&mut pieces), &polls).is_none());
    drop(pieces);
    no_request_is_left(&mut generator);
    Ok(())
}
