package dllm

import (
	"bytes"
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// pause is the time between two looks at the [Task] of a call that waits.
const pause = 10 * time.Millisecond

// turns let the calls of a generator run one after another, in the order in which they came.
type turns struct {
	free      chan struct{} // has an element while no call has the turn
	closed    chan struct{} // is closed with the generator
	close     func()
	inside    atomic.Int64 // the goroutine that calls back in its turn; 0: none
	mutex     sync.Mutex
	forgotten []int // requests of streams that are over
}

func newTurns() *turns {
	t := &turns{free: make(chan struct{}, 1), closed: make(chan struct{})}
	t.close = sync.OnceFunc(func() { close(t.closed) })
	t.free <- struct{}{}
	return t
}

func (t *turns) tryTake() bool {
	select {
	case <-t.free:
		return true
	default:
		return false
	}
}

// turn waits until no other call of the generator runs. The context ends the wait as it would end the call, and so does the
// close of the generator. The call ends its turn with leave. A call inside of a callback is a part of the turn, and the
// library refuses what such a call may not do.
func (g *Generator) turn(ctx context.Context) (leave func(), err error) {
	if g.Closed() {
		return nil, g.closedError()
	}
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	if g.turns.tryTake() {
		return g.leave, nil
	}
	if g.turns.isInside() {
		return func() {}, nil
	}
	return g.leave, g.wait(ctx)
}

func (g *Generator) wait(ctx context.Context) error {
	var look <-chan time.Time
	task, hasTask := ctx.Value(taskKey{}).(*Task)
	if hasTask {
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case <-g.turns.free:
			return nil
		case <-g.turns.closed:
			return g.closedError()
		case <-ctx.Done():
			return cancelled(ctx)
		case <-look:
			if err := task.ended(); err != nil {
				return err
			}
		}
	}
}

// leave removes the requests of streams that are over, and ends the turn. Then it looks again: a stream that ended in
// between found the turn taken.
func (g *Generator) leave() {
	for {
		for _, number := range g.turns.takeForgotten() {
			_ = g.remove(number)
		}
		g.turns.free <- struct{}{}
		if !g.turns.hasForgotten() || !g.turns.tryTake() {
			return
		}
	}
}

// forget removes the request of a stream that is over: now, or after the call that has the turn. It does not wait.
func (g *Generator) forget(number int) {
	g.turns.mutex.Lock()
	g.turns.forgotten = append(g.turns.forgotten, number)
	g.turns.mutex.Unlock()
	if g.turns.tryTake() {
		g.leave()
	}
}

func (t *turns) takeForgotten() []int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	numbers := t.forgotten
	t.forgotten = nil
	return numbers
}

func (t *turns) hasForgotten() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return len(t.forgotten) > 0
}

// callBack marks the goroutine that has the turn as one that calls back, until the function that it returns is called.
func (t *turns) callBack() (end func()) {
	before := t.inside.Swap(goroutine())
	return func() { t.inside.Store(before) }
}

// isInside reports whether a callback in the turn makes this call.
func (t *turns) isInside() bool {
	inside := t.inside.Load()
	return inside != 0 && inside == goroutine()
}

// goroutine is the number of the running goroutine. The runtime has the number only in the text of a stack, which begins
// with "goroutine 18 [running]:".
func goroutine() int64 {
	var line [40]byte
	_, text, _ := bytes.Cut(line[:runtime.Stack(line[:], false)], []byte(" "))
	text, _, _ = bytes.Cut(text, []byte(" "))
	number, _ := strconv.ParseInt(string(text), 10, 64)
	return number
}

// inTurn is a call in its turn that returns a value.
func inTurn[T any](ctx context.Context, g *Generator, call func() (T, error)) (value T, err error) {
	leave, err := g.turn(ctx)
	if err != nil {
		return value, err
	}
	defer leave()
	return call()
}
