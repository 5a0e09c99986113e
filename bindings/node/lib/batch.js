// Named arrays: token rows, prepared noise, results of a forward pass.
'use strict';
const { lib } = require('./library.js');
const { call, make } = require('./call.js');
const { only, plain } = require('./given.js');
const { Managed, adopt } = require('./managed.js');
const { dims, dtypeOf, guessDtype, shapeOf, typed } = require('./arrays.js');
const { Tensor, checkCount } = require('./tensor.js');

// The element types of the reserved names.
const RESERVED = {
  ids: 'i32', targets: 'i32', weights: 'f32', segments: 'i32', positions: 'i32', sample: 'u8', keep: 'u8', t: 'f32',
  flag: 'u8', prompt_length: 'i32', embeddings: 'f32', rows: 'i64',
};

class Batch extends Managed {
  static noun = 'batch';
  static release = 'dllm_batch_release';

  // new Batch({ ids: [[1, 2], [3, 4]] })
  constructor(given) {
    const arrays = plain(given, 'arrays are a plain object');
    super(make('dllm_batch_new'));
    for (const [name, values] of Object.entries(arrays)) this.set(name, values);
  }

  // Copies an array into the batch: nested arrays, or a TypedArray with its shape.
  set(name, values, given) {
    const { dtype, shape = shapeOf(values) } = only(given, ['dtype', 'shape']);
    const kind = dtype ?? RESERVED[name] ?? guessDtype(values);
    const data = typed(values, kind);
    checkCount(data, shape);
    call('dllm_batch_set', this, name, dtypeOf(kind)[0], dims(shape), shape.length, data);
    return this;
  }

  // A copy of an array's elements, row-major.
  get(name) {
    const tensor = this.tensor(name);
    try {
      return tensor.read();
    } finally {
      tensor.close();
    }
  }

  tensor(name) {
    return adopt(Tensor, make('dllm_batch_array', this, name));
  }

  get size() {
    return lib.dllm_batch_count(this.pointer);
  }

  names() {
    return Array.from({ length: this.size }, (_, index) => lib.dllm_batch_name(this.pointer, index));
  }

  has(name) {
    return this.names().includes(name);
  }
}

// Named arrays as a batch; an array alone is its ids, one row of ids a batch of one.
function asBatch(rows) {
  if (rows instanceof Batch) return rows;
  if (!Array.isArray(rows) && !ArrayBuffer.isView(rows)) return new Batch(rows);
  return new Batch({ ids: shapeOf(rows).length > 1 ? rows : [rows] });
}

module.exports = { Batch, asBatch };
