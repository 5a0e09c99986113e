package dllm

import "encoding/json"

// Plugins lists the PJRT plugins that are found, as JSON by platform; none is loaded.
func Plugins() (json.RawMessage, error) {
	c := begin()
	defer c.end()
	out := c.room()
	if c.ok() {
		c.status(dllm_plugin_list(out, c.errp))
	}
	return c.raw(), c.err
}

// DescribePlugin describes a plugin (a path, or "cpu", "tpu", "cuda") as JSON. It loads the plugin into this process,
// which a bad one may end.
func DescribePlugin(plugin string) (json.RawMessage, error) {
	c := begin()
	defer c.end()
	name, out := c.text(plugin), c.room()
	if c.ok() {
		c.status(dllm_plugin_describe(name, out, c.errp))
	}
	return c.raw(), c.err
}
