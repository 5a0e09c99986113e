// Types of the package dllm. Names of settings are those of the library: schema(kind) lists them.
import type {
  AdapterSettings, AddSettings, DecoderSettings, EngineSettings, GeneratorSettings, HubSettings, LoadSettings,
  ModelSettings, QueueLoadSettings, QueueSettings, RequestSettings, SlotSettings, SubmissionSettings, TrainerSettings,
} from './lib/settings.js';

export * from './lib/settings.js';

/** A value of a setting. undefined stands for the default. */
export type SettingValue = string | number | boolean | null | undefined | ReadonlyArray<string | number> | Int32Array;
/** An object with names and values, as schema(kind) or a describe() has them. */
export type Settings = Record<string, unknown>;
/** Types of elements that arrays have in this layer. */
export type DType = 'f32' | 'f64' | 'i32' | 'i64' | 'u8' | 'i8' | 'u32';
/** Arrays of numbers as they come out, one element after another, row-major. */
export type TypedNumbers = Float32Array | Float64Array | Int32Array | BigInt64Array | Uint8Array | Int8Array | Uint32Array;
/** Numbers as they go in. A bigint is for 64 bits. */
export type Numbers = TypedNumbers | ReadonlyArray<number | bigint>;
/** Numbers, or lists of lists of one shape. */
export type Nested = number | bigint | TypedNumbers | readonly Nested[];
/** A path as text, or a file: URL. */
export type Path = string | URL;
/** The type and the shape of an array, where its values do not say them. */
export interface ArrayForm { dtype?: DType; shape?: readonly number[]; }

/** How a long call is ended early: by a signal (rejects with its reason) or a task (rejects with CANCELLED). */
export interface Control { signal?: AbortSignal; task?: Task; }
/** An event as a plain object; the other keys are those of dllm/event.h. */
export interface Event {
  kind: 'progress' | 'train_step' | 'eval' | 'decode_step' | 'block' | 'checkpoint' | 'text' | 'answer';
  [key: string]: any;
}
/** Called between two steps. What it throws is what the call rejects with; STOP ends the call without an error. */
export interface Watched extends Control { onEvent?: (event: Event) => typeof CONTINUE | typeof STOP | void; }
/** T, and settings by their names; schema(kind) lists them. */
export type WithSettings<T> = T & { [setting: string]: SettingValue | T[keyof T] };

/** A callback returns it to go on, as if it returned nothing. */
export const CONTINUE: unique symbol;
/** A callback returns it to end the call without an error. */
export const STOP: unique symbol;
/** State of a position that is open. */
export const MASKED: 0;
/** State of a position that has a token and may change. */
export const PROVISIONAL: 1;
/** State of a position that is decided. */
export const FINAL: 2;
/** State of a position that was given. */
export const FIXED: 3;

/** The version of the C interface that the library has. */
export function abiVersion(): number;
/** The version of the library, "0.2.0". */
export function version(): string;
/** How the library was built: compiler, simd, lua, pjrt, openmp, git. */
export function buildInfo(): Settings;
/** Whether the library was built with a part: "lua", "pjrt", "openmp", "bf16". */
export function hasFeature(name: string): boolean;
/** Names of a kind: engine, family, objective, optimizer, options, policy, schedule or sink. */
export function names(kind: string): string[];
/** The settings of a kind: name, type, default, limits and a sentence each. NOT_FOUND for an unknown kind. */
export function schema(kind: string): { kind: string; keys: Array<{ name: string; type: string } & Settings> };
/** Sends log lines from a level on to stderr, to the queue that logLines reads, or nowhere. */
export function logTo(sink: 'none' | 'stderr' | 'queue', level?: 'debug' | 'info' | 'warn' | 'error'): void;
/** Takes all lines from the queue of the log, oldest first. */
export function logLines(): Array<{ level: string; line: string }>;
/** The PJRT plugins that are found, by platform; none is loaded. UNIMPLEMENTED without the pjrt engine. */
export function plugins(): Settings[];
/** Loads a plugin, a path or "cpu", "tpu", "cuda", and describes it. A bad one may end the process. */
export function describePlugin(plugin: Path): Settings;
/** The engine of models that were made without one; it is made once. */
export function defaultEngine(): Engine;

/** A call of the library that failed. message is one line that names the thing and the numbers. */
export class DllmError extends Error {
  /** The status by name, 'NOT_FOUND', and its number. */
  readonly code: string;
  /** The number of the status, 1 to 101. */
  readonly status: number;
  /** What to try. */
  readonly hint: string;
}
/** An object was used after close(). */
export class ClosedError extends Error { readonly code: 'CLOSED'; }

/** One handle of the library, freed by close(), by `using`, or by the garbage collector. */
declare abstract class Managed {
  /** Whether close() was called. */
  readonly closed: boolean;
  /** Frees the object now. A second call does nothing, and any order of closing is right. */
  close(): void;
  /** What `using` calls: close(). */
  [Symbol.dispose](): void;
}

