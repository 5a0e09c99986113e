package dllm

import (
	"context"
	"iter"
)

// Loader makes batches of a dataset, in a reproducible order.
type Loader struct{ resource }

// NewLoader makes a loader; options of kind "loader": batch, length, epochs, ...
func NewLoader(data *Dataset, options ...Option) (*Loader, error) {
	c := begin()
	defer c.end()
	var out handle
	from, settings := c.use(data.object), c.settings("loader", options)
	if c.ok() {
		c.status(dllm_loader_new(from, settings, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	l := &Loader{}
	l.adopt("loader", out, dllm_loader_release)
	return l, nil
}

// Next returns the next batch; [OutOfRange] at the end of the data.
func (l *Loader) Next() (*Batch, error) {
	c := begin()
	defer c.end()
	var out handle
	self := c.use(l.object)
	if c.ok() {
		c.status(dllm_loader_next(self, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newBatch(out), nil
}

// Batches yields the batches to the end of the data. Each is closed when the loop goes on; an error ends the loop.
func (l *Loader) Batches() iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		for {
			batch, err := l.Next()
			if isEnd(err) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			goesOn := yield(batch, nil)
			_ = batch.Close()
			if !goesOn {
				return
			}
		}
	}
}

// WriteAnchors writes what a teacher computes from the rows of one epoch to a folder, and returns the number of new
// chunks; options of kind "anchors".
func (l *Loader) WriteAnchors(ctx context.Context, teacher *Model, path string, options ...Option) (int64, error) {
	c := begin()
	defer c.end()
	var chunks int64
	self, model, where := c.use(l.object), c.use(teacher.object), c.text(path)
	settings, task := c.settings("anchors", options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_loader_write_anchors(self, model, where, settings, task, &chunks, c.errp))
	}
	return chunks, c.err
}

// Position is how many rows were taken, not batches; 0 for a closed loader.
func (l *Loader) Position() int64 {
	if !l.enter() {
		return 0
	}
	defer l.leave()
	return dllm_loader_position(l.pointer)
}

// SeekTo goes to a position that Position returned.
func (l *Loader) SeekTo(position int64) error {
	c := begin()
	defer c.end()
	self := c.use(l.object)
	if c.ok() {
		c.status(dllm_loader_seek(self, position, c.errp))
	}
	return c.err
}
