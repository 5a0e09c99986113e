package dllm

import (
	"context"
	"sync/atomic"
	"time"
)

// Task shows the progress of a long call. Put it into the context of the call with [WithTask].
type Task struct {
	resource
	wasCancelled atomic.Bool
}

type taskKey struct{}

// NewTask makes a task that is not cancelled and has no deadline. A cancelled task stays cancelled: make one per call.
func NewTask() (*Task, error) {
	if err := ready(); err != nil {
		return nil, err
	}
	t := &Task{}
	t.adopt("task", dllm_task_new(), dllm_task_release)
	return t, nil
}

// WithTask returns a context whose calls use the task.
func WithTask(ctx context.Context, task *Task) context.Context {
	return context.WithValue(ctx, taskKey{}, task)
}

// Cancel stops the calls that use the task, from any goroutine.
func (t *Task) Cancel() {
	t.wasCancelled.Store(true)
	cancelTask(t.object)
}

// Cancelled reports whether the task was cancelled, or its deadline has passed.
func (t *Task) Cancelled() bool {
	if !t.enter() {
		return false
	}
	defer t.leave()
	return dllm_task_is_cancelled(t.pointer) != 0
}

// SetDeadline stops the calls after a duration from now; a negative one removes the deadline.
func (t *Task) SetDeadline(after time.Duration) {
	if t.enter() {
		defer t.leave()
		dllm_task_set_deadline(t.pointer, max(after.Milliseconds(), -1))
	}
}

// ended is the error that a call with the task would have now, nil while it may run.
func (t *Task) ended() error {
	switch {
	case t.Closed():
		return t.closedError()
	case !t.Cancelled():
		return nil
	case t.wasCancelled.Load():
		return &Error{Code: Cancelled, Message: "the task was cancelled"}
	}
	return &Error{Code: DeadlineExceeded, Message: "the task's deadline has passed"}
}

// Progress returns what the running call has done, and of how much; total 0: not known yet.
func (t *Task) Progress() (done, total int64) {
	if t.enter() {
		defer t.leave()
		dllm_task_progress(t.pointer, &done, &total)
	}
	return done, total
}

// cancelTask does nothing to a closed task: the context may be done while the call returns.
func cancelTask(task *object) {
	if task.enter() {
		defer task.leave()
		dllm_task_cancel(task.pointer)
	}
}

// watcher cancels a task when a context is done.
type watcher struct {
	task *object
	quit func() bool
	own  bool
}

func watchWith(ctx context.Context, task *object, cancel func()) watcher {
	w := watcher{task: task}
	if ctx.Done() != nil {
		w.quit = context.AfterFunc(ctx, cancel)
	}
	return w
}

func (w *watcher) stop() {
	if w.quit != nil {
		w.quit()
	}
	if w.own {
		w.task.close()
	}
}
