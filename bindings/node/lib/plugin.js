// Find and describe PJRT plugins.
'use strict';
const { json } = require('./call.js');
const { pathOf } = require('./options.js');

// The plugins that are found, by platform; none is loaded.
const plugins = () => json('dllm_plugin_list');

// Describes a plugin (a path, or "cpu", "tpu", "cuda"). Loads it into this process: a bad one may end it.
const describePlugin = (plugin) => json('dllm_plugin_describe', pathOf(plugin));

module.exports = { describePlugin, plugins };
