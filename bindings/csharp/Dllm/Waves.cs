using System;
using System.Collections.Generic;

namespace Dllm
{
    /// <summary>A batch. Its prompts are decoded in waves, each of as many requests as there are slots, and each in a turn
    /// of its own.</summary>
    internal sealed class Waves
    {
        private readonly Generator generator;
        private readonly Options settings;
        private readonly Control control;
        private readonly List<Result> done = new List<Result>();
        private readonly List<int> requests = new List<int>();
        private readonly List<int> places = new List<int>(); // of their results in done

        internal Waves(Generator generator, Options settings, Control control)
        {
            this.generator = generator;
            this.settings = settings;
            this.control = control;
        }

        internal IReadOnlyList<Result> Decode(IReadOnlyList<Prompt> prompts)
        {
            while (done.Count < prompts.Count)
            {
                try
                {
                    using (generator.Turn(control)) DecodeSome(prompts);
                }
                catch (Exception problem) when (IsOfOne(problem)) // the control ended the wait for the turn
                {
                    done.Add(new Result(null, problem));
                }
            }
            return done;
        }

        /// <summary>Decodes as many of the next prompts as there are slots.</summary>
        private void DecodeSome(IReadOnlyList<Prompt> prompts)
        {
            try
            {
                while (done.Count < prompts.Count && Add(prompts[done.Count])) {}
                Run();
            }
            finally
            {
                requests.ForEach(generator.Forget);
                requests.Clear();
                places.Clear();
            }
        }

        /// <summary>False when the slots are full of other requests of the batch.</summary>
        private bool Add(Prompt prompt)
        {
            try
            {
                requests.Add(generator.Add(prompt, Seeded(done.Count), control));
                places.Add(done.Count);
                done.Add(null);
            }
            catch (Exception problem) when (IsFull(problem))
            {
                return false;
            }
            catch (Exception problem) when (IsOfOne(problem))
            {
                done.Add(new Result(null, problem));
            }
            return true;
        }

        private bool IsFull(Exception problem) =>
            requests.Count > 0 && problem is DllmException && ((DllmException)problem).Code == Code.ResourceExhausted;

        private static bool IsOfOne(Exception problem) =>
            problem is DllmException || problem is OperationCanceledException || problem is ArgumentException;

        /// <summary>Decodes the requests that were added.</summary>
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
        }

        /// <summary>The settings of a prompt. A seed that is not a whole number is left for the library to refuse.</summary>
        private Options Seeded(int index)
        {
            object seed = 0;
            if (settings != null && settings.ContainsKey("seed")) seed = settings["seed"];
            if (seed is int || seed is long) seed = unchecked(Convert.ToInt64(seed) + index);
            return (settings ?? new Options()).And(new Options {["seed"] = seed});
        }
    }
}
