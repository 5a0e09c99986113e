using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;

namespace Dllm
{
    /// <summary>Takes requests for text and returns text. It has a model, its tokenizer and a decoder. Any thread may call
    /// it. Its calls run one after another, in the order in which they came; a loop over pieces has its turn for one step at
    /// a time. A token or a task also ends the wait for the turn, and Dispose ends it with ObjectDisposedException. A callback
    /// may call Text, Describe and Generation of its generator; other calls throw FailedPrecondition. It must not wait for a
    /// call of its generator on another thread: both would wait forever. A failed call throws DllmException.</summary>
    public sealed class Generator : Noun
    {
        /// <summary>Requests of loops that are over. The end of a turn removes them, since the thread of the collector may
        /// not use the generator.</summary>
        private readonly ConcurrentQueue<int> forgotten = new ConcurrentQueue<int>();
        private readonly Turns turns;

        private Generator(IntPtr pointer)
        {
            turns = new Turns(this);
            Adopt(pointer, p => Library.Api.dllm_generator_release(p));
        }

        /// <summary>A generator of a model and a tokenizer. FailedPrecondition: the model has no mask token, and the policy
        /// needs one.</summary>
        public Generator(Model model, Tokenizer tokenizer, Options settings = null)
        {
            turns = new Turns(this);
            using (var options = new NativeOptions("generator", settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_generator_new(model.Handle, tokenizer.Handle, options.Handle, out made,
                                                             Failure.Here));
                Adopt(made, p => Library.Api.dllm_generator_release(p));
            }
        }

        /// <summary>Loads a model with its tokenizer: a model folder, a GGUF file, a run or a checkpoint. Settings are those
        /// of kinds "generator" and "model" at one level, and "engine": an Engine, or options for one of its own. Without it
        /// the default engine is used. It throws what Model.Load and the constructor throw.</summary>
        public static Generator Load(string path, Options settings = null, Control control = default(Control))
        {
            return new Generator(Loading.Load(
                "generator", settings, control,
                (SafeHandle engine, SafeHandle model, SafeHandle own, SafeHandle task, out IntPtr made) =>
                    Library.Api.dllm_generator_load(Dllm.Text.Z(path), engine, model, own, task, out made, Failure.Here)));
        }

        /// <summary>Adds a request; its number. Settings are those of kind "request", and of the policy that they name.
        /// OutOfRange: prompt and answer are longer than the model allows. ResourceExhausted: no slot is free.
        /// FailedPrecondition: messages without a chat template.</summary>
        public int Add(Prompt prompt, Options settings = null, Control control = default(Control))
        {
            if (prompt == null) throw new ArgumentNullException("prompt");
            Options request = prompt.With(settings);
            using (Turn(control))
            using (var options = new NativeOptions(Options.KindOf("request", request), request))
            {
                long number = 0;
                control.Run(task => Library.Api.dllm_generator_add(Handle, options.Handle, task, out number, Failure.Here));
                return checked((int)number);
            }
        }

        /// <summary>Removes a request, open or over; its number may be used again.</summary>
        public void Remove(int request)
        {
            using (Turn()) Failure.Check(Library.Api.dllm_generator_remove(Handle, request, Failure.Here));
        }

        /// <summary>Waits until no call of another thread runs.</summary>
        internal IDisposable Turn(Control control = default(Control)) => turns.Take(control);

        /// <summary>Has the request removed at the end of the next turn. It does not use the library.</summary>
        internal void Forget(int request) => forgotten.Enqueue(request);

        /// <summary>Removes the request: now, or after the call that has the turn. It does not wait.</summary>
        internal void Drop(int request)
        {
            Forget(request);
            turns.TryTake();
        }

        internal bool HasForgotten => !forgotten.IsEmpty;

        /// <summary>For the end of a turn, outside of callbacks.</summary>
        internal void RemoveForgotten()
        {
            int request;
            while (forgotten.TryDequeue(out request))
            {
                try
                {
                    Remove(request);
                }
                catch (DllmException problem) when (problem.Code == Code.NotFound) // removed by hand
                {
                }
                catch (ObjectDisposedException) // the request went with the generator
                {
                }
            }
        }

