use super::*;
use crate::generator::tests::{cases, in_checkout, short};
use crate::{Code, EngineOptions, QueueOptions, RequestOptions, SubmissionOptions, options};
use std::thread;

fn stories() -> Option<Queue> {
    let options = options! { slots: 3, engine: EngineOptions::new().threads(1) };
    Some(Queue::load(in_checkout("scripts/recipes/stories.gguf")?, &options, None).expect("the model"))
}

/// A request that outlives the calls of a test.
fn long() -> RequestOptions {
    RequestOptions::new().length(200).steps(200)
}

fn no_request_is_left(queue: &Queue) {
    let about = queue.describe().expect("a description");
    let about = crate::json::Json::read(&about).expect("JSON");
    for key in ["waiting", "decoding", "over"] {
        assert_eq!(about.get(key).and_then(crate::json::Json::number::<i64>), Some(0), "{key}");
    }
}

#[test]
fn texts_of_several_threads_are_those_of_the_program() {
    let (Some(queue), Some(cases)) = (stories(), cases()) else { return };
    thread::scope(|scope| {
        for client in ["a", "b", "c", "d"] {
            let (queue, cases) = (&queue, &cases);
            scope.spawn(move || {
                for case in cases {
                    let how = SubmissionOptions::new().client(client).priority(1);
                    let made =
                        queue.generate(case.prompt.clone(), &case.settings.clone().and(&how), None).expect("a text");
                    assert_eq!(made.whole, case.expect, "{}", case.name);
                }
            });
        }
    });
    no_request_is_left(&queue);
}

#[test]
fn pieces_are_the_text() -> Result<()> {
    let (Some(queue), Some(cases)) = (stories(), cases()) else { return Ok(()) };
    for case in cases {
        let mut pieces = queue.submit(case.prompt, &case.settings, None)?.pieces(None);
        let text = pieces.by_ref().map(|piece| Ok(piece?.text)).collect::<Result<String>>()?;
        let made = pieces.generation().expect("a generation");
        assert_eq!((&made.whole, &text), (&case.expect, &made.text), "{}", case.name);
        assert!(pieces.next().is_none());
    }
    let mut left = queue.submit("The sun", &long(), None)?.pieces(None);
    assert!(left.next().expect("a piece")?.canvas.contains("<mask"));
    drop(left);
    no_request_is_left(&queue);
    Ok(())
}

#[test]
fn a_cancel_ends_one_request() -> Result<()> {
    let Some(queue) = stories() else { return Ok(()) };
    let (ticket, other) = (queue.submit("The sun", &long(), None)?, queue.submit("The sun", &short(), None)?);
    let remote = ticket.clone();
    let cancels = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        remote.cancel()
    });
    assert_eq!(ticket.generation(None).unwrap_err().code(), Code::Cancelled);
    cancels.join().expect("a thread")?;
    let mut pieces = ticket.pieces(None);
    assert_eq!(pieces.next().expect("an error").unwrap_err().code(), Code::Cancelled);
    assert!(pieces.next().is_none());
    other.wait(None, None)?;
    other.cancel()?;
    assert_eq!(other.generation(None)?.finish, "full");
    drop((ticket, pieces, other));
    no_request_is_left(&queue);
    Ok(())
}

#[test]
fn a_task_ends_the_wait_alone() -> Result<()> {
    let Some(queue) = stories() else { return Ok(()) };
    let ticket = queue.submit("The sun", &long(), None)?;
    let late = Task::with_deadline(Duration::from_millis(10));
    assert_eq!(ticket.generation(Some(&late)).unwrap_err().code(), Code::DeadlineExceeded);
    assert!(!ticket.wait(Some(Duration::ZERO), None)?);
    assert!(!ticket.wait(Some(Duration::from_millis(5)), None)?);
    let soon = long().and(&SubmissionOptions::new().timeout(0.01));
    assert_eq!(queue.generate("The sun", &soon, None).unwrap_err().code(), Code::DeadlineExceeded);
    drop(ticket);
    no_request_is_left(&queue);
    Ok(())
}

