package dllm

import (
	"context"
	"encoding/json"
)

// loader keeps an optional loader open until the end of the call.
func (c *call) loader(given *Loader) handle {
	if given == nil {
		return 0
	}
	return c.use(given.object)
}

// SaveCheckpoint saves all that is needed to resume a run bit for bit; it returns the new folder. The loader may be nil.
// Options of kind "checkpoint".
func SaveCheckpoint(ctx context.Context, trainer *Trainer, loader *Loader, root string, options ...Option) (string, error) {
	c := begin()
	defer c.end()
	of, with, where := c.use(trainer.object), c.loader(loader), c.text(root)
	settings, task, out := c.settings("checkpoint", options), c.watch(ctx), c.room()
	if c.ok() {
		c.status(dllm_checkpoint_save(of, with, where, settings, task, out, c.errp))
	}
	return string(c.content()), c.err
}

// RestoreCheckpoint restores trainer, model and loader, which may be nil.
func RestoreCheckpoint(ctx context.Context, trainer *Trainer, loader *Loader, dir string) error {
	c := begin()
	defer c.end()
	of, with, where, task := c.use(trainer.object), c.loader(loader), c.text(dir), c.watch(ctx)
	if c.ok() {
		c.status(dllm_checkpoint_restore(of, with, where, task, c.errp))
	}
	return c.err
}

// LatestCheckpoint is the folder of a run's highest committed checkpoint; [NotFound] when there is none.
func LatestCheckpoint(root string) (string, error) {
	return LatestCheckpointContext(context.Background(), root)
}

// LatestCheckpointContext is LatestCheckpoint for object stores: it stops when the context is done.
func LatestCheckpointContext(ctx context.Context, root string) (string, error) {
	c := begin()
	defer c.end()
	where, task, out := c.text(root), c.watch(ctx), c.room()
	if c.ok() {
		c.status(dllm_checkpoint_latest_task(where, task, out, c.errp))
	}
	return string(c.content()), c.err
}

// Checkpoint is weights opened for reading: a checkpoint, a model folder, a safetensors or GGUF file.
type Checkpoint struct{ resource }

// OpenCheckpoint opens weights.
func OpenCheckpoint(path string) (*Checkpoint, error) {
	return OpenCheckpointContext(context.Background(), path)
}

// OpenCheckpointContext is OpenCheckpoint for object stores: it stops when the context is done.
func OpenCheckpointContext(ctx context.Context, path string) (*Checkpoint, error) {
	c := begin()
	defer c.end()
	var out handle
	where, task := c.text(path), c.watch(ctx)
	if c.ok() {
		c.status(dllm_checkpoint_open_task(where, task, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	k := &Checkpoint{}
	k.adopt("checkpoint", out, dllm_checkpoint_release)
	return k, nil
}

// Describe returns tensors and metadata as JSON.
func (k *Checkpoint) Describe() (json.RawMessage, error) {
	c := begin()
	defer c.end()
	self, out := c.use(k.object), c.room()
	if c.ok() {
		c.status(dllm_checkpoint_describe(self, out, c.errp))
	}
	return c.raw(), c.err
}

// Tensor reads one tensor.
func (k *Checkpoint) Tensor(name string) (*Tensor, error) {
	c := begin()
	defer c.end()
	var out handle
	self, key := c.use(k.object), c.text(name)
	if c.ok() {
		c.status(dllm_checkpoint_tensor(self, key, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newTensor(out), nil
}

// Verify reads every byte and compares sizes and checksums; [DataLoss] for a bad file.
func (k *Checkpoint) Verify(ctx context.Context) error {
	c := begin()
	defer c.end()
	self, task := c.use(k.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_checkpoint_verify(self, task, c.errp))
	}
	return c.err
}
