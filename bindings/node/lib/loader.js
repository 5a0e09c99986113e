// Batches of a dataset, in a reproducible order.
'use strict';
const { lib } = require('./library.js');
const { call, make, startMake } = require('./call.js');
const { Managed, adopt } = require('./managed.js');
const { options } = require('./options.js');
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

  get position() {
    return lib.dllm_loader_position(this.pointer);
  }

  seek(position) {
    call('dllm_loader_seek', this, position);
  }
}

module.exports = { Loader };