/** Ends and watches long calls. A cancelled task stays cancelled: make one for each call. */
export class Task extends Managed {
  /** deadline: milliseconds from now, after which calls reject with DEADLINE_EXCEEDED. */
  constructor(settings?: { /** milliseconds from now */ deadline?: number });
  /** Calls that use the task reject with CANCELLED within milliseconds. Every object stays usable. */
  cancel(): void;
  /** Whether the task was cancelled or its deadline has passed. */
  readonly cancelled: boolean;
  /** Milliseconds from now; null removes the deadline. */
  setDeadline(milliseconds: number | null): void;
  /** What the running call has done and of how much: bytes, steps or records. total 0: it is not known yet. */
  progress(): { done: number; total: number };
}

/** The devices and threads that compute. */
export class Engine extends Managed {
  /** Throws UNAVAILABLE for a plugin without a device, NOT_FOUND for an unknown setting or plugin. */
  constructor(settings?: EngineSettings);
  /** The names of its devices. */
  devices(): string[];
  /** kind, devices, threads, simd, arithmetic, product_kernel and memory (used, peak, limit, in bytes). */
  describe(): Settings;
  /**
   * A number: threads, rank, ranks, memory_used, memory_peak, memory_limit (bytes), compiles, round_trips, bytes_sent,
   * rank_wait_us (microseconds), cache_hits or pjrt.in_flight. NOT_FOUND for another key.
   */
  get(key: string): number;
  /** Changes threads (1 or more) or memory_limit (bytes, 0: no limit). FAILED_PRECONDITION for a key that is fixed. */
  set(key: string, value: number): void;
  /** What a job on a model needs, as text of the format of its settings (kind "plan"; default JSON). */
  plan(path: Path, settings?: WithSettings<Control>): Promise<string>;
  /** Frees memory that is not in use. */
  trim(): void;
}

/** An array with a type, dimensions and elements in row-major order. It does not change. */
export class Tensor extends Managed {
  /** values: numbers or nested lists; form has the type and the shape where values do not. */
  constructor(values: Nested, form?: ArrayForm);
  /** The type of the elements. */
  readonly dtype: DType | 'f16' | 'bf16';
  /** The dimensions, outermost first. */
  readonly shape: number[];
  /**
   * A copy of the elements, row-major. f16 and bf16 become f32. INVALID_ARGUMENT for a type that would lose more than
   * rounding.
   */
  read(): TypedNumbers;
  /**
   * A copy of the elements, row-major. f16 and bf16 become f32. INVALID_ARGUMENT for a type that would lose more than
   * rounding.
   */
  read(dtype: 'f32'): Float32Array;
  /**
   * A copy of the elements, row-major. f16 and bf16 become f32. INVALID_ARGUMENT for a type that would lose more than
   * rounding.
   */
  read(dtype: DType): TypedNumbers;
}

/** Named arrays: token rows, prepared noise, results of a forward pass. */
export class Batch extends Managed {
  /** arrays: numbers by name; ids, targets, weights and other names of the library have their types. */
  constructor(arrays?: Record<string, Nested>);
  /** Copies an array into the batch and replaces one of this name. */
  set(name: string, values: Nested, form?: ArrayForm): this;
  /** A copy of an array, row-major. NOT_FOUND for an unknown name. */
  get(name: string): TypedNumbers;
  /** A copy of an array with its type and shape. NOT_FOUND for an unknown name. */
  tensor(name: string): Tensor;
  /** How many arrays there are. */
  readonly size: number;
  /** The names of the arrays. */
  names(): string[];
  /** Whether there is an array of this name. */
  has(name: string): boolean;
}
/** A batch, named arrays, or ids alone. */
export type Rows = Batch | Record<string, Nested> | Nested[] | TypedNumbers;

/** Files in memory, in the place of a folder of a model or a tokenizer. */
export class Source extends Managed {
  /** files: content by file name. */
  constructor(files?: Record<string, string | Uint8Array>);
  /** Adds a file. ALREADY_EXISTS for a second one of this name. */
  add(name: string, data: string | Uint8Array): this;
}

/** A LoRA adapter, as Model.adapters lists it. */
export interface Adapter {
  /** Its name in the model. */
  name: string;
  /** What it adds to a matrix: lora, dora, ia3. */
  kind: string;
  /** Rows of A and columns of B, unless a pattern of its file sets another one. */
  rank: number;
  /** Numerator of the factor, which is alpha / rank. */
  alpha: number;
  /** Whether the factor is alpha / sqrt(rank). */
  rslora: boolean;
  /** Whether the rows have trained lengths. */
  dora: boolean;
  /** Part of the inputs that training drops. */
  dropout: number;
  /** Modules that the adapter has as copies. */
  modules_to_save: string[];
  /** What Model.setAdapterScale has set; 1: as it was trained. */
  scale: number;
  /** Matrices of the base with this adapter. */
  modules: number;
  /** Numbers of A, of B and of lengths. */
  params: number;
  /** Bytes of memory of its numbers. */
  bytes: number;
}

