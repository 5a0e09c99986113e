package dllm

import (
	"context"
	"encoding/json"
	"iter"
)

// Trainer changes the weights of a model.
type Trainer struct{ resource }

// NewTrainer makes a trainer; options of kind "trainer": lr, optimizer, ...
func NewTrainer(model *Model, objective *Objective, options ...Option) (*Trainer, error) {
	c := begin()
	defer c.end()
	var out handle
	of, with, settings := c.use(model.object), c.use(objective.object), c.settings("trainer", options)
	if c.ok() {
		c.status(dllm_trainer_new(of, with, settings, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	t := &Trainer{}
	t.adopt("trainer", out, dllm_trainer_release)
	return t, nil
}

// Step takes one optimizer step; it returns the loss before the update, in nats.
func (t *Trainer) Step(ctx context.Context, rows *Batch) (float64, error) {
	c := begin()
	defer c.end()
	var loss float64
	self, batch, task := c.use(t.object), c.use(rows.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_trainer_step(self, batch, task, &loss, c.errp))
	}
	return loss, c.err
}

// Steps takes a step per batch of the loader, at most count, and yields the losses. An error ends the loop.
func (t *Trainer) Steps(ctx context.Context, loader *Loader, count int) iter.Seq2[float64, error] {
	return func(yield func(float64, error) bool) {
		for range count {
			batch, err := loader.Next()
			if isEnd(err) {
				return
			}
			var loss float64
			if err == nil {
				loss, err = t.Step(ctx, batch)
				_ = batch.Close()
			}
			if !yield(loss, err) || err != nil {
				return
			}
		}
	}
}

// Accumulate adds the gradients of a batch.
func (t *Trainer) Accumulate(ctx context.Context, rows *Batch) error {
	c := begin()
	defer c.end()
	self, batch, task := c.use(t.object), c.use(rows.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_trainer_accumulate(self, batch, task, c.errp))
	}
	return c.err
}

// Apply updates the weights with the gradients summed by Accumulate; it returns their mean loss.
func (t *Trainer) Apply(ctx context.Context) (float64, error) {
	c := begin()
	defer c.end()
	var loss float64
	self, task := c.use(t.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_trainer_apply(self, task, &loss, c.errp))
	}
	return loss, c.err
}

// Sync brings the weights of the device into the model.
func (t *Trainer) Sync() error {
	c := begin()
	defer c.end()
	self := c.use(t.object)
	if c.ok() {
		c.status(dllm_trainer_sync(self, c.errp))
	}
	return c.err
}

// Run takes many steps; callback (may be nil) gets every event.
func (t *Trainer) Run(ctx context.Context, loader *Loader, steps int64, callback Callback) error {
	c := begin()
	defer c.end()
	self, from, task := c.use(t.object), c.use(loader.object), c.watch(ctx)
	c.withCallback(callback, func(fn, number uintptr) int32 {
		return dllm_trainer_run(self, from, steps, fn, number, task, c.errp)
	})
	return c.err
}

// Eval is the mean loss over batches in nats; nothing is changed but the loader's position.
func (t *Trainer) Eval(ctx context.Context, loader *Loader, maxBatches int64) (float64, error) {
	c := begin()
	defer c.end()
	var loss float64
	self, from, task := c.use(t.object), c.use(loader.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_trainer_eval(self, from, maxBatches, task, &loss, c.errp))
	}
	return loss, c.err
}

// Metric returns a number of the last step: step, loss, grad_norm, lr, tokens, ...
func (t *Trainer) Metric(key string) (float64, error) {
	c := begin()
	defer c.end()
	var out float64
	self, name := c.use(t.object), c.text(key)
	if c.ok() {
		c.status(dllm_trainer_metric(self, name, &out, c.errp))
	}
	return out, c.err
}

// Describe returns options and state as JSON.
func (t *Trainer) Describe() (json.RawMessage, error) {
	c := begin()
	defer c.end()
	self, out := c.use(t.object), c.room()
	if c.ok() {
		c.status(dllm_trainer_describe(self, out, c.errp))
	}
	return c.raw(), c.err
}

// Set changes "lr", "weight_decay" or "clip" between steps, also in a callback.
func (t *Trainer) Set(key string, value float64) error {
	c := begin()
	defer c.end()
	self, name := c.use(t.object), c.text(key)
	if c.ok() {
		c.status(dllm_trainer_set_f64(self, name, value, c.errp))
	}
	return c.err
}

// AddSink writes every event to a sink: "jsonl" or "csv" (target is a file), "tensorboard" (a folder) or "console";
// options of kind "sink".
func (t *Trainer) AddSink(kind, target string, options ...Option) error {
	c := begin()
	defer c.end()
	self, name, settings := c.use(t.object), c.text(kind), c.settings("sink", options)
	var where *byte
	if target != "" {
		where = c.text(target)
	}
	if c.ok() {
		c.status(dllm_trainer_add_sink(self, name, where, settings, c.errp))
	}
	return c.err
}

// Model returns the model of a role: "live", or "ema" where the trainer has one.
func (t *Trainer) Model(role string) (*Model, error) {
	c := begin()
	defer c.end()
	var out handle
	self, name := c.use(t.object), c.text(role)
	if c.ok() {
		c.status(dllm_trainer_model(self, name, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newModel(out), nil
}
