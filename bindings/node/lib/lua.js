// Run Lua scripts inside the library.
'use strict';
const { TASK, call, make, startText } = require('./call.js');
const { CONTROL, only } = require('./given.js');
const { encoded } = require('./json.js');
const { Managed } = require('./managed.js');
const { options, pathOf } = require('./options.js');

// A runner with its own Lua state; the values that scripts return are an array.
class Lua extends Managed {
  static noun = 'lua';
  static release = 'dllm_lua_release';

  constructor(settings) {
    super(make('dllm_lua_new', options('lua', settings)));
  }

  // Sets a global to an object of the library, or to any JSON value.
  set(name, value) {
    if (value instanceof Managed) {
      call('dllm_lua_set_object', this, name, value.constructor.noun, value);
      return;
    }
    const text = Buffer.from(encoded(value, name));
    call('dllm_lua_set_json', this, name, text, text.length);
  }

  async runFile(path, args = [], control) {
    return this.#run('dllm_lua_run_file', pathOf(path), encoded(args, 'args'), control);
  }

  async runText(code, given) {
    const { name = 'text', ...control } = only(given, ['name', ...CONTROL]);
    return this.#run('dllm_lua_run_text', name, code, control);
  }

  // Calls a global function; dots reach into tables.
  async call(name, args = [], control) {
    return this.#run('dllm_lua_call', name, encoded(args, 'args'), control);
  }

  async #run(symbol, name, text, control) {
    const bytes = Buffer.from(text);
    return JSON.parse(await startText(symbol, [this, name, bytes, bytes.length, TASK], control) || '[]');
  }
}

module.exports = { Lua };