/** A config and named parameters. */
export class Model extends Managed {
  private constructor();
  /**
   * Loads a model folder, a GGUF file, a run, a checkpoint or a name in the cache of the hub. Rejects with NOT_FOUND,
   * DATA_LOSS for a damaged file, RESOURCE_EXHAUSTED without memory. The progress counts bytes.
   */
  static load(path: Path | Source, settings?: ModelSettings & Control & { engine?: Engine }): Promise<Model>;
  /**
   * Makes a model with random weights; config is the content of a config.json. INVALID_ARGUMENT for a config that does
   * not fit.
   */
  static create(config: object, settings?: ModelSettings & Control & { engine?: Engine }): Promise<Model>;
  /**
   * Writes a model in another weight format: a .gguf file, or a folder. Resolves to the report; settings are those of
   * kind "quantize".
   */
  static quantize(path: Path, target: Path, settings?: WithSettings<Control>): Promise<Settings>;
  /**
   * Writes a folder with config.json and safetensors, complete or not at all; the progress counts bytes. Rejects with
   * ALREADY_EXISTS unless overwrite is true, RESOURCE_EXHAUSTED for a full disk.
   */
  save(path: Path, settings?: WithSettings<Control>): Promise<void>;
  /** The content of config.json. */
  config(): Settings;
  /** family, attention, shift, runs, bytes, end_tokens, objective, generation and storage. */
  describe(): Settings;
  /** A number; bytes are those of all weights. NOT_FOUND for another key. */
  get(key: 'vocab' | 'hidden' | 'layers' | 'max_length' | 'mask_id' | 'params' | 'bytes'): number;
  /** A count that every change of the weights increases, 1 or more. */
  readonly version: number;
  /** The names of all parameters. */
  paramNames(): string[];
  /** A copy of one parameter in f32, or in the type that it is stored in. NOT_FOUND names the nearest. */
  param(name: string): Promise<Tensor>;
  /** Replaces one parameter. NOT_FOUND names the nearest; INVALID_ARGUMENT for another shape. */
  setParam(name: string, value: Tensor | Nested): Promise<void>;
  /** Attaches a tokenizer: every save and checkpoint writes it too. */
  setTokenizer(tokenizer: Tokenizer): void;
  /**
   * Adds a LoRA adapter, which changes no result until it is trained. A trainer that is made afterwards trains the
   * adapters alone. name: letters, digits, _ and -, default "default". Rejects with ALREADY_EXISTS for a name that the
   * model has, and NOT_FOUND for targets that name no matrix. It rejects with UNIMPLEMENTED for targets like the head, and
   * INVALID_ARGUMENT for layers that the model lacks. When it rejects, the model is unchanged.
   */
  addAdapter(name?: string, settings?: AdapterSettings & Control): Promise<void>;
  /**
   * Adds an adapter with the numbers of a folder that PEFT or saveAdapter wrote; the progress counts bytes. name: as in
   * addAdapter. Rejects with ALREADY_EXISTS for a name that the model has, and NOT_FOUND for a missing file or matrix. It
   * rejects with INVALID_ARGUMENT for other shapes, UNIMPLEMENTED for an adapter that is not LoRA, and DATA_LOSS for a
   * damaged file. When it rejects, the model is unchanged.
   */
  loadAdapter(path: Path, name?: string, control?: Control): Promise<void>;
  /**
   * Writes an adapter as a folder that PEFT and loadAdapter read, complete or not at all; the progress counts bytes.
   * name: default "default". Rejects with NOT_FOUND for an unknown name, ALREADY_EXISTS when something is at the path,
   * RESOURCE_EXHAUSTED for a full disk.
   */
  saveAdapter(path: Path, name?: string, control?: Control): Promise<void>;
  /**
   * Adds the product of an adapter to the weights, which keep their format, and removes the adapter; null, the default:
   * of every adapter, in the order in which they were added. Rejects with NOT_FOUND for an unknown name,
   * INVALID_ARGUMENT for a sum that is not finite, OUT_OF_RANGE for a sum that the format makes infinite. The adapter at
   * which the call failed is unchanged.
   */
  mergeAdapter(name?: string | null, control?: Control): Promise<void>;
  /** Removes an adapter and frees its memory. name: default "default". NOT_FOUND; the hint has the names. */
  removeAdapter(name?: string): void;
  /**
   * Multiplies the product of an adapter by scale from now on. scale: -1e9 to 1e9; 0: the adapter is off, 1: as it was
   * trained. name: default "default". NOT_FOUND for an unknown name, INVALID_ARGUMENT for another number.
   */
  setAdapterScale(scale: number, name?: string): void;
  /**
   * Adds the network of another model of the engine as a part that losses can read, such as a teacher. Its arrays are
   * shared, and no trainer of this model trains it. name: default "teacher". ALREADY_EXISTS; INVALID_ARGUMENT for a
   * model of another engine.
   */
  addNetwork(other: Model, name?: string): void;
  /** Removes such a part. name: default "teacher". NOT_FOUND; the hint has the names. */
  removeNetwork(name?: string): void;
  /** The adapters in the order in which they were added. */
  adapters(): Adapter[];
  /**
   * Runs the model once; the batch has logits (batch, seq, vocab). Settings are those of kind "forward".
   *
   * logits[i] predicts token i, also with shift 1, where the state of token i - 1 makes it. Setting shift 0 gives the
   * logits of each token's own state.
   */
  forward(rows: Rows, settings?: WithSettings<Control>): Promise<Batch>;
}

