// Documents to train on.
'use strict';
const { lib } = require('./library.js');
const { TASK, call, make, start, startMake, startWhole } = require('./call.js');
const { CONTROL, checkObject } = require('./given.js');
const { encoded } = require('./json.js');
const { Managed, adopt } = require('./managed.js');
const { divided, pathOf } = require('./options.js');

class Dataset extends Managed {
  static noun = 'dataset';
  static release = 'dllm_dataset_release';

  // Empty, to fill with add().
  constructor(given) {
    const [{ tokenizer = null }, settings] = divided('dataset', given, ['tokenizer']);
    if (tokenizer !== null) checkObject(tokenizer, 'tokenizer');
    super(make('dllm_dataset_new', tokenizer, settings));
  }

  // Text, JSON lines or token files; without a tokenizer raw text.
  static async open(path, given) {
    const [{ tokenizer = null, ...control }, settings] = divided('dataset', given, ['tokenizer', ...CONTROL]);
    if (tokenizer !== null) checkObject(tokenizer, 'tokenizer');
    return adopt(Dataset, await startMake('dllm_dataset_open', [pathOf(path), tokenizer, settings, TASK], control));
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
  async save(path, given) {
    const [control, settings] = divided('save', given, CONTROL);
    await start('dllm_dataset_save', [this, pathOf(path), settings, TASK], control);
  }

  // Appends the trajectories of the rows that the file lacks; their number. teacher null: method left_to_right.
  async extractTrajectories(teacher, path, given) {
    if (teacher !== null) checkObject(teacher, 'model', 'teacher');
    const [control, settings] = divided('trajectories', given, CONTROL);
    return startWhole('dllm_dataset_extract_trajectories', [this, teacher, pathOf(path), settings, TASK], control);
  }
}

module.exports = { Dataset };
