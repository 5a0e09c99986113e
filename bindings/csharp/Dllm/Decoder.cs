using System;
using System.Collections.Generic;

namespace Dllm
{
    /// <summary>The state of a position.</summary>
    public enum State : byte
    {
        /// <summary>The position is open.</summary>
        Masked = Raw.MASKED,
        /// <summary>The position has a token and may change.</summary>
        Provisional = Raw.PROVISIONAL,
        /// <summary>The position is decided.</summary>
        Final = Raw.FINAL,
        /// <summary>The position was given.</summary>
        Fixed = Raw.FIXED,
    }

    /// <summary>Turns prompts into text, step by step. It has slots, one per request.</summary>
    public sealed class Decoder : Noun
    {
        internal delegate int Reader<T>(T[] room, long size, out long count);

        internal Decoder(IntPtr pointer) { Adopt(pointer, p => Library.Api.dllm_decoder_release(p)); }

        /// <summary>Options of kind "decoder", and of the policy that they name. FailedPrecondition for a model
        /// without a mask token, where the policy needs one.</summary>
        public Decoder(Model model, Options settings = null)
        {
            using (var options = new NativeOptions(Options.KindOf("decoder", settings), settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_decoder_new(model.Handle, options.Handle, out made, Failure.Here));
                Adopt(made, p => Library.Api.dllm_decoder_release(p));
            }
        }

        /// <summary>Removes all requests and starts one in slot 0: the prompt, then gen_length open positions.</summary>
        public void Start(int[] prompt, long seed = 0) =>
            Failure.Check(Library.Api.dllm_decoder_start(Handle, prompt, prompt.Length, seed, Failure.Here));

        /// <summary>Adds a request with a canvas; isFixed has 1 where a position is given, 0 where it is open.</summary>
        public int Add(int[] canvas, byte[] isFixed = null, Options settings = null)
        {
            if (isFixed != null && isFixed.Length != canvas.Length)
                throw new ArgumentException("canvas has " + canvas.Length + " positions, isFixed " + isFixed.Length);
            using (var options = new NativeOptions("slot", settings))
            {
                long slot;
                Failure.Check(Library.Api.dllm_decoder_add(Handle, canvas, isFixed, canvas.Length, options.Handle, out slot,
                                                           Failure.Here));
                return checked((int)slot);
            }
        }

        /// <summary>Removes a request; its slot may be used again. NotFound for a slot that is not in use.</summary>
        public void Remove(int slot) => Failure.Check(Library.Api.dllm_decoder_remove(Handle, slot, Failure.Here));

        /// <summary>One denoising step of every active slot; how many still have open positions.</summary>
        public int Step(Control control = default(Control))
        {
            long active = 0;
            control.Run(task => Library.Api.dllm_decoder_step(Handle, task, out active, Failure.Here));
            return checked((int)active);
        }

        /// <summary>Steps until everything is decided; what Step returns.</summary>
        public IEnumerable<int> Steps(Control control = default(Control))
        {
            int active;
            do
            {
                active = Step(control);
                yield return active;
            } while (active > 0);
        }

        /// <summary>Works for a budget of time, and may return inside a step, which the next call continues. How many slots
        /// still have open positions.</summary>
        public int StepFor(TimeSpan budget, EventCallback callback = null, Control control = default(Control))
        {
            long active = 0;
            Session.Run(control, callback, (fn, data, task) => Library.Api.dllm_decoder_step_for(
                                               Handle, budget.TotalMilliseconds, fn, data, task, out active, Failure.Here));
            return checked((int)active);
        }

        /// <summary>Steps until everything is decided; the callback gets every event.</summary>
        public void Run(EventCallback callback = null, Control control = default(Control)) =>
            Session.Run(control, callback,
                        (fn, data, task) => Library.Api.dllm_decoder_run(Handle, fn, data, task, Failure.Here));

        /// <summary>Runs the model for the next step and decides nothing: see Statistics and Commit.</summary>
        public void Predict(Control control = default(Control)) =>
            control.Run(task => Library.Api.dllmx_decoder_predict(Handle, task, Failure.Here));

        /// <summary>The predictions: positions, token, probability, argmax, entropy, top_ids, ...</summary>
        public Batch Statistics(int slot = 0)
        {
            IntPtr made;
            Failure.Check(Library.Api.dllmx_decoder_statistics(Handle, slot, out made, Failure.Here));
            return new Batch(made);
        }

        /// <summary>Decides these positions and ends the slot's step.</summary>
        public void Commit(int slot, long[] positions, int[] ids)
        {
            if (positions.Length != ids.Length)
                throw new ArgumentException(positions.Length + " positions, " + ids.Length + " ids");
            Failure.Check(Library.Api.dllmx_decoder_commit(Handle, slot, positions, ids, ids.Length, Failure.Here));
        }

        /// <summary>The canvas: prompt and answer. Any thread may read it at any time.</summary>
        public int[] Ids(int slot = 0) =>
            ReadAll((int[] room, long size, out long count) =>
                        Library.Api.dllm_decoder_ids(Handle, slot, room, size, out count, Failure.Here));

        /// <summary>The state of every position.</summary>
        public State[] States(int slot = 0) =>
            Array.ConvertAll(ReadAll((byte[] room, long size, out long count) =>
                                         Library.Api.dllm_decoder_states(Handle, slot, room, size, out count, Failure.Here)),
                             state => (State)state);

        /// <summary>The probability that each token had when it was last predicted: 1 for a given one, 0 for
        /// none.</summary>
        public float[] Confidence(int slot = 0) =>
            ReadAll((float[] room, long size, out long count) =>
                        Library.Api.dllm_decoder_confidence(Handle, slot, room, size, out count, Failure.Here));

        // A canvas may grow between two calls.
        internal static T[] ReadAll<T>(Reader<T> read)
        {
            var values = new T[256];
            while (true)
            {
                long count;
                int status = read(values, values.Length, out count);
                bool small = count > values.Length && (status == Raw.OK || status == Raw.OUT_OF_RANGE);
                if (!small) Failure.Check(status);
                Array.Resize(ref values, checked((int)count));
                if (!small) return values;
            }
        }

        /// <summary>A number: open, steps, nfe, done, ...; slot -1 is all of them.</summary>
        public double Metric(string key, int slot = -1)
        {
            double value;
            Failure.Check(Library.Api.dllm_decoder_metric(Handle, slot, Text.Z(key), out value, Failure.Here));
            return value;
        }

        /// <summary>One JSON object per line and step; the decoder is made with trace = true.</summary>
        public string Trace(int slot = 0) =>
            Written((self, to, error) => Library.Api.dllm_decoder_trace(self, slot, to, error));

        /// <summary>The options, the slots, and the metrics with their units, as JSON.</summary>
        public string Describe() => Written((self, to, error) => Library.Api.dllm_decoder_describe(self, to, error));
    }
}
