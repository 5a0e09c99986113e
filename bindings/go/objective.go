package dllm

import "context"

// Objective is how a batch is corrupted and how the loss is computed.
type Objective struct{ resource }

// NewObjective makes an objective by name; Names("objective") lists them. Without a schedule (nil) its own is used.
func NewObjective(name string, schedule *Schedule, options ...Option) (*Objective, error) {
	c := begin()
	defer c.end()
	var out, with handle
	if schedule != nil {
		with = c.use(schedule.object)
	}
	key, settings := c.text(name), c.settings(kindOf("objective", name, options), options)
	if c.ok() {
		c.status(dllm_objective_new(key, with, settings, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	o := &Objective{}
	o.adopt("objective", out, dllm_objective_release)
	return o, nil
}

// Prepare draws the noise of one step: ids with masks, targets, weights. The model's mask token, shift and vocabulary
// are used; without one (nil) they are options of the objective.
func (o *Objective) Prepare(model *Model, rows *Batch, seed, step int64) (*Batch, error) {
	c := begin()
	defer c.end()
	var out, of handle
	if model != nil {
		of = c.use(model.object)
	}
	self, batch := c.use(o.object), c.use(rows.object)
	if c.ok() {
		c.status(dllm_objective_prepare(self, of, batch, seed, step, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newBatch(out), nil
}

// Loss is the loss of one batch in nats; nothing is changed.
func (o *Objective) Loss(ctx context.Context, model *Model, rows *Batch, seed int64) (float64, error) {
	c := begin()
	defer c.end()
	var loss float64
	self, of, batch, task := c.use(o.object), c.use(model.object), c.use(rows.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_objective_loss(self, of, batch, seed, task, &loss, c.errp))
	}
	return loss, c.err
}

// RowLosses is the loss of every row: arrays "sums" in nats and "counts" of trained tokens.
func (o *Objective) RowLosses(ctx context.Context, model *Model, rows *Batch, seed int64) (*Batch, error) {
	c := begin()
	defer c.end()
	var out handle
	self, of, batch, task := c.use(o.object), c.use(model.object), c.use(rows.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_objective_row_losses(self, of, batch, seed, task, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newBatch(out), nil
}