        /// <summary>One denoising step of every open request; how many requests are open. A request that fails is over, and
        /// Text throws its error.</summary>
        public int Step(Control control = default(Control))
        {
            long open = 0;
            using (Turn(control))
                control.Run(task => Library.Api.dllm_generator_step(Handle, task, out open, Failure.Here));
            return checked((int)open);
        }

        /// <summary>Steps until no request is open. The callback gets EventKind.Text after each step of a request, and
        /// EventKind.Answer when it is over. After a cancelled run the requests are open, and a later run continues.</summary>
        public void Run(EventCallback callback = null, Control control = default(Control))
        {
            using (Turn(control))
                Session.Run(control, callback,
                            (fn, data, task) => Library.Api.dllm_generator_run(Handle, fn, data, task, Failure.Here));
        }

        /// <summary>A part of the text of a request: completion, text (prompt and answer), next (final text that was not
        /// returned before) or canvas (&lt;mask:N&gt; for N open positions). Throws the error of a request that
        /// failed.</summary>
        public string Text(int request, string part = "completion")
        {
            using (Turn())
                return Written((self, to, error) =>
                               Library.Api.dllm_generator_text(self, request, Dllm.Text.Z(part), to, error));
        }

        /// <summary>A request as JSON; -1: the generator.</summary>
        public string Describe(int request = -1)
        {
            using (Turn())
                return Written((self, to, error) => Library.Api.dllm_generator_describe(self, request, to, error));
        }

        /// <summary>A request as it is now; throws the error of a request that failed.</summary>
        public Generation Generation(int request)
        {
            using (Turn())
            {
                Text(request);
                return new Generation(Describe(request));
            }
        }

        /// <summary>Decodes one request, as Add takes it, and removes it. Other open requests take their steps too. The time
        /// in which it waits for calls of other threads counts for a deadline.</summary>
        public Generation Generate(Prompt prompt, Options settings = null, Control control = default(Control))
        {
            using (Turn(control))
            {
                int request = Add(prompt, settings, control);
                try
                {
                    Run(null, control);
                    return Generation(request);
                }
                finally
                {
                    Forget(request);
                }
            }
        }

        /// <summary>Fills the holes of a text, all at once: &lt;mask:N&gt; is N open tokens, &lt;mask&gt; is
        /// one.</summary>
        public Generation Infill(string text, Options settings = null, Control control = default(Control)) =>
            Generate(Prompt.Infill(text), settings, control);

        /// <summary>A request for a loop over its pieces, one per step.</summary>
        public Pieces Stream(Prompt prompt, Options settings = null, Control control = default(Control)) =>
            new Pieces(this, prompt, settings, control);

        /// <summary>Decodes several requests together, as many at a time as the generator has slots. Prompt i has
        /// seed + i. One result per prompt: an error of one leaves the others alone, and a call that is cancelled is the
        /// error of the prompts that are not over. Where there are more prompts than slots, calls of other threads may run in
        /// between.</summary>
        public IReadOnlyList<Result> Batch(IEnumerable<Prompt> prompts, Options settings = null,
                                           Control control = default(Control))
        {
            var waves = new Waves(this, settings, control);
            return waves.Decode(prompts.ToList());
        }

        /// <summary>Decodes several requests together, as many at a time as there are slots. Prompt i has seed + i.
        /// One result a prompt.</summary>
        public IReadOnlyList<Result> Batch(IEnumerable<string> prompts, Options settings = null,
                                           Control control = default(Control)) =>
            Batch(prompts.Select(text => (Prompt)text), settings, control);

        /// <summary>The decoder, for what it reads: its slots have the numbers of the requests. Calls that change it
        /// throw.</summary>
        public Decoder Decoder() => new Decoder(Made(Library.Api.dllm_generator_decoder.Invoke));

        /// <summary>The model of the generator.</summary>
        public Model Model() => new Model(Made(Library.Api.dllm_generator_model.Invoke));

        /// <summary>The tokenizer of the generator.</summary>
        public Tokenizer Tokenizer() => new Tokenizer(Made(Library.Api.dllm_generator_tokenizer.Invoke));
    }
}