#[test]
fn an_error_of_one_request_leaves_the_others() -> Result<()> {
    let Some(queue) = stories() else { return Ok(()) };
    let all = (0..i64::try_from(queue.tokenizer()?.len()).expect("a number")).collect::<Vec<_>>();
    let good = queue.submit("The sun", &short(), None)?;
    let bad = queue.generate("The sun", &short().suppress(&all), None).unwrap_err();
    assert_ne!(bad.code(), Code::Cancelled);
    assert_eq!(good.generation(None)?.finish, "full");
    for wrong in [options! { temprature: 1 }, options! { priority: 2000 }, options! { length: -1 }] {
        assert!(queue.submit("The sun", &wrong, None).is_err(), "{wrong:?}");
    }
    let Some(path) = in_checkout("scripts/recipes/stories.gguf") else { return Ok(()) };
    let Err(wrong) = Queue::load(path, &options! { slot: 2 }, None) else { panic!("slot is taken") };
    assert!(wrong.hint().contains("did you mean slots?"), "{wrong}");
    Ok(())
}

#[test]
fn limits_drain_and_the_model() -> Result<()> {
    let Some(queue) = stories() else { return Ok(()) };
    let (model, tokenizer) = (queue.model()?, queue.tokenizer()?);
    let small = Queue::new(&model, &tokenizer, &QueueOptions::new().slots(1).waiting(1))?;
    let first = small.submit("The sun", &long(), None)?;
    let mut seen = 0;
    while first.describe()?.contains("\"waiting\"") {
        seen = small.wait(seen, Some(Duration::from_secs(1)), None)?;
    }
    let second = small.submit("The sun", &short(), None)?;
    assert_eq!(small.submit("The sun", &short(), None).expect_err("a limit").code(), Code::ResourceExhausted);
    drop(first);
    small.drain(None)?;
    assert!(second.wait(Some(Duration::ZERO), None)?);
    assert_eq!(small.submit("The sun", &short(), None).expect_err("it is drained").code(), Code::Unavailable);
    drop(small);
    assert_eq!(second.generation(None)?.finish, "full"); // a ticket keeps the queue
    let objective = crate::Objective::new("mdlm", None, &options! {})?;
    let Err(busy) = crate::Trainer::new(&model, &objective, &options! {}) else {
        panic!("a trainer of a queue's model")
    };
    assert!(busy.to_string().contains("a queue decodes"), "{busy}");
    Ok(())
}

#[cfg(feature = "stream")]
mod streams {
    use super::*;
    use futures_core::Stream;
    use std::future::{Future, poll_fn};
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Wake, Waker};

    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// The smallest executor: it sleeps until it is woken.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(value) => return value,
                Poll::Pending => thread::park(),
            }
        }
    }

    fn next(pieces: &mut TicketStream) -> Option<Result<crate::Piece>> {
        block_on(poll_fn(|context| Pin::new(&mut *pieces).poll_next(context)))
    }

    #[test]
    fn ticket_streams_have_the_text() -> Result<()> {
        let Some(queue) = stories() else { return Ok(()) };
        let whole = queue.generate("The sun", &short(), None)?;
        let mut pieces = queue.submit("The sun", &short(), None)?.stream(None);
        let mut text = String::new();
        while let Some(piece) = next(&mut pieces) {
            text += &piece?.text;
        }
        assert_eq!((&text, pieces.generation()), (&whole.text, Some(&whole)));
        assert!(next(&mut pieces).is_none());
        let ticket = queue.submit("The sun", &long(), None)?;
        let mut cut = ticket.stream(None);
        next(&mut cut).expect("a piece")?;
        ticket.cancel()?;
        while let Some(piece) = next(&mut cut) {
            if let Err(problem) = piece {
                assert_eq!(problem.code(), Code::Cancelled);
            }
        }
        drop((pieces, cut, ticket));
        no_request_is_left(&queue);
        Ok(())
    }
}