/** A turn of a conversation. */
export interface Message { role: string; content: string; [key: string]: unknown; }
/** Token ids, and keep: 0 for text of the assistant. */
export interface Conversation { ids: Int32Array; keep: Uint8Array; }

/** Text to token ids and back. */
export class Tokenizer extends Managed {
  private constructor();
  /**
   * Loads tokenizer.json, a folder that has one, a run or a GGUF file. Rejects with NOT_FOUND, DATA_LOSS for a damaged
   * file.
   */
  static load(path: Path | Source, settings?: WithSettings<Control>): Promise<Tokenizer>;
  /**
   * Makes a byte-level BPE tokenizer of a dataset without a tokenizer; settings are those of kind "tokenizer_train".
   */
  static train(dataset: Dataset, settings?: WithSettings<Control>): Promise<Tokenizer>;
  /** Writes tokenizer.json into a folder, or to this file. ALREADY_EXISTS for a file of another program. */
  save(path: Path): void;
  /** How many tokens there are. */
  readonly size: number;
  /** The id of a token by its text, or of "mask", "bos", "eos" and "pad". NOT_FOUND without one. */
  id(name: string): number;
  /** The ids of a text; bytes that are not UTF-8 are kept. It blocks: encodeAsync is for megabytes. */
  encode(text: string | Uint8Array): Int32Array;
  /** As encode, on another thread. */
  encodeAsync(text: string | Uint8Array, control?: Control): Promise<Int32Array>;
  /** The ids of a conversation by the chat template. FAILED_PRECONDITION without a template. */
  chat(messages: readonly Message[], settings?: Settings): Conversation;
  /** As chat, on another thread. */
  chatAsync(messages: readonly Message[], settings?: Control & Settings): Promise<Conversation>;
  /** The text of ids. INVALID_ARGUMENT for an id that is not in the vocabulary. */
  decode(ids: Numbers): string;
  /** The text of whole characters alone, and how many ids it took: the others are for the next call. */
  decodeStream(ids: Numbers): { text: string; used: number };
}

/** The text of a canvas while a decoder decides it. */
export class Answer extends Managed {
  /** Settings are those of kind "answer": begin, prompt, end_tokens, stop, stop_texts, stop_pattern. */
  constructor(tokenizer: Tokenizer, settings?: Settings);
  /** Takes the canvas now, as ids() and states() of a decoder. Returns why the answer is over, or null. */
  update(ids: Numbers, states: Numbers): 'full' | 'end_token' | 'stop_text' | null;
  /** The text of the answer so far. */
  text(): string;
  /** The final text that is new since the last call. */
  next(): string;
  /** One text for each position. */
  cells(): string[];
}

/** Documents to train on. */
export class Dataset extends Managed {
  /** An empty dataset, for add(). Without a tokenizer it has raw text. */
  constructor(settings?: WithSettings<{ tokenizer?: Tokenizer }>);
  /** Opens text, JSON lines, Parquet or token files. Rejects with NOT_FOUND, DATA_LOSS for a damaged file. */
  static open(path: Path, settings?: WithSettings<Control & { tokenizer?: Tokenizer }>): Promise<Dataset>;
  /** A dataset of texts, or of objects as in a line of a JSONL file. */
  static of(rows: Iterable<string | object>, settings?: WithSettings<{ tokenizer?: Tokenizer }>): Dataset;
  /** Adds one document. FAILED_PRECONDITION for messages without a chat template. */
  add(row: string | object): this;
  /** How many documents there are. */
  readonly size: number;
  /** Appends the trajectories of the rows that the file lacks, and resolves with their number; settings are those of kind
   *  "trajectories". The teacher is null for method left_to_right. */
  extractTrajectories(teacher: Model | null, path: Path, settings?: WithSettings<Control>): Promise<number>;
  /** Writes a token file, which batches read their ids from; settings are those of kind "save". */
  save(path: Path, settings?: WithSettings<Control>): Promise<void>;
}

