package dllm

import (
	"context"
	"encoding/json"
	"unsafe"
)

// Lua runs scripts inside the library, with a state of its own.
type Lua struct{ resource }

// NewLua makes a runner; options of kind "lua": sandbox, memory_limit, step_limit. [Unimplemented] in a library without Lua.
func NewLua(options ...Option) (*Lua, error) {
	c := begin()
	defer c.end()
	var out handle
	settings := c.settings("lua", options)
	if c.ok() {
		c.status(dllm_lua_new(settings, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	l := &Lua{}
	l.adopt("lua", out, dllm_lua_release)
	return l, nil
}

// Noun is any object of the library: *Model, *Dataset, ...
type Noun interface {
	Close() error
	noun() *object
}

func (r *resource) noun() *object { return r.object }

// Set sets a global to an object of the library, or to anything with JSON.
func (l *Lua) Set(name string, value any) error {
	c := begin()
	defer c.end()
	self, key := c.use(l.object), c.text(name)
	if object, ok := value.(Noun); ok {
		with := c.use(object.noun())
		if c.ok() {
			c.status(dllm_lua_set_object(self, key, c.text(object.noun().noun), with, c.errp))
		}
		return c.err
	}
	data, size := c.json(value, name)
	if c.ok() {
		c.status(dllm_lua_set_json(self, key, data, size, c.errp))
	}
	return c.err
}

// RunFile runs a script; it returns the JSON array of the values that the script returns.
func (l *Lua) RunFile(ctx context.Context, path string, arguments ...any) (json.RawMessage, error) {
	c := begin()
	defer c.end()
	data, size := c.arguments(arguments)
	return c.script(ctx, l, path, func(self handle, where *byte, task, out handle) int32 {
		return dllm_lua_run_file(self, where, data, size, task, out, c.errp)
	})
}

// RunText runs code; name is what its errors call it.
func (l *Lua) RunText(ctx context.Context, name, code string) (json.RawMessage, error) {
	c := begin()
	defer c.end()
	return c.script(ctx, l, name, func(self handle, key *byte, task, out handle) int32 {
		return dllm_lua_run_text(self, key, textAddress(code), int64(len(code)), task, out, c.errp)
	})
}

// Call calls a global function; dots reach into tables.
func (l *Lua) Call(ctx context.Context, function string, arguments ...any) (json.RawMessage, error) {
	c := begin()
	defer c.end()
	data, size := c.arguments(arguments)
	return c.script(ctx, l, function, func(self handle, name *byte, task, out handle) int32 {
		return dllm_lua_call(self, name, data, size, task, out, c.errp)
	})
}

func (c *call) arguments(arguments []any) (unsafe.Pointer, int64) {
	if arguments == nil {
		arguments = []any{}
	}
	return c.json(arguments, "arguments")
}

func (c *call) script(ctx context.Context, l *Lua, name string,
	run func(self handle, name *byte, task, out handle) int32) (json.RawMessage, error) {
	self, key, task, out := c.use(l.object), c.text(name), c.watch(ctx), c.room()
	if c.ok() {
		c.status(run(self, key, task, out))
	}
	return c.raw(), c.err
}
