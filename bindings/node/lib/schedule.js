// Noise schedules: how much is masked at time t, and the weight of the loss.
'use strict';
const { call, make } = require('./call.js');
const { only } = require('./given.js');
const { Managed, adopt } = require('./managed.js');
const { options } = require('./options.js');
const { listed } = require('./arrays.js');

class Schedule extends Managed {
  static noun = 'schedule';
  static release = 'dllm_schedule_release';

  constructor(name = 'linear', settings) {
    super(make('dllm_schedule_new', name, options(`schedule:${name}`, settings)));
  }

  // A schedule of points; dalpha and weight are derived when they are not given.
  static table(given) {
    const { t, alpha, dalpha, weight } = only(given, ['t', 'alpha', 'dalpha', 'weight'], 'columns are a plain object');
    const more = Object.entries({ dalpha, weight }).map(([name, column]) => (column === undefined ? null : listed(column, 'f64', name)));
    const columns = [listed(t, 'f64', 't'), listed(alpha, 'f64', 'alpha'), ...more];
    const counts = new Set(columns.filter((column) => column !== null).map((column) => column.length));
    if (counts.size !== 1) throw new RangeError(`columns of different lengths: ${[...counts].join(', ')}`);
    return adopt(Schedule, make('dllm_schedule_table', ...columns, columns[0].length));
  }

  // {alpha, dalpha, weight}: arrays with one number per time.
  eval(times) {
    const t = listed(times, 'f64', 'times');
    const [alpha, dalpha, weight] = [0, 1, 2].map(() => new Float64Array(t.length));
    call('dllm_schedule_eval', this, t, t.length, alpha, dalpha, weight);
    return { alpha, dalpha, weight };
  }
}

module.exports = { Schedule };