/** Batches of a dataset in an order that repeats itself for a seed. */
export class Loader extends Managed implements AsyncIterable<Batch> {
  /** Settings are those of kind "loader": batch (rows), length (tokens), epochs, seed, ... */
  constructor(dataset: Dataset, settings?: Settings);
  /** The next batch; null at the end of the data. */
  next(): Promise<Batch | null>;
  /** All batches up to the end of the data. */
  [Symbol.asyncIterator](): AsyncGenerator<Batch, void, void>;
  /** Writes what a teacher computes from the rows of one epoch to a folder, and resolves with the number of new chunks;
   *  settings are those of kind "anchors". */
  writeAnchors(teacher: Model, path: Path, settings?: WithSettings<Control>): Promise<number>;
  /** How many rows were read since the start, over all epochs and ranks. */
  readonly position: number;
  /** Goes to a position, in rows since the start. OUT_OF_RANGE past the end. */
  seek(position: number): void;
}

/** How much is masked at time t, and the weight of the loss. */
export class Schedule extends Managed {
  /** name: one of names("schedule"), default linear. NOT_FOUND names the nearest. */
  constructor(name?: string, settings?: Settings);
  /** A schedule of points; dalpha and weight are computed where they are not given. */
  static table(columns: { t: Numbers; alpha: Numbers; dalpha?: Numbers; weight?: Numbers }): Schedule;
  /** The schedule at many times, each from 0 to 1. INVALID_ARGUMENT for another time. */
  eval(times: Numbers): { alpha: Float64Array; dalpha: Float64Array; weight: Float64Array };
}

/** How a batch is corrupted and how the loss is computed. */
export class Objective extends Managed {
  /** name: one of names("objective"). NOT_FOUND names the nearest. */
  constructor(name: string, settings?: WithSettings<{ schedule?: Schedule }>);
  /** Draws the noise of one step: ids with masks, targets and weights. */
  prepare(rows: Rows, settings?: { seed?: number | bigint; step?: number; model?: Model }): Promise<Batch>;
  /** The loss of one batch in nats; no weight changes. */
  loss(model: Model, rows: Rows, settings?: Control & { seed?: number | bigint }): Promise<number>;
  /** The loss of every row for itself: "sums" in nats and "counts" of trained tokens. */
  rowLosses(model: Model, rows: Rows, settings?: Control & { seed?: number | bigint }): Promise<Batch>;
}

/** Trains a model. */
export class Trainer extends Managed {
  /**
   * Throws INVALID_ARGUMENT for a setting of another optimizer, NOT_FOUND for a pattern that fits no tensor,
   * RESOURCE_EXHAUSTED without memory.
   */
  constructor(model: Model, objective: Objective, settings?: TrainerSettings);
  /**
   * One optimizer step; resolves to the loss before the update, in nats. A step that rejects changes no weight. ABORTED
   * for a loss that is not finite, RESOURCE_EXHAUSTED when it does not fit into memory.
   */
  step(rows: Rows, control?: Control): Promise<number>;
  /** Adds the gradients of one batch to the sum, without an update. */
  accumulate(rows: Rows, control?: Control): Promise<void>;
  /** Updates with the gradients that accumulate summed; resolves to their mean loss in nats. */
  apply(control?: Control): Promise<number>;
  /** Waits for steps and a checkpoint that run in the background. Rejects with the first failure. */
  sync(): Promise<void>;
  /** Takes that many more steps; onEvent gets train_step and checkpoint. OUT_OF_RANGE when the data ends first. */
  run(loader: Loader, steps: number, control?: Watched): Promise<void>;
  /** The mean loss over batches (default 8), in nats; no weight changes. OUT_OF_RANGE without a batch. */
  eval(loader: Loader, control?: Control & { batches?: number }): Promise<number>;
  /**
   * A number of the last step: step, loss (nats), lr, grad_norm, tokens, tokens_per_second, mfu, memory (bytes),
   * compiles, skipped, input_wait, rank_wait (seconds), ... NOT_FOUND names the nearest.
   */
  metric(key: string): number;
  /** All metrics with their units, the settings, the arrays of the optimizer. */
  describe(): Settings;
  /** Changes a setting between two steps. */
  set(key: 'lr' | 'weight_decay' | 'clip', value: number): void;
  /** Writes every event to a file ("jsonl", "csv"), a folder ("tensorboard") or the "console". */
  addSink(kind: 'jsonl' | 'csv' | 'tensorboard' | 'console', target?: Path | null, settings?: Settings): void;
  /** The model that is trained, or its moving average as a copy. FAILED_PRECONDITION without an average. */
  model(role?: 'live' | 'ema'): Model;
}

