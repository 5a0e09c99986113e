// Arrays in and out of the library; their elements never change.
'use strict';
const { lib } = require('./library.js');
const { call, make } = require('./call.js');
const { only } = require('./given.js');
const { Managed } = require('./managed.js');
const { DTYPES, NAMES, dims, dtypeOf, guessDtype, shapeOf, typed } = require('./arrays.js');

class Tensor extends Managed {
  static noun = 'tensor';
  static release = 'dllm_tensor_release';

  // values: a TypedArray with its shape, or nested arrays of numbers.
  constructor(values, given) {
    const { dtype = guessDtype(values), shape = shapeOf(values) } = only(given, ['dtype', 'shape']);
    const data = typed(values, dtype);
    checkCount(data, shape);
    super(make('dllm_tensor_new', dtypeOf(dtype)[0], dims(shape), shape.length, data));
  }

  get dtype() {
    return NAMES.get(lib.dllm_tensor_dtype(this.pointer));
  }

  get shape() {
    return Array.from({ length: lib.dllm_tensor_rank(this.pointer) }, (_, axis) => lib.dllm_tensor_dim(this.pointer, axis));
  }

  // A copy of the elements, row-major, as a TypedArray; f16 and bf16 become f32.
  read(dtype = Object.hasOwn(DTYPES, this.dtype) ? this.dtype : 'f32') {
    const [number, Typed] = dtypeOf(dtype);
    const room = new Typed(this.shape.reduce((count, extent) => count * extent, 1));
    call('dllm_tensor_read', this, number, room, room.byteLength);
    return room;
  }
}

function checkCount(data, shape) {
  const count = shape.reduce((product, extent) => product * extent, 1);
  if (count !== data.length) throw new RangeError(`${data.length} elements, shape [${shape}] has ${count}`);
}

module.exports = { Tensor, checkCount };
