package dllm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// call collects what one call of the library needs, and the first error on the way:
//
//	c := begin()
//	defer c.end()
//	self, task := c.use(d.object), c.watch(ctx)
//	if c.ok() {
//		c.status(dllm_decoder_step(self, task, &active, c.errp))
//	}
//	return int(active), c.err
type call struct {
	err     error
	errp    handle // the error object of the library
	problem *problem
	held    [6]*object
	count   int
	options [2]handle
	made    int // how many options there are
	buffer  handle
	ctx     context.Context
	watcher watcher
}

func begin() call {
	if err := ready(); err != nil {
		return call{err: err}
	}
	p := problems.Get().(*problem)
	return call{problem: p, errp: p.pointer}
}

func (c *call) ok() bool { return c.err == nil }

func (c *call) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// use keeps an object open until the end of the call.
func (c *call) use(o *object) handle {
	if c.err != nil {
		return 0
	}
	if !o.enter() {
		c.err = o.closedError()
		return 0
	}
	c.held[c.count] = o
	c.count++
	return o.pointer
}

// text is a string as C has it: a copy with a 0 byte at the end.
func (c *call) text(s string) *byte {
	if strings.IndexByte(s, 0) >= 0 {
		c.fail(invalid(fmt.Sprintf("the text %q has a 0 byte", s), ""))
	}
	data := make([]byte, len(s)+1)
	copy(data, s)
	return &data[0]
}

// json is a value as JSON text: its address and length. name is what errors call it.
func (c *call) json(value any, name string) (unsafe.Pointer, int64) {
	data, err := encode(value, name)
	if err != nil {
		c.fail(err)
	}
	return address(data), int64(len(data))
}

// settings makes an options object, which the end of the call releases. Without options it is NULL: the defaults.
func (c *call) settings(kind string, options []Option) handle {
	values, err := merge(options)
	if err != nil {
		c.fail(err)
	}
	if c.err != nil || len(values) == 0 {
		return 0
	}
	made := c.newOptions(kind)
	data, size := c.json(values, "")
	if c.ok() {
		c.status(dllm_options_set_json(made, data, size, c.errp))
	}
	return made
}

// newOptions makes an options object of defaults, which the end of the call releases.
func (c *call) newOptions(kind string) handle {
	c.status(dllm_options_new(c.text(kind), &c.options[c.made], c.errp))
	c.made++
	return c.options[c.made-1]
}

// room makes a buffer that the library writes to; content copies what it wrote.
func (c *call) room() handle {
	if c.err == nil && c.buffer == 0 {
		c.buffer = dllm_buffer_new()
	}
	return c.buffer
}

func (c *call) content() []byte {
	if c.err != nil {
		return nil
	}
	return bytesAt(dllm_buffer_data(c.buffer), int(dllm_buffer_size(c.buffer)))
}

// watch makes the task that is cancelled when the context is done; NULL for a context that never is.
func (c *call) watch(ctx context.Context) handle {
	if c.err != nil {
		return 0
	}
	if ctx.Err() != nil {
		c.err = cancelled(ctx)
		return 0
	}
	c.ctx = ctx
	if task, ok := ctx.Value(taskKey{}).(*Task); ok {
		pointer := c.use(task.object)
		if c.ok() {
			c.watcher = watchWith(ctx, task.object, task.Cancel)
		}
		return pointer
	}
	if ctx.Done() == nil {
		return 0
	}
	own := &object{noun: "task", pointer: dllm_task_new(), release: dllm_task_release}
	c.watcher = watchWith(ctx, own, func() { cancelTask(own) })
	c.watcher.own = true
	return own.pointer
}

// status turns a status other than 0 into the error of the call.
func (c *call) status(status int32) {
	if status == dllmOk || c.err != nil {
		return
	}
	problem := c.problem.read(status)
	ended := problem.Code == Cancelled || problem.Code == DeadlineExceeded
	if ended && c.ctx != nil && c.ctx.Err() != nil {
		problem = cancelled(c.ctx)
	}
	c.err = problem
}

// part is an object that the noun keeps, as one of its own.
func (o *object) part(of func(self handle, out *handle, err handle) int32) (handle, error) {
	c := begin()
	defer c.end()
	var out handle
	self := c.use(o)
	if c.ok() {
		c.status(of(self, &out, c.errp))
	}
	return out, c.err
}

func (c *call) end() {
	c.watcher.stop()
	for c.count > 0 {
		c.count--
		c.held[c.count].leave()
	}
	for _, made := range c.options[:c.made] {
		dllm_options_release(made)
	}
	if c.buffer != 0 {
		dllm_buffer_release(c.buffer)
	}
	if c.problem != nil {
		problems.Put(c.problem)
	}
}

// isEnd reports whether an error is the end of the data.
func isEnd(err error) bool { return errors.Is(err, OutOfRange) }
