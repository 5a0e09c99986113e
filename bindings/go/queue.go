package dllm

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Queue answers the requests of many goroutines with one model. It decodes on a thread of its own, and requests join and
// leave between two steps. The text of a request is the one that a [Generator] returns for it.
//
// Any goroutine may call it, several at a time. Close cancels the requests that are not over, when the calls that run have
// returned.
type Queue struct {
	resource
}

// LoadQueue loads a model with its tokenizer, as [LoadGenerator] does, and starts a queue. Options are those of kinds
// "queue" and "model" at one level, and "engine".
func LoadQueue(ctx context.Context, path string, options ...Option) (*Queue, error) {
	parts, err := splitLoad(options, "queue")
	if err != nil {
		return nil, err
	}
	defer parts.closeOwned()
	c := begin()
	defer c.end()
	var out handle
	on, where := c.engine(parts.engine), c.text(path)
	model, settings := c.settings("model", parts.model), c.settings("queue", parts.own)
	task := c.watch(ctx)
	if c.ok() {
		c.status(dllm_queue_load(where, on, model, settings, task, &out, c.errp))
	}
	return newQueue(&c, out)
}

// NewQueue starts a queue with a model and a tokenizer; options of kind "queue". It fails as [NewGenerator] does.
func NewQueue(model *Model, tokenizer *Tokenizer, options ...Option) (*Queue, error) {
	c := begin()
	defer c.end()
	var out handle
	of, with, settings := c.use(model.object), c.use(tokenizer.object), c.settings("queue", options)
	if c.ok() {
		c.status(dllm_queue_new(of, with, settings, &out, c.errp))
	}
	return newQueue(&c, out)
}

func newQueue(c *call, out handle) (*Queue, error) {
	if c.err != nil {
		return nil, c.err
	}
	q := &Queue{}
	q.adopt("queue", out, dllm_queue_release)
	return q, nil
}

// Submit submits a request and returns its ticket at once. prompt is what [Generator.Add] takes. Options are those of a
// request, and [SubmissionOptions], at one level. The context ends this call, not the request.
//
// It fails as [Generator.Add] does for a request that cannot be read, with [ResourceExhausted] when too many requests wait,
// and with [Unavailable] after Drain. The ticket has the errors that come later.
func (q *Queue) Submit(ctx context.Context, prompt any, options ...Option) (*Ticket, error) {
	options, err := withPrompt(prompt, options)
	if err != nil {
		return nil, err
	}
	request, submission, err := splitSubmission(options)
	if err != nil {
		return nil, err
	}
	c := begin()
	defer c.end()
	var number int64
	self, task := c.use(q.object), c.watch(ctx)
	asked, how := c.settings(kindOfRequest(request), request), c.settings("submission", submission)
	if c.ok() {
		c.status(dllm_queue_submit(self, asked, how, task, &number, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newTicket(q, number), nil
}

func splitSubmission(options []Option) (request, submission []Option, err error) {
	values, err := merge(options)
	if err != nil {
		return nil, nil, err
	}
	names, err := keysOf("submission")
	if err != nil {
		return nil, nil, err
	}
	asked, how := Options{}, Options{}
	for name, value := range values {
		if slices.Contains(names, name) {
			how[name] = value
		} else {
			asked[name] = value
		}
	}
	return []Option{asked}, []Option{how}, nil
}

// Generate decodes one request together with the requests of other goroutines, and removes it, also when the context is done.
func (q *Queue) Generate(ctx context.Context, prompt any, options ...Option) (*Generation, error) {
	ticket, err := q.Submit(ctx, prompt, options...)
	if err != nil {
		return nil, err
	}
	defer ticket.Close()
	return ticket.Generation(ctx)
}

// Wait waits until any request has changed: until the version of the queue is above seen, or the context is done. It
// returns the version now.
func (q *Queue) Wait(ctx context.Context, seen int64) (version int64, err error) {
	version, _, err = q.wait(ctx, -1, seen, math.MaxInt64)
	return version, err
}

func (q *Queue) wait(ctx context.Context, number, seen int64, most time.Duration) (version int64, isOver bool, err error) {
	c := begin()
	defer c.end()
	version = seen
	var over int64
	self, task := c.use(q.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_queue_wait(self, number, most.Milliseconds(), task, &version, &over, c.errp))
	}
	return version, over != 0, c.err
}

func (q *Queue) text(number int64, part string) (string, error) {
	c := begin()
	defer c.end()
	self, name, out := c.use(q.object), c.text(part), c.room()
	if c.ok() {
		c.status(dllm_queue_text(self, number, name, out, c.errp))
	}
	return string(c.content()), c.err
}

// Describe returns the queue as JSON: slots, waiting, decoding, over, totals and more.
func (q *Queue) Describe() (json.RawMessage, error) { return q.describe(-1) }

func (q *Queue) describe(number int64) (json.RawMessage, error) {
	c := begin()
	defer c.end()
	self, out := c.use(q.object), c.room()
	if c.ok() {
		c.status(dllm_queue_describe(self, number, out, c.errp))
	}
	return c.raw(), c.err
}

func (q *Queue) cancel(number int64) error {
	c := begin()
	defer c.end()
	self := c.use(q.object)
	if c.ok() {
		c.status(dllm_queue_cancel(self, number, c.errp))
	}
	return c.err
}

// Drain takes no further requests, and waits until all are over. When the context is done before, requests are refused all
// the same.
func (q *Queue) Drain(ctx context.Context) error {
	c := begin()
	defer c.end()
	self, task := c.use(q.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_queue_drain(self, task, c.errp))
	}
	return c.err
}

// Model returns the model.
func (q *Queue) Model() (*Model, error) {
	out, err := q.part(dllm_queue_model)
	if err != nil {
		return nil, err
	}
	return newModel(out), nil
}

// Tokenizer returns the tokenizer.
func (q *Queue) Tokenizer() (*Tokenizer, error) {
	out, err := q.part(dllm_queue_tokenizer)
	if err != nil {
		return nil, err
	}
	return newTokenizer(out), nil
}