/** Decodes token ids step by step. */
export class Decoder extends Managed {
  /** Throws FAILED_PRECONDITION for a model without a mask token, where the policy needs one. */
  constructor(model: Model, settings?: DecoderSettings);
  /** Removes all requests and starts one in slot 0: the prompt, then gen_length open positions. */
  start(prompt?: Numbers, settings?: { seed?: number | bigint }): void;
  /**
   * Adds a request with a canvas and returns its slot. fixed 1: the position is given, 0: it is open.
   * RESOURCE_EXHAUSTED without a free slot.
   */
  add(canvas: Numbers, settings?: SlotSettings & { fixed?: Iterable<number | boolean> }): number;
  /** Removes a request; its slot may be used again. NOT_FOUND for a slot that is not in use. */
  remove(slot: number): void;
  /** One denoising step of every active slot; resolves to how many still have open positions. */
  step(control?: Control): Promise<number>;
  /** Takes steps for this many milliseconds, possibly to the middle of one; resolves as step does. */
  stepFor(milliseconds: number, control?: Watched): Promise<number>;
  /** Steps until every position is decided, for `for await`. */
  steps(control?: Control): AsyncGenerator<number, void, void>;
  /** Takes steps until every position is decided; onEvent gets decode_step and block. */
  run(control?: Watched): Promise<void>;
  /** Runs the model for the next step and decides nothing: see statistics and commit. */
  predict(control?: Control): Promise<void>;
  /** The predictions of a slot: positions, token, probability, argmax, entropy, top_ids, ... */
  statistics(slot?: number): Batch;
  /** Decides these positions and ends the step of the slot. INVALID_ARGUMENT for a position that was not predicted. */
  commit(slot: number, positions: Numbers, ids: Numbers): void;
  /** The canvas: prompt and answer, with the mask id where a position is open. NOT_FOUND for an unused slot. */
  ids(slot?: number): Int32Array;
  /** MASKED, PROVISIONAL, FINAL or FIXED for every position. */
  states(slot?: number): Uint8Array;
  /** The probability that each token had when it was last predicted: 1 for a given one, 0 for none. */
  confidence(slot?: number): Float32Array;
  /**
   * A number of a slot, or of all slots (-1, the default): steps, nfe (forward passes), decided and open (positions),
   * cache_bytes, ... NOT_FOUND for another key.
   */
  metric(key: string, slot?: number): number;
  /** One object a step: step, ids, states, confidence. The decoder is made with trace: true. */
  trace(slot?: number): Settings[];
  /** The settings, the slots, and the metrics with their units. */
  describe(): Settings;
}

/** A text that the answer continues, or a conversation. */
export type Prompt = string | readonly Message[];

/** A text with the numbers of its request. String() of it is the text. */
export class Generation {
  private constructor();
  /** The answer; of a text with holes: the whole text. */
  readonly text: string;
  /** The prompt and the answer. */
  readonly whole: string;
  /** full: every position is decided. */
  readonly finish: 'full' | 'end_token' | 'stop_text' | 'incomplete';
  /** Tokens of the prompt. */
  readonly promptTokens: number;
  /** Tokens of the answer. */
  readonly completionTokens: number;
  /** Denoising steps. */
  readonly steps: number;
  /** Passes of the model. */
  readonly nfe: number;
  /** The policy that decoded the text. */
  readonly policy: string;
  /** The seed of its random numbers. */
  readonly seed: number;
  /** One token id per position, prompt included. */
  readonly ids: readonly number[];
  /** A probability per position, 1 for a given one. */
  readonly confidence: readonly number[];
  /** The text of each hole of an infill. */
  readonly holes: readonly string[];
  /** The answer, as text has it. */
  toString(): string;
}

/** What one denoising step added. String() of it is the text. */
export interface Piece {
  /** Final text that is new; all of them together are the text of the generation. */
  readonly text: string;
  /** The whole text, with <mask:N> for N open positions. */
  readonly canvas: string;
  /** Positions that are not decided. */
  readonly open: number;
  /** Steps taken so far. */
  readonly step: number;
  toString(): string;
}

/**
 * One piece for each step. Leaving the loop of `for await` early removes the request and frees its slot. Without a loop,
 * where next() is called by hand, return() and close() do. A stream that nothing refers to any more loses its request
 * when the collector finds it.
 */
export class Stream implements AsyncIterableIterator<Piece> {
  private constructor();
  /** The whole answer; throws before the last piece. */
  readonly generation: Generation;
  /** Takes one step. Rejects with the error of the request, after which the stream is over. */
  next(): Promise<IteratorResult<Piece, undefined>>;
  /** Ends the loop and removes the request, as `break` does. */
  return(value?: any): Promise<IteratorResult<Piece, undefined>>;
  /** Removes the request: now, or after the calls of the generator that run and wait. */
  close(): Promise<void>;
  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
  /** The stream itself, for `for await`. */
  [Symbol.asyncIterator](): this;
}

/** Loads a model with its tokenizer: a model folder, a GGUF file, a run or a checkpoint. */
export function load(path: Path, settings?: LoadSettings & Control & { engine?: Engine | EngineSettings }): Promise<Generator>;

