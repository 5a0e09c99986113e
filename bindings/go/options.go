package dllm

import "encoding/json"

// Option is one setting or several: [RequestOptions] and the other typed ones, [Options], [Set] or [Fields]. Names, types, defaults and limits of a kind are in
// [Schema]; an unknown name is an error that names the nearest one.
type Option interface {
	values() (map[string]any, error)
}

// Options are settings by name: dllm.Options{"steps": 32, "temperature": 0.7}.
type Options map[string]any

func (o Options) values() (map[string]any, error) { return o, nil }

// Set is one setting.
func Set(name string, value any) Option { return Options{name: value} }

type fields struct{ value any }

// Fields are the fields of a struct, named by their json tags; omitzero or omitempty leaves a default alone.
func Fields(value any) Option { return fields{value} }

func (f fields) values() (map[string]any, error) {
	data, err := encode(f.value, "")
	if err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	values := make(map[string]any, len(raw))
	for name, value := range raw {
		values[name] = value
	}
	return values, nil
}

// policyValues are the fields of a policy's options, and its name.
func policyValues(name string, options any) (map[string]any, error) {
	values, err := fields{options}.values()
	if err == nil {
		values["policy"] = name
	}
	return values, err
}

// Ptr returns the address of a value, for the fields of typed options: a field that is nil keeps its default.
func Ptr[T any](value T) *T { return &value }

// merge joins options; a later one replaces an earlier one of its name.
func merge(options []Option) (map[string]any, error) {
	merged := make(map[string]any)
	for _, option := range options {
		if option == nil {
			continue
		}
		values, err := option.values()
		if err != nil {
			return nil, err
		}
		for name, value := range values {
			merged[name] = value
		}
	}
	return merged, nil
}

// named is the text of an option, to choose the kind: "decoder:threshold".
func named(options []Option, name string) string {
	values, err := merge(options)
	if err != nil {
		return "" // settings reports it
	}
	text, _ := values[name].(string)
	if raw, ok := values[name].(json.RawMessage); ok && json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// Schema describes the options of a kind ("decoder", "trainer", ...) as JSON: name, type, default, limits, a sentence.
func Schema(kind string) (json.RawMessage, error) {
	c := begin()
	defer c.end()
	name, out := c.text(kind), c.room()
	if c.ok() {
		c.status(dllm_options_schema(name, out, c.errp))
	}
	return c.raw(), c.err
}

// Effective returns every option of a kind with its value after the given ones were set, as JSON.
func Effective(kind string, options ...Option) (json.RawMessage, error) {
	c := begin()
	defer c.end()
	settings := c.settings(kind, options)
	if c.ok() && settings == 0 {
		settings = c.newOptions(kind)
	}
	out := c.room()
	if c.ok() {
		c.status(dllm_options_to_json(settings, out, c.errp))
	}
	return c.raw(), c.err
}
