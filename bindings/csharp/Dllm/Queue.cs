using System;
using System.Runtime.InteropServices;

namespace Dllm
{
    /// <summary>Answers the requests of many threads with one model. It decodes on a thread of its own; requests join and
    /// leave between two steps. The text of a request is the one that a Generator returns for it. Any thread may call it,
    /// several at a time. Dispose cancels what is not over, when the calls that run have returned.</summary>
    public sealed class Queue : Noun
    {
        private Queue(IntPtr pointer) { Adopt(pointer, p => Library.Api.dllm_queue_release(p)); }

        /// <summary>A queue of a model and a tokenizer. It throws what the constructor of Generator throws.</summary>
        public Queue(Model model, Tokenizer tokenizer, Options settings = null)
        {
            using (var options = new NativeOptions("queue", settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_queue_new(model.Handle, tokenizer.Handle, options.Handle, out made,
                                                         Failure.Here));
                Adopt(made, p => Library.Api.dllm_queue_release(p));
            }
        }

        /// <summary>Loads a model with its tokenizer, as Generator.Load does. Settings are those of kinds "queue" and "model"
        /// at one level, and "engine".</summary>
        public static Queue Load(string path, Options settings = null, Control control = default(Control)) =>
            new Queue(Loading.Load(
                "queue", settings, control,
                (SafeHandle engine, SafeHandle model, SafeHandle own, SafeHandle task, out IntPtr made) =>
                    Library.Api.dllm_queue_load(Dllm.Text.Z(path), engine, model, own, task, out made, Failure.Here)));

        /// <summary>Submits a request; its ticket, at once. Settings are those of a request and SubmissionOptions at one
        /// level. The control ends this call, not the request. It throws what Generator.Add throws for a request that cannot
        /// be read, ResourceExhausted when too many requests wait, Unavailable after Drain. The ticket has later
        /// errors.</summary>
        public Ticket Submit(Prompt prompt, Options settings = null, Control control = default(Control))
        {
            if (prompt == null) throw new ArgumentNullException("prompt");
            Options request = prompt.With(settings), own = new Options();
            foreach (string key in Loading.KeysOf("submission"))
            {
                object value;
                if (request.TryGetValue(key, out value)) own[key] = value;
                request.Remove(key);
            }
            using (var asked = new NativeOptions(Options.KindOf("request", request), request))
            using (var how = new NativeOptions("submission", own))
            {
                long number = 0;
                control.Run(task => Library.Api.dllm_queue_submit(Handle, asked.Handle, how.Handle, task, out number,
                                                                  Failure.Here));
                return new Ticket(this, number);
            }
        }

        /// <summary>Decodes one request together with the requests of other threads, and removes it, also when the control ends the
        /// wait.</summary>
        public Generation Generate(Prompt prompt, Options settings = null, Control control = default(Control))
        {
            using (Ticket ticket = Submit(prompt, settings, control)) return ticket.Generation(control);
        }

        /// <summary>Waits until any request has changed: until the version of the queue is above the one seen, or for this
        /// time, null without an end. The version now.</summary>
        public long Wait(long seen, TimeSpan? most = null, Control control = default(Control))
        {
            Wait(-1, ref seen, most, control);
            return seen;
        }

        /// <summary>Whether the request is over; its version.</summary>
        internal bool Wait(long request, ref long version, TimeSpan? most, Control control)
        {
            long now = version, over = 0;
            long milliseconds = most == null ? long.MaxValue : System.Math.Max(0, (long)most.Value.TotalMilliseconds);
            control.Run(task => Library.Api.dllm_queue_wait(Handle, request, milliseconds, task, ref now, out over,
                                                            Failure.Here));
            version = now;
            return over != 0;
        }

        internal string Text(long request, string part) =>
            Written((self, to, error) => Library.Api.dllm_queue_text(self, request, Dllm.Text.Z(part), to, error));

        /// <summary>The queue as JSON: slots, waiting, decoding, over, totals and more.</summary>
        public string Describe() => Describe(-1);

        internal string Describe(long request) =>
            Written((self, to, error) => Library.Api.dllm_queue_describe(self, request, to, error));

        internal void Cancel(long request) =>
            Failure.Check(Library.Api.dllm_queue_cancel(Handle, request, Failure.Here));

        internal void Remove(long request) =>
            Failure.Check(Library.Api.dllm_queue_remove(Handle, request, Failure.Here));

        /// <summary>Takes no further requests, and waits until all are over. When the control ends the wait, requests are
        /// refused all the same.</summary>
        public void Drain(Control control = default(Control)) =>
            control.Run(task => Library.Api.dllm_queue_drain(Handle, task, Failure.Here));

        /// <summary>The model of the queue.</summary>
        public Model Model() => new Model(Made(Library.Api.dllm_queue_model.Invoke));

        /// <summary>The tokenizer of the queue.</summary>
        public Tokenizer Tokenizer() => new Tokenizer(Made(Library.Api.dllm_queue_tokenizer.Invoke));
    }
}
