// Batches of a dataset, in a reproducible order.
'use strict';
const { lib } = require('./library.js');
const { TASK, call, make, startMake, startWhole } = require('./call.js');
const { CONTROL, checkObject } = require('./given.js');
const { Managed, adopt } = require('./managed.js');
const { divided, options, pathOf } = require('./options.js');
const { Batch } = require('./batch.js');

// for await (const batch of new Loader(data, { batch: 8, length: 128 })) ...
class Loader extends Managed {
  static noun = 'loader';
  static release = 'dllm_loader_release';

  constructor(dataset, settings) {
    super(make('dllm_loader_new', dataset, options('loader', settings)));
  }

  // The next batch, or null at the end of the data.
  async next() {
    try {
      return adopt(Batch, await startMake('dllm_loader_next', [this]));
    } catch (problem) {
      if (problem.code === 'OUT_OF_RANGE') return null;
      throw problem;
    }
  }

  async* [Symbol.asyncIterator]() {
    for (let batch; (batch = await this.next()) !== null;) yield batch;
  }

  // Writes what a teacher computes from the rows of one epoch to a folder; the number of new chunks.
  async writeAnchors(teacher, path, given) {
    checkObject(teacher, 'model', 'teacher');
    const [control, settings] = divided('anchors', given, CONTROL);
    return startWhole('dllm_loader_write_anchors', [this, teacher, pathOf(path), settings, TASK], control);
  }

  get position() {
    return lib.dllm_loader_position(this.pointer);
  }

  seek(position) {
    call('dllm_loader_seek', this, position);
  }
}

module.exports = { Loader };
