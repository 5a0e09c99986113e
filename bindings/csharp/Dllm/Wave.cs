using System;
using System.Collections.Generic;

namespace Dllm
{
    /// <summary>The requests of a batch that are decoded together: as many as there are slots.</summary>
    internal sealed class Wave : IDisposable
    {
        private readonly Generator generator;
        private readonly Control control;
        private readonly List<Result> done = new List<Result>();
        private readonly List<int> requests = new List<int>();
        private readonly List<int> places = new List<int>(); // of their results in done

        internal Wave(Generator generator, Control control)
        {
            this.generator = generator;
            this.control = control;
        }

        internal void Add(Prompt prompt, Options settings)
        {
            Options seeded = Seeded(settings, done.Count);
            try
            {
                Take(prompt, seeded);
            }
            catch (Exception problem) when (IsFull(problem))
            {
                Run();
                Add(prompt, settings);
            }
            catch (Exception problem) when (IsOfOne(problem))
            {
                done.Add(new Result(null, problem));
            }
        }

        private void Take(Prompt prompt, Options seeded)
        {
            requests.Add(generator.Add(prompt, seeded, control));
            places.Add(done.Count);
            done.Add(null);
        }

        private bool IsFull(Exception problem) =>
            requests.Count > 0 && problem is DllmException && ((DllmException)problem).Code == Code.ResourceExhausted;

        private static bool IsOfOne(Exception problem) =>
            problem is DllmException || problem is OperationCanceledException || problem is ArgumentException;

        internal IReadOnlyList<Result> Finish()
        {
            Run();
            return done;
        }

        /// <summary>Removes the requests of a batch whose prompts ended with an exception.</summary>
        public void Dispose()
        {
            if (!generator.IsDisposed) requests.ForEach(generator.Remove);
        }

        /// <summary>Decodes the requests that were added and removes them.</summary>
        private void Run()
        {
            Exception ended = null;
            try
            {
                if (requests.Count > 0) generator.Run(null, control);
            }
            catch (Exception problem) when (IsOfOne(problem))
            {
                ended = problem;
            }
            for (int i = 0; i < requests.Count; i++) done[places[i]] = ResultOf(requests[i], ended);
            requests.Clear();
            places.Clear();
        }

        private Result ResultOf(int request, Exception ended)
        {
            try
            {
                Generation made = generator.Generation(request);
                return made.Finish == "open" && ended != null ? new Result(null, ended) : new Result(made, null);
            }
            catch (DllmException problem)
            {
                return new Result(null, problem);
            }
            finally
            {
                generator.Remove(request);
            }
        }

        /// <summary>A seed that is not a whole number is left for the library to refuse.</summary>
        private static Options Seeded(Options settings, int index)
        {
            object seed = 0;
            if (settings != null && settings.ContainsKey("seed")) seed = settings["seed"];
            if (seed is int || seed is long) seed = unchecked(Convert.ToInt64(seed) + index);
            return (settings ?? new Options()).And(new Options {["seed"] = seed});
        }
    }
}