/** A model, its tokenizer and the requests that are decoded together. */
export class Generator extends Managed {
  /** Throws FAILED_PRECONDITION for a model without a mask token, where the policy needs one. */
  constructor(model: Model, tokenizer: Tokenizer, settings?: GeneratorSettings);
  /** Continues a text or a conversation. */
  generate(prompt?: Prompt, settings?: RequestSettings & Control): Promise<Generation>;
  /** Fills the holes of a text: <mask:N> is N open tokens, <mask> is one. */
  infill(text: string, settings?: RequestSettings & Control): Promise<Generation>;
  /** The pieces of a text while it is decided. */
  stream(prompt?: Prompt, settings?: RequestSettings & Control): Stream;
  /** Decodes several prompts together; prompt number i has the seed seed + i. */
  batch(prompts: readonly Prompt[], settings?: RequestSettings & Control): Promise<Array<Generation | DllmError>>;
  /**
   * Adds a request and resolves to its number. One of prompt, messages and infill is its text. RESOURCE_EXHAUSTED
   * without a free slot.
   */
  add(settings?: AddSettings & Control): Promise<number>;
  /** Removes a request, open or over; its number may be used again. NOT_FOUND for another number. */
  remove(request: number): void;
  /** One denoising step of every open request; resolves to how many are open. */
  step(control?: Control): Promise<number>;
  /** Takes steps until no request is open; onEvent gets text and answer. What failed rejects in text(), not here. */
  run(control?: Watched): Promise<void>;
  /**
   * A part of a text: completion (default), text (with the prompt), next (new since the last call) or canvas (with
   * <mask:N> for open positions). Throws the error of the request.
   */
  text(request: number, part?: 'completion' | 'text' | 'next' | 'canvas'): string;
  /** A request as an object: finish, ids, states, steps, ...; -1, the default: the generator. */
  describe(request?: number): Settings;
  /** The decoder, for its readers. Its slots have the numbers of the requests. */
  decoder(): Decoder;
  /** The model of the generator. */
  model(): Model;
  /** The tokenizer of the generator. */
  tokenizer(): Tokenizer;
}

/** Whether a request is over: when it is, or after timeout milliseconds. */
export interface TicketWait extends Control {
  timeout?: number;
}

/**
 * A request of a queue: for await (const piece of ticket) gives what is new each time that it has changed. The end of the
 * loop, close(), using and the collector remove the request.
 */
export class Ticket implements AsyncIterableIterator<Piece>, Disposable {
  /** Queue.submit makes one. */
  private constructor();
  /** The number of the request, which no other request of the queue has. */
  readonly number: number;
  /** Waits until the request is over; resolves to whether it is. */
  wait(control?: TicketWait): Promise<boolean>;
  /** A part of the text, as of the last complete step, as generator.text has them. Throws the error of the request. */
  text(part?: 'completion' | 'text' | 'next' | 'canvas'): string;
  /** The request as an object: what generator.describe has, phase, version, seconds_waited, ... */
  describe(): Settings;
  /**
   * Resolves to the answer at the end. Rejects with the error of the request: CANCELLED, DEADLINE_EXCEEDED after its timeout,
   * or that of a step. signal and task end the wait alone.
   */
  generation(control?: Control): Promise<Generation>;
  /** Ends the request: whoever reads it gets CANCELLED. One that is over stays as it is. */
  cancel(): void;
  /** Removes the request, and cancels it where it is not over. */
  close(): void;
  /** The next piece. */
  next(): Promise<IteratorResult<Piece, undefined>>;
  /** Removes the request, as the end of a loop does. */
  return(value?: any): Promise<IteratorResult<Piece, undefined>>;
  /** The ticket itself, for `for await`. */
  [Symbol.asyncIterator](): this;
  /** `close()`, for `using`. */
  [Symbol.dispose](): void;
}

/** A model that decodes the requests of many callers, on a thread of its own. Its calls do not wait for each other. */
export class Queue extends Managed {
  /** Throws what the constructor of Generator throws. */
  constructor(model: Model, tokenizer: Tokenizer, settings?: QueueSettings);
  /** Loads a model with its tokenizer, as load does. */
  static load(path: Path, settings?: QueueLoadSettings & Control & { engine?: Engine | EngineSettings }): Promise<Queue>;
  /**
   * Submits a request and resolves to its ticket. Without a prompt a setting has the text. Rejects with RESOURCE_EXHAUSTED
   * when too many requests wait, UNAVAILABLE after drain. The ticket has later errors.
   */
  submit(prompt?: Prompt, settings?: SubmissionSettings & Control): Promise<Ticket>;
  /** Decodes one request together with the requests of other callers, and removes it. */
  generate(prompt?: Prompt, settings?: SubmissionSettings & Control): Promise<Generation>;
  /** The queue as an object: slots, waiting, decoding, over, totals, ... */
  describe(): Settings;
  /** Takes no further requests, and resolves when all are over. */
  drain(control?: Control): Promise<void>;
  /** The model of the queue. */
  model(): Model;
  /** The tokenizer of the queue. */
  tokenizer(): Tokenizer;
}

