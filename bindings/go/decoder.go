package dllm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// State is what a position of a canvas is.
type State byte

// The states of a position.
const (
	Masked      State = dllmMasked
	Provisional State = dllmProvisional
	Final       State = dllmFinal
	Fixed       State = dllmFixed
)

// Decoder turns prompts into text, step by step. It has slots, one per request.
type Decoder struct{ resource }

// NewDecoder makes a decoder; options of kind "decoder": policy, steps, gen_length, temperature, ...
func NewDecoder(model *Model, options ...Option) (*Decoder, error) {
	c := begin()
	defer c.end()
	var out handle
	kind := "decoder"
	if policy := named(options, "policy"); policy != "" {
		kind += ":" + policy
	}
	of, settings := c.use(model.object), c.settings(kind, options)
	if c.ok() {
		c.status(dllm_decoder_new(of, settings, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	d := &Decoder{}
	d.adopt("decoder", out, dllm_decoder_release)
	return d, nil
}

// Start removes all requests and starts one in slot 0: the prompt, then gen_length open positions.
func (d *Decoder) Start(prompt []int32, seed int64) error {
	c := begin()
	defer c.end()
	self := c.use(d.object)
	if c.ok() {
		c.status(dllm_decoder_start(self, (*int32)(address(prompt)), int64(len(prompt)), seed, c.errp))
	}
	return c.err
}

// Add adds a request and returns its slot. fixed has 1 where a position is given and 0 where it is open; with nil
// gen_length open positions follow the canvas. Options of kind "slot": seed, ...
func (d *Decoder) Add(canvas []int32, fixed []byte, options ...Option) (slot int, err error) {
	c := begin()
	defer c.end()
	var out int64
	self, settings := c.use(d.object), c.settings("slot", options)
	if fixed != nil && len(fixed) != len(canvas) {
		c.fail(invalid(fmt.Sprintf("canvas has %d positions, fixed %d", len(canvas), len(fixed)), ""))
	}
	if c.ok() {
		c.status(dllm_decoder_add(self, (*int32)(address(canvas)), (*byte)(address(fixed)), int64(len(canvas)), settings,
			&out, c.errp))
	}
	return int(out), c.err
}

// Remove ends a request.
func (d *Decoder) Remove(slot int) error {
	c := begin()
	defer c.end()
	self := c.use(d.object)
	if c.ok() {
		c.status(dllm_decoder_remove(self, int64(slot), c.errp))
	}
	return c.err
}

// Step takes one denoising step of every active slot; it returns how many still have open positions.
func (d *Decoder) Step(ctx context.Context) (active int, err error) {
	c := begin()
	defer c.end()
	var out int64
	self, task := c.use(d.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_decoder_step(self, task, &out, c.errp))
	}
	return int(out), c.err
}

// Steps takes steps until everything is decided, and yields what Step returns. An error ends the loop; leaving it early
// leaves the decoder as it is.
func (d *Decoder) Steps(ctx context.Context) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for {
			active, err := d.Step(ctx)
			if !yield(active, err) || err != nil || active == 0 {
				return
			}
		}
	}
}

// StepFor works for a duration, and may return in the middle of a step, which the next call continues. It returns how many
// slots still have open positions; callback (may be nil) gets the events of completed steps.
func (d *Decoder) StepFor(ctx context.Context, budget time.Duration, callback Callback) (active int, err error) {
	c := begin()
	defer c.end()
	var out int64
	self, task := c.use(d.object), c.watch(ctx)
	milliseconds := float64(budget) / float64(time.Millisecond)
	c.withCallback(callback, func(fn, number uintptr) int32 {
		return dllm_decoder_step_for(self, milliseconds, fn, number, task, &out, c.errp)
	})
	return int(out), c.err
}

// Run takes steps until everything is decided; callback (may be nil) gets every event.
func (d *Decoder) Run(ctx context.Context, callback Callback) error {
	c := begin()
	defer c.end()
	self, task := c.use(d.object), c.watch(ctx)
	c.withCallback(callback, func(fn, number uintptr) int32 {
		return dllm_decoder_run(self, fn, number, task, c.errp)
	})
	return c.err
}

// Predict runs the model for the next step and decides nothing: see Statistics and Commit.
func (d *Decoder) Predict(ctx context.Context) error {
	c := begin()
	defer c.end()
	self, task := c.use(d.object), c.watch(ctx)
	if c.ok() {
		c.status(dllmx_decoder_predict(self, task, c.errp))
	}
	return c.err
}

// Statistics are the predictions: positions, token, probability, argmax, entropy, top_ids, ...
func (d *Decoder) Statistics(slot int) (*Batch, error) {
	c := begin()
	defer c.end()
	var out handle
	self := c.use(d.object)
	if c.ok() {
		c.status(dllmx_decoder_statistics(self, int64(slot), &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newBatch(out), nil
}

// Commit decides positions and ends the slot's step.
func (d *Decoder) Commit(slot int, positions []int64, ids []int32) error {
	c := begin()
	defer c.end()
	self := c.use(d.object)
	if len(positions) != len(ids) {
		c.fail(invalid(fmt.Sprintf("%d positions, %d ids", len(positions), len(ids)), ""))
	}
	if c.ok() {
		c.status(dllmx_decoder_commit(self, int64(slot), (*int64)(address(positions)), (*int32)(address(ids)),
			int64(len(ids)), c.errp))
	}
	return c.err
}

// Metric returns a number: open, steps, nfe, done, ...; slot -1 is all of them.
func (d *Decoder) Metric(slot int, key string) (float64, error) {
	c := begin()
	defer c.end()
	var out float64
	self, name := c.use(d.object), c.text(key)
	if c.ok() {
		c.status(dllm_decoder_metric(self, int64(slot), name, &out, c.errp))
	}
	return out, c.err
}

// Trace is one JSON object per step: step, ids, states, confidence. The decoder is made with trace = true; a last object
// with "stopped" means that it exceeded trace_bytes.
func (d *Decoder) Trace(slot int) ([]json.RawMessage, error) {
	c := begin()
	defer c.end()
	self, out := c.use(d.object), c.room()
	if c.ok() {
		c.status(dllm_decoder_trace(self, int64(slot), out, c.errp))
	}
	var steps []json.RawMessage
	for line := range bytes.Lines(c.content()) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			steps = append(steps, line)
		}
	}
	return steps, c.err
}

// Describe returns options and state as JSON.
func (d *Decoder) Describe() (json.RawMessage, error) {
	c := begin()
	defer c.end()
	self, out := c.use(d.object), c.room()
	if c.ok() {
		c.status(dllm_decoder_describe(self, out, c.errp))
	}
	return c.raw(), c.err
}
