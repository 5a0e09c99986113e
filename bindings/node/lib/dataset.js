// Documents to train on.
'use strict';
const { lib } = require('./library.js');
const { TASK, call, make, start, startMake } = require('./call.js');
const { encoded } = require('./json.js');
const { Managed, adopt } = require('./managed.js');
const { options, pathOf } = require('./options.js');

class Dataset extends Managed {
  static noun = 'dataset';
  static release = 'dllm_dataset_release';

  // Empty, to fill with add().
  constructor({ tokenizer = null, ...settings } = {}) {
    super(make('dllm_dataset_new', tokenizer, options('dataset', settings)));
  }

  // Text, JSON lines or token files; without a tokenizer raw text.
  static async open(path, { tokenizer = null, signal, task, ...settings } = {}) {
    return adopt(Dataset, await startMake('dllm_dataset_open',
      [pathOf(path), tokenizer, options('dataset', settings), TASK], { signal, task }));
  }

  // A dataset of texts, or of objects as in a line of a JSONL file.
  static of(rows, settings) {
    const made = new Dataset(settings);
    for (const row of rows) made.add(row);
    return made;
  }

  add(row) {
    const text = Buffer.from(encoded(typeof row === 'string' ? { text: row } : row));
    call('dllm_dataset_add', this, text, text.length);
    return this;
  }

  get size() {
    return lib.dllm_dataset_size(this.pointer);
  }

  // Writes a token file; batches read their ids from it.
  save(path, { signal, task, ...settings } = {}) {
    return start('dllm_dataset_save', [this, pathOf(path), options('save', settings), TASK], { signal, task });
  }
}

module.exports = { Dataset };