/** Weights to look into: a checkpoint, a model folder, a safetensors, PyTorch or GGUF file. */
export class Checkpoint extends Managed {
  /** Throws NOT_FOUND, DATA_LOSS for a damaged file. It blocks: open is for object stores. */
  constructor(path: Path);
  /** As the constructor, on another thread. */
  static open(path: Path, control?: Control): Promise<Checkpoint>;
  /** kind, path, step, metadata and tensors (name, dtype, shape, bytes). */
  describe(): Settings;
  /** Reads one tensor; block formats become f32. NOT_FOUND names the nearest. */
  tensor(name: string): Tensor;
  /** Reads every byte and compares sizes and checksums. Rejects with DATA_LOSS for a bad file. */
  verify(control?: Control): Promise<void>;
}
/**
 * Saves all that is needed to resume a run bit for bit; resolves to the new folder. Rejects with ALREADY_EXISTS for a
 * step that is saved, RESOURCE_EXHAUSTED for a full disk.
 */
export function saveCheckpoint(trainer: Trainer, loader: Loader | null, root: Path,
  settings?: WithSettings<Control & { script_state?: unknown }>): Promise<string>;
/**
 * Restores trainer, model and loader. Rejects with DATA_LOSS for a damaged file, FAILED_PRECONDITION for another model.
 */
export function restoreCheckpoint(trainer: Trainer, loader: Loader | null, folder: Path, control?: Control): Promise<void>;
/** The folder of the highest complete checkpoint of a run, null without one. It blocks. */
export function latestCheckpoint(root: Path): string | null;
/** As latestCheckpoint, on another thread, for object stores. */
export function latestCheckpointAsync(root: Path, control?: Control): Promise<string | null>;

/** What a pull would load. Sizes are in bytes. */
export interface PullPlan {
  name: string;
  commit: string;
  /** The path that pull will resolve to. */
  path: string;
  bytes: number;
  /** Bytes that are not in the cache yet. */
  missing: number;
  /** Bytes that the disk has left. */
  free: number;
  /** Bytes of memory that this process may use. */
  memory: number;
  /** The files in the order of the pull. */
  files: Array<{ path: string; size: number; cached: boolean; weights: boolean }>;
}
/** A model or a data set in the cache. Sizes are in bytes. */
export interface CachedRepository {
  name: string;
  kind: 'model' | 'dataset';
  bytes: number;
  /** Bytes of files whose pull ended early. */
  incomplete: number;
  /** The time of the last use in seconds since 1970. */
  used: number;
  path: string;
  /** Commits. `revisions` are the branches and tags that are this commit, `files` is how many files there are. */
  snapshots: Array<{ commit: string; revisions: string[]; files: number; bytes: number; path: string }>;
}
/** What hub.verify found. `checked` is how many files have a SHA-256; small files have none. */
export interface CacheReport {
  name: string;
  files: number;
  checked: number;
  bytes: number;
  faults: Array<{ path: string; what: string }>;
}

/**
 * Loads the files of "org/name", "org/name@revision" or "org/name:file" into the cache, unless they are there. Resolves to
 * the path that load takes. The progress of a task counts bytes. A pull that ends early keeps its bytes, and the next one
 * goes on with them. Rejects with NOT_FOUND for a name that the hub does not have, PERMISSION_DENIED, UNAUTHENTICATED,
 * RESOURCE_EXHAUSTED for a full disk and UNAVAILABLE without a network.
 */
export function pull(name: string, settings?: HubSettings & Control): Promise<string>;
/** The hub and its cache. HF_ENDPOINT, HF_TOKEN and HF_HUB_CACHE are read when a function is called. */
export namespace hub {
  export { pull };
  /** Asks the hub what pull would load, and loads nothing. Rejects as pull does. */
  export function describe(name: string, settings?: HubSettings & Control): Promise<PullPlan>;
  /** The repositories in the cache. The network is not used. */
  export function list(control?: Control): Promise<CachedRepository[]>;
  /** Reads every file of a repository in the cache and compares the SHA-256 of large files. NOT_FOUND: it is not there. */
  export function verify(name: string, control?: Control): Promise<CacheReport>;
  /** Removes a repository, or one revision of it for "org/name@revision"; `freed` is in bytes. NOT_FOUND: it is not there. */
  export function remove(name: string, control?: Control): Promise<{ name: string; freed: number; snapshots: number }>;
}

/** Runs Lua scripts inside the library, each runner with a state of its own. */
export class Lua extends Managed {
  /** Settings are those of kind "lua": sandbox, roots, memory_limit (bytes), step_limit (instructions), path, seed. */
  constructor(settings?: Settings);
  /** Sets a global to an object of the library, or to any JSON value. */
  set(name: string, value: unknown): void;
  /** Runs a file; resolves to what it returns. SCRIPT_FAILED has file and line, the hint the traceback. */
  runFile(path: Path, args?: readonly unknown[], control?: Control): Promise<unknown[]>;
  /** Runs a text; name is its name in messages. Rejects as runFile does. */
  runText(code: string, control?: Control & { name?: string }): Promise<unknown[]>;
  /** Calls a global function; dots reach into tables. Rejects as runFile does. */
  call(name: string, args?: readonly unknown[], control?: Control): Promise<unknown[]>;
}
