package dllm

import (
	"context"
	"encoding/json"
	"sync"
)

// Engine is the devices and threads that compute.
type Engine struct{ resource }

// NewEngine makes an engine; options of kind "engine": threads, memory_limit, ...
func NewEngine(options ...Option) (*Engine, error) {
	c := begin()
	defer c.end()
	var out handle
	settings := c.settings("engine", options)
	if c.ok() {
		c.status(dllm_engine_new(settings, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	e := &Engine{}
	e.adopt("engine", out, dllm_engine_release)
	return e, nil
}

var defaultEngine struct {
	sync.Mutex
	engine *Engine
}

// DefaultEngine returns the engine of models that were made without one. It is made once.
func DefaultEngine() (*Engine, error) {
	defaultEngine.Lock()
	defer defaultEngine.Unlock()
	if defaultEngine.engine == nil || defaultEngine.engine.Closed() {
		made, err := NewEngine()
		if err != nil {
			return nil, err
		}
		defaultEngine.engine = made
	}
	return defaultEngine.engine, nil
}

// engine keeps the given engine, or the default one, open until the end of the call.
func (c *call) engine(given *Engine) handle {
	if given == nil && c.err == nil {
		var err error
		if given, err = DefaultEngine(); err != nil {
			c.fail(err)
		}
	}
	if c.err != nil {
		return 0
	}
	return c.use(given.object)
}

// Devices returns the names of the devices.
func (e *Engine) Devices() ([]string, error) {
	c := begin()
	defer c.end()
	self := c.use(e.object)
	if !c.ok() {
		return nil, c.err
	}
	names := make([]string, dllm_engine_device_count(self))
	for i := range names {
		names[i] = textAt(dllm_engine_device_name(self, int64(i)))
	}
	return names, nil
}

// Describe returns the engine's state as JSON: threads, memory in use, devices.
func (e *Engine) Describe() (json.RawMessage, error) {
	c := begin()
	defer c.end()
	self, out := c.use(e.object), c.room()
	if c.ok() {
		c.status(dllm_engine_describe(self, out, c.errp))
	}
	return c.raw(), c.err
}

// Int returns a number of the engine: threads, memory_limit, ...
func (e *Engine) Int(key string) (int64, error) {
	c := begin()
	defer c.end()
	var out int64
	self, name := c.use(e.object), c.text(key)
	if c.ok() {
		c.status(dllm_engine_i64(self, name, &out, c.errp))
	}
	return out, c.err
}

// SetInt changes a number of the engine.
func (e *Engine) SetInt(key string, value int64) error {
	c := begin()
	defer c.end()
	self, name := c.use(e.object), c.text(key)
	if c.ok() {
		c.status(dllm_engine_set_i64(self, name, value, c.errp))
	}
	return c.err
}

// Plan returns what a job on the model at path needs, in the chosen format (JSON by default); options of kind "plan".
func (e *Engine) Plan(ctx context.Context, path string, options ...Option) (string, error) {
	c := begin()
	defer c.end()
	self, where, settings := c.use(e.object), c.text(path), c.settings("plan", options)
	task, out := c.watch(ctx), c.room()
	if c.ok() {
		c.status(dllm_engine_plan(self, where, settings, task, out, c.errp))
	}
	return string(c.content()), c.err
}

// Trim frees memory that is not in use.
func (e *Engine) Trim() error {
	c := begin()
	defer c.end()
	self := c.use(e.object)
	if c.ok() {
		c.status(dllm_engine_trim(self, c.errp))
	}
	return c.err
}
