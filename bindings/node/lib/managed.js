// The base of all objects: one handle each, closed by hand, by `using`, or by the garbage collector.
'use strict';
const { lib } = require('./library.js');
const { ClosedError } = require('./errors.js');

const POINTER = Symbol('pointer');
const forgotten = new FinalizationRegistry(({ release, pointer }) => lib[release](pointer));

// It may be closed twice; using a closed object throws ClosedError. The library keeps parents alive, so objects may
// be closed in any order, also while a call uses them: the call ends as it would have.
class Managed {
  constructor(pointer) {
    own(this, pointer);
  }

  // For calls of the library; throws when closed.
  get pointer() {
    if (this[POINTER] === null) throw new ClosedError(this.constructor.noun);
    return this[POINTER];
  }

  get closed() {
    return this[POINTER] === null;
  }

  close() {
    const pointer = this[POINTER];
    if (pointer === null) return;
    this[POINTER] = null;
    forgotten.unregister(this);
    lib[this.constructor.release](pointer);
  }

  [Symbol.dispose]() {
    this.close();
  }
}

function own(object, pointer) {
  Object.defineProperty(object, POINTER, { value: pointer, writable: true });
  forgotten.register(object, { release: object.constructor.release, pointer }, object);
}

// An object of a class for a handle that a call returned.
function adopt(type, pointer) {
  const made = Object.create(type.prototype);
  own(made, pointer);
  return made;
}

module.exports = { Managed, adopt };
