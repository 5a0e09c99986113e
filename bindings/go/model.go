package dllm

import (
	"context"
	"encoding/json"
)

// Model is a config and named parameters.
type Model struct{ resource }

func newModel(pointer handle) *Model {
	m := &Model{}
	m.adopt("model", pointer, dllm_model_release)
	return m
}

// LoadModel loads a model folder, a GGUF file, a run or a checkpoint folder; options of kind "model". Without an engine
// (nil) the default one is used.
func LoadModel(ctx context.Context, engine *Engine, path string, options ...Option) (*Model, error) {
	c := begin()
	defer c.end()
	var out handle
	on, where, settings, task := c.engine(engine), c.text(path), c.settings("model", options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_model_load(on, where, settings, task, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newModel(out), nil
}

// LoadModelSource loads a model from files in memory.
func LoadModelSource(ctx context.Context, engine *Engine, source *Source, options ...Option) (*Model, error) {
	c := begin()
	defer c.end()
	var out handle
	on, from, settings, task := c.engine(engine), c.use(source.object), c.settings("model", options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_model_load_source(on, from, settings, task, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newModel(out), nil
}

// NewModel makes a model with random weights. config is the content of a config.json: a struct or map with its
// keys, or a json.RawMessage.
func NewModel(ctx context.Context, engine *Engine, config any, options ...Option) (*Model, error) {
	c := begin()
	defer c.end()
	var out handle
	on, settings, task := c.engine(engine), c.settings("model", options), c.watch(ctx)
	data, size := c.json(config, "")
	if c.ok() {
		c.status(dllm_model_new(on, data, size, settings, task, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newModel(out), nil
}

// QuantizeModel writes a model in another weight format: a .gguf file or a folder; options of kind "quantize". It
// returns the report as JSON.
func QuantizeModel(ctx context.Context, path, target string, options ...Option) (json.RawMessage, error) {
	c := begin()
	defer c.end()
	from, to, settings := c.text(path), c.text(target), c.settings("quantize", options)
	task, out := c.watch(ctx), c.room()
	if c.ok() {
		c.status(dllm_model_quantize(from, to, settings, task, out, c.errp))
	}
	return c.raw(), c.err
}

// Save writes the model to a folder; options of kind "save".
func (m *Model) Save(ctx context.Context, path string, options ...Option) error {
	c := begin()
	defer c.end()
	self, where, settings, task := c.use(m.object), c.text(path), c.settings("save", options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_model_save(self, where, settings, task, c.errp))
	}
	return c.err
}

// Config returns the content of the model's config.json.
func (m *Model) Config() (json.RawMessage, error) {
	c := begin()
	defer c.end()
	self, out := c.use(m.object), c.room()
	if c.ok() {
		c.status(dllm_model_config(self, out, c.errp))
	}
	return c.raw(), c.err
}

// Describe returns family, sizes, attention and memory as JSON.
func (m *Model) Describe() (json.RawMessage, error) {
	c := begin()
	defer c.end()
	self, out := c.use(m.object), c.room()
	if c.ok() {
		c.status(dllm_model_describe(self, out, c.errp))
	}
	return c.raw(), c.err
}

// Int returns a number: vocab hidden layers max_length mask_id params bytes.
func (m *Model) Int(key string) (int64, error) {
	c := begin()
	defer c.end()
	var out int64
	self, name := c.use(m.object), c.text(key)
	if c.ok() {
		c.status(dllm_model_i64(self, name, &out, c.errp))
	}
	return out, c.err
}

// Version counts the changes of the weights; 0 for a closed model.
func (m *Model) Version() int64 {
	c := begin()
	defer c.end()
	self := c.use(m.object)
	if !c.ok() {
		return 0
	}
	return dllm_model_version(self)
}

// ParamNames lists the parameters.
func (m *Model) ParamNames() ([]string, error) {
	c := begin()
	defer c.end()
	self := c.use(m.object)
	if !c.ok() {
		return nil, c.err
	}
	names := make([]string, dllm_model_param_count(self))
	for i := range names {
		names[i] = textAt(dllm_model_param_name(self, int64(i)))
	}
	return names, nil
}

// Param returns one parameter as it is now.
func (m *Model) Param(name string) (*Tensor, error) {
	c := begin()
	defer c.end()
	var out handle
	self, key := c.use(m.object), c.text(name)
	if c.ok() {
		c.status(dllm_model_param(self, key, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newTensor(out), nil
}

// SetParam replaces one parameter.
func (m *Model) SetParam(name string, value *Tensor) error {
	c := begin()
	defer c.end()
	self, key, with := c.use(m.object), c.text(name), c.use(value.object)
	if c.ok() {
		c.status(dllm_model_set_param(self, key, with, c.errp))
	}
	return c.err
}

// SetTokenizer attaches a tokenizer: every save and checkpoint of the model writes it too.
func (m *Model) SetTokenizer(tokenizer *Tokenizer) error {
	c := begin()
	defer c.end()
	self, with := c.use(m.object), c.use(tokenizer.object)
	if c.ok() {
		c.status(dllm_model_set_tokenizer(self, with, c.errp))
	}
	return c.err
}

// Forward runs the model once; the result holds logits (batch, seq, vocab). Options of kind "forward".
// logits[i] predicts token i, also with shift 1, where the state of token i - 1 makes it. Option shift 0 gives the logits
// of each token's own state.
func (m *Model) Forward(ctx context.Context, rows *Batch, options ...Option) (*Batch, error) {
	c := begin()
	defer c.end()
	var out handle
	self, batch, settings, task := c.use(m.object), c.use(rows.object), c.settings("forward", options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_model_forward(self, batch, settings, task, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newBatch(out), nil
}
