package dllm

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

// Ticket is a request of a [Queue]. Any goroutine may read it, wait for it and cancel it. Close removes the request, and so
// does the end of a loop over its pieces. The collector closes a ticket that is unreachable.
type Ticket struct {
	_       noCopy
	queue   *Queue
	request submitted
	cleanup runtime.Cleanup
	last    atomic.Pointer[Generation] // after the last piece
}

// submittedVersion is the version of a request before its first step.
const submittedVersion = int64(1)

// submitted is a request and its queue.
type submitted struct {
	queue  *object
	number int64
}

func newTicket(q *Queue, number int64) *Ticket {
	t := &Ticket{queue: q, request: submitted{q.object, number}}
	t.cleanup = runtime.AddCleanup(t, submitted.remove, t.request)
	return t
}

// remove does nothing where the queue is closed or has forgotten the request.
func (s submitted) remove() {
	if s.queue.enter() {
		defer s.queue.leave()
		dllm_queue_remove(s.queue.pointer, s.number, 0)
	}
}

// Number returns the number of the request, which no other request of the queue has.
func (t *Ticket) Number() int64 { return t.request.number }

// Wait waits until the request is over, or for at most this time. It reports whether the request is over.
func (t *Ticket) Wait(ctx context.Context, most time.Duration) (isOver bool, err error) {
	var version int64
	for end := time.Now().Add(most); !isOver && err == nil; most = time.Until(end) {
		version, isOver, err = t.queue.wait(ctx, t.request.number, version, max(most, 0))
		if most <= 0 {
			break
		}
	}
	runtime.KeepAlive(t)
	return isOver, err
}

// Text returns a part of the text, as of the last complete step: "completion", "text", "next" or "canvas", as
// [Generator.Text] has them. It returns the error of a request that failed.
func (t *Ticket) Text(part string) (string, error) {
	defer runtime.KeepAlive(t)
	return t.queue.text(t.request.number, part)
}

// Describe returns the request as JSON: what [Generator.Describe] has, and phase, version, seconds_waited and more.
func (t *Ticket) Describe() (json.RawMessage, error) {
	defer runtime.KeepAlive(t)
	return t.queue.describe(t.request.number)
}

// Generation waits for the end of the request and returns its answer, or the error of a request that failed: [Cancelled],
// [DeadlineExceeded] after its timeout, or that of a step. When the context is done the request goes on.
func (t *Ticket) Generation(ctx context.Context) (*Generation, error) {
	if last := t.last.Load(); last != nil {
		return last, nil
	}
	for isOver := false; !isOver; {
		var err error
		if isOver, err = t.Wait(ctx, math.MaxInt64); err != nil {
			return nil, err
		}
	}
	if _, err := t.Text("completion"); err != nil {
		return nil, err
	}
	now, err := t.now()
	if err != nil {
		return nil, err
	}
	return &now.Generation, nil
}

// progress is what a description has.
type progress struct {
	Generation
	Phase   string
	Version int64
}

func (t *Ticket) now() (now progress, err error) {
	data, err := t.Describe()
	if err != nil {
		return now, err
	}
	return now, json.Unmarshal(data, &now)
}

// Pieces yields what is new each time that the request has changed. A slow loop misses steps and no text. An error ends the
// loop; that of the context is one. The end of the loop, also an early one, removes the request. One goroutine reads the
// pieces of a ticket.
func (t *Ticket) Pieces(ctx context.Context) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		defer t.Close()
		for seen, isOver := submittedVersion, t.last.Load() != nil; !isOver; {
			_, _, err := t.queue.wait(ctx, t.request.number, seen, math.MaxInt64)
			var piece Piece
			if err == nil {
				piece, seen, isOver, err = t.piece()
			}
			if !yield(piece, err) || err != nil {
				return
			}
		}
	}
}

// piece describes the request before it reads the text, which is then not older.
func (t *Ticket) piece() (piece Piece, version int64, isOver bool, err error) {
	now, err := t.now()
	if err != nil {
		return piece, 0, false, err
	}
	if piece.Text, err = t.Text("next"); err != nil {
		return piece, 0, false, err
	}
	if piece.Canvas, err = t.Text("canvas"); err != nil {
		return piece, 0, false, err
	}
	piece.Open, piece.Step = now.Open, now.Steps
	if isOver = now.Phase == "over"; isOver {
		t.last.Store(&now.Generation)
	}
	return piece, now.Version, isOver, nil
}

// Cancel ends the request: whoever reads it gets [Cancelled]. A request that is over stays as it is.
func (t *Ticket) Cancel() error {
	defer runtime.KeepAlive(t)
	return t.queue.cancel(t.request.number)
}

// Close removes the request, and cancels it where it is not over. Closing twice is allowed.
func (t *Ticket) Close() error {
	t.cleanup.Stop()
	t.request.remove()
	return nil
}
