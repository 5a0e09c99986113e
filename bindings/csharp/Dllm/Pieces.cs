using System;
using System.Collections;
using System.Collections.Generic;
using System.Threading;

namespace Dllm
{
    /// <summary>What one step added to a text.</summary>
    public sealed class Piece
    {
        /// <summary>New final text, may be empty; all of them together are the answer.</summary>
        public string Text { get; internal set; }

        /// <summary>The whole text, with &lt;mask:N&gt; for N open positions.</summary>
        public string Canvas { get; internal set; }

        /// <summary>Open positions.</summary>
        public int Open { get; internal set; }

        /// <summary>Denoising steps so far.</summary>
        public int Step { get; internal set; }
    }

    /// <summary>A request that is read step by step, with foreach or await foreach. Each loop adds the request, and its
    /// end, also an early one, removes it. Between two steps calls of other threads may run. An asynchronous loop takes its
    /// steps on the thread pool.</summary>
    public sealed class Pieces : IEnumerable<Piece>, IAsyncEnumerable<Piece>
    {
        private readonly Generator generator;
        private readonly Prompt prompt;
        private readonly Options settings;
        private readonly Control control;

        internal Pieces(Generator generator, Prompt prompt, Options settings, Control control)
        {
            this.generator = generator;
            this.prompt = prompt;
            this.settings = settings;
            this.control = control;
        }

        /// <summary>The generation after the last piece, null before the first one. Where the loop was left early its Finish
        /// is "open".</summary>
        public Generation Generation { get; private set; }

        /// <summary>One piece for each step.</summary>
        public IEnumerator<Piece> GetEnumerator() => Steps(control).GetEnumerator();

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

        /// <summary>The token that is given here counts in the place of that of Generator.Stream.</summary>
        public IAsyncEnumerator<Piece> GetAsyncEnumerator(CancellationToken token = default(CancellationToken)) =>
            new InBackground(Steps(token.CanBeCanceled ? token : control).GetEnumerator());

        private IEnumerable<Piece> Steps(Control with)
        {
            Generation = null;
            using (var request = new OpenRequest(generator, generator.Add(prompt, settings, with)))
            {
                while (Generation == null || Generation.Finish == "open") yield return Step(request.Number, with);
            }
        }

        private Piece Step(int request, Control with)
        {
            using (generator.Turn(with))
            {
                generator.Step(with);
                Generation = generator.Generation(request);
                return new Piece {Text = generator.Text(request, "next"), Canvas = generator.Text(request, "canvas"),
                                  Open = Generation.Open, Step = Generation.Steps};
            }
        }
    }
}
