// Files held in memory, to load models and tokenizers from.
'use strict';
const { call, make } = require('./call.js');
const { plain } = require('./given.js');
const { Managed } = require('./managed.js');

// Takes the place of a folder: new Source({ 'config.json': bytes, 'model.safetensors': bytes })
class Source extends Managed {
  static noun = 'source';
  static release = 'dllm_source_release';

  constructor(given) {
    const files = plain(given, 'files are a plain object');
    super(make('dllm_source_new'));
    for (const [name, data] of Object.entries(files)) this.add(name, data);
  }

  // Copies a file in under the name it would have in the folder. data: a Uint8Array or a text.
  add(name, data) {
    const bytes = Buffer.from(data);
    call('dllm_source_add', this, name, bytes, bytes.length, 0);
    return this;
  }
}

module.exports = { Source };
