using System;
using System.Collections;
using System.Collections.Generic;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;

namespace Dllm
{
    /// <summary>A request of a queue. Any thread may read it, wait for it and cancel it. foreach and await foreach give what is
    /// new each time that it has changed; one loop reads the pieces of a ticket. Dispose removes the request, and so do the
    /// end of a loop, also an early one, and the finalizer.</summary>
    public sealed class Ticket : IEnumerable<Piece>, IAsyncEnumerable<Piece>, IDisposable
    {
        private readonly Queue queue;
        private volatile Generation last; // after the last piece

        internal Ticket(Queue queue, long number)
        {
            this.queue = queue;
            Number = number;
        }

        /// <summary>Removes the request.</summary>
        ~Ticket() { Remove(); }

        /// <summary>The number of the request, which no other request of the queue has.</summary>
        public long Number { get; }

        /// <summary>Waits until the request is over, or for this time, null without an end. Whether it is over.</summary>
        public bool Wait(TimeSpan? most = null, Control control = default(Control))
        {
            if (last != null) return true;
            Stopwatch clock = Stopwatch.StartNew();
            TimeSpan? left = most;
            for (long version = 0;;)
            {
                if (queue.Wait(Number, ref version, left, control)) return true;
                if (left <= TimeSpan.Zero) return false;
                left = most - clock.Elapsed;
            }
        }

        /// <summary>A part of the text, as of the last complete step: completion, text, next or canvas, as of
        /// Generator.Text. Throws the error of a request that failed.</summary>
        public string Text(string part = "completion") => queue.Text(Number, part);

        /// <summary>The request as JSON: what Generator.Describe has, and phase, version, seconds_waited and more.</summary>
        public string Describe() => queue.Describe(Number);

        /// <summary>Waits for the end; the answer. Throws the error of a request that failed: Cancelled, DeadlineExceeded
        /// after its timeout, or that of a step. When the control ends the wait, the request goes on.</summary>
        public Generation Generation(Control control = default(Control))
        {
            Wait(null, control);
            if (last != null) return last;
            Text();
            return new Generation(Describe());
        }

        /// <summary>Generation on a thread of its own.</summary>
        public Task<Generation> GenerationAsync(CancellationToken token = default(CancellationToken)) =>
            Task.Factory.StartNew(() => Generation(token), token, TaskCreationOptions.LongRunning, TaskScheduler.Default);

        /// <summary>What is new each time that the request has changed, to its end. A slow loop misses steps and no
        /// text.</summary>
        public IEnumerator<Piece> GetEnumerator() => Pieces(default(Control)).GetEnumerator();

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

        /// <summary>As GetEnumerator, with the waits on the thread pool. The token ends the loop.</summary>
        public IAsyncEnumerator<Piece> GetAsyncEnumerator(CancellationToken token = default(CancellationToken)) =>
            new InBackground(Pieces(token).GetEnumerator());

        private IEnumerable<Piece> Pieces(Control control)
        {
            try
            {
                for (long seen = 1; last == null;) // 1: the version of a request before its first step
                {
                    long now = seen;
                    queue.Wait(Number, ref now, null, control);
                    yield return Next(out seen);
                }
            }
            finally
            {
                Dispose();
            }
        }

        /// <summary>The description is older than the text, so that the text of a request that is over is whole.</summary>
        private Piece Next(out long seen)
        {
            var now = new Generation(Describe());
            var piece = new Piece {Text = Text("next"), Canvas = Text("canvas"), Open = now.Open, Step = now.Steps};
            seen = now.Version;
            if (now.IsOver) last = now;
            return piece;
        }

        /// <summary>Ends the request: whoever reads it gets Cancelled. A request that is over stays as it is.</summary>
        public void Cancel() => queue.Cancel(Number);

        /// <summary>Removes the request, and cancels it where it is not over. A second call does nothing.</summary>
        public void Dispose()
        {
            GC.SuppressFinalize(this);
            Remove();
        }

        private void Remove()
        {
            try
            {
                queue.Remove(Number);
            }
            catch (DllmException problem) when (problem.Code == Code.NotFound) // removed before
            {
            }
            catch (ObjectDisposedException) // the request went with the queue
            {
            }
        }
    }
}
