using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Dllm;

/// <summary>Calls of many threads on one generator run one after another.</summary>
internal sealed class TurnsTest
{
    private const int Soon = 20, Limit = 120; // milliseconds
    private static readonly TimeSpan patience = TimeSpan.FromSeconds(30);

    private readonly Generator generator;

    private TurnsTest(Generator generator) { this.generator = generator; }

    private static RequestOptions Short(int seed = 0) =>
        new RequestOptions {Length = 8, Steps = 4, Temperature = 0.8, Seed = seed};

    /// <summary>A call that has the turn until its Dispose.</summary>
    private sealed class LongCall : IDisposable
    {
        private readonly Generator generator;
        private readonly int request;
        private readonly ManualResetEventSlim goOn = new ManualResetEventSlim();
        private readonly Task call;

        internal LongCall(Generator generator)
        {
            this.generator = generator;
            request = generator.Add("The sun", Short());
            var running = new ManualResetEventSlim();
            call = Task.Factory.StartNew(() => generator.Run(e =>
            {
                running.Set();
                goOn.Wait();
                return Answer.Continue;
            }), TaskCreationOptions.LongRunning);
            running.Wait();
        }

        public void Dispose()
        {
            goOn.Set();
            call.GetAwaiter().GetResult(); // what it throws
            if (!generator.IsDisposed) generator.Remove(request);
        }
    }

    /// <summary>What the action throws, or null. It fails when the action does not return.</summary>
    private static Exception Ended(Action action, int milliseconds)
    {
        Exception thrown = null;
        Stopwatch clock = Stopwatch.StartNew();
        Task task = Task.Factory.StartNew(() =>
        {
            try
            {
                action();
            }
            catch (Exception problem)
            {
                thrown = problem;
            }
            clock.Stop();
        }, TaskCreationOptions.LongRunning);
        Check.That(task.Wait(patience), "a call hangs");
        Check.That(clock.ElapsedMilliseconds <= milliseconds, "a call took " + clock.ElapsedMilliseconds + " ms");
        return thrown;
    }

    private string TextOf(int way, Control control = default(Control))
    {
        switch (way % 4)
        {
        case 0:
            return generator.Generate("Once there was", Short(way), control).Text;
        case 1:
            var holes = new RequestOptions {Steps = 4, Temperature = 0.8, Seed = way};
            return generator.Infill("The<mask:3> was sad. Then<mask:5> came.", holes, control).Text;
        case 2:
            IReadOnlyList<Result> results = generator.Batch(new[] {"Tom", "A cat"}, Short(way), control);
            foreach (Result result in results.Where(each => each.Error != null)) throw result.Error;
            return string.Join("|", results.Select(each => each.Generation.Text));
        default:
            return string.Concat(generator.Stream("Mia", Short(way), control).Select(piece => piece.Text));
        }
    }

    private void NoRequestIsLeft()
    {
        var problem = Check.Throws<DllmException>(() => generator.Step());
        Check.That(problem.Code == Code.FailedPrecondition, problem.ToString());
    }

    /// <summary>Adds, runs and removes a request, each in a turn of its own.</summary>
    private void RunAlone()
    {
        int request = generator.Add("The sun", Short());
        generator.Run(e => Answer.Continue);
        Check.That(generator.Generation(request).Finish == "full", "a run ended early");
        generator.Remove(request);
    }

    private void ThreadsGetTheTextsOfSequentialCalls()
    {
        string[] wanted = Enumerable.Range(0, 16).Select(way => TextOf(way)).ToArray();
        var problems = new List<Exception>();
        var threads = Enumerable.Range(0, 16).Select(way => new Thread(() =>
        {
            try
            {
                for (int round = 0; round < 3; round++)
                {
                    string text = TextOf(way);
                    Check.That(text == wanted[way], way + ": " + text + " instead of " + wanted[way]);
                    RunAlone();
                }
            }
            catch (Exception problem)
            {
                lock (problems) problems.Add(problem);
            }
        })).ToList();
        threads.ForEach(each => each.Start());
        threads.ForEach(each => Check.That(each.Join(patience), "a thread hangs"));
        Check.That(problems.Count == 0, string.Join("\n", problems));
        NoRequestIsLeft();
    }

    private Dictionary<string, Action<Control>> LongCalls()
    {
        var calls = new Dictionary<string, Action<Control>>
        {
            ["Add"] = control => generator.Add("The sun", Short(), control),
            ["Step"] = control => generator.Step(control),
            ["Run"] = control => generator.Run(null, control),
        };
        string[] names = {"Generate", "Infill", "Batch", "Stream"};
        for (int i = 0; i < names.Length; i++)
        {
            int way = i;
            calls[names[i]] = control => TextOf(way, control);
        }
        return calls;
    }

    private static void EndsWith(Code code, string name, Action<Control> call, DllmTask task)
    {
        var thrown = Ended(() => call(task), Limit) as DllmException;
        string message = code == Code.Cancelled ? "the task was cancelled" : "the task's deadline has passed";
        Check.That(thrown != null && thrown.Code == code && thrown.Message == message, name + ": " + thrown);
    }

    private void AControlEndsTheWait()
    {
        using (new LongCall(generator))
        {
            foreach (KeyValuePair<string, Action<Control>> each in LongCalls())
            {
                var source = new CancellationTokenSource(Soon);
                Exception thrown = Ended(() => each.Value(source.Token), Limit);
                Check.That(thrown is OperationCanceledException, each.Key + ": " + thrown);
                using (DllmTask cancelled = new DllmTask(), late = new DllmTask())
                {
                    late.SetDeadline(TimeSpan.FromMilliseconds(Soon));
                    EndsWith(Code.DeadlineExceeded, each.Key, each.Value, late);
                    using (new Timer(_ => cancelled.Cancel(), null, Soon, Timeout.Infinite))
                        EndsWith(Code.Cancelled, each.Key, each.Value, cancelled);
                }
            }
        }
        NoRequestIsLeft();
        Check.That(TextOf(0).Length > 0, "the generator does not go on");
    }

    private void StreamsTakeTurnsForTheirSteps()
    {
        string[] wanted = {TextOf(3), TextOf(7), TextOf(11)};
        string between = TextOf(0);
        var texts = new string[3];
        var loops = new[] {3, 7, 11}.Select(way => generator.Stream("Mia", Short(way)).GetEnumerator()).ToList();
        for (bool isOpen = true; isOpen;)
        {
            isOpen = false;
            for (int i = 0; i < loops.Count; i++)
            {
                if (!loops[i].MoveNext()) continue;
                texts[i] += loops[i].Current.Text;
                isOpen = true;
            }
            string text = null; // a half-read stream does not have the turn
            Exception thrown = Ended(() => text = TextOf(0), 10000);
            Check.That(thrown == null && text == between, text + " " + thrown);
        }
        Check.That(texts.SequenceEqual(wanted), string.Join("|", texts) + " instead of " + string.Join("|", wanted));
        loops.ForEach(loop => loop.Dispose());
        NoRequestIsLeft();
    }

    /// <summary>A run to the end with a callback takes the texts of all requests.</summary>
    private void ALoopKeepsTheTextsOfAnotherRun()
    {
        string wanted = TextOf(3), text = "";
        foreach (Piece piece in generator.Stream("Mia", Short(3)))
        {
            text += piece.Text;
            generator.Run(e => Answer.Continue);
        }
        Check.That(text == wanted, text + " instead of " + wanted);
    }

    private void TheEndOfALoopDoesNotWait()
    {
        IEnumerator<Piece> loop = generator.Stream("Mia", Short()).GetEnumerator();
        Check.That(loop.MoveNext(), "no piece");
        using (new LongCall(generator)) Check.That(Ended(loop.Dispose, 100) == null, "the end of a loop");
        NoRequestIsLeft();
    }

    private void ACallInsideOfACallback()
    {
        int request = generator.Add("The sun", Short()), events = 0;
        Action run = () => generator.Run(e =>
        {
            events++;
            Check.That(generator.Text(request, "canvas").Length > 0, "Text");
            Check.That(generator.Generation(request).Text != null, "Generation");
            foreach (KeyValuePair<string, Action<Control>> each in LongCalls())
                Check.That(Check.Throws<DllmException>(() => each.Value(default(Control))).Code == Code.FailedPrecondition,
                           each.Key);
            return Answer.Continue;
        });
        Exception thrown = Ended(run, 10000);
        Check.That(thrown == null && events > 0, events + " events, " + thrown);
        generator.Remove(request);
        NoRequestIsLeft();
    }

    private void ADisposeEndsTheWait()
    {
        var calls = LongCalls().Values.Concat(
            new Action<Control>[] {_ => generator.Text(0), _ => generator.Describe(), _ => generator.Remove(0)}).ToList();
        using (new LongCall(generator))
        {
            var waiting = calls.Select(call => Task.Factory.StartNew(
                () => Ended(() => call(default(Control)), 1000), TaskCreationOptions.LongRunning)).ToArray();
            Thread.Sleep(Soon);
            Check.That(Ended(generator.Dispose, 100) == null, "Dispose");
            Check.That(Task.WaitAll(waiting, patience), "a call waits for a disposed generator");
            foreach (Task<Exception> each in waiting)
                Check.That(each.Result is ObjectDisposedException, "not disposed: " + each.Result);
        }
        Check.Throws<ObjectDisposedException>(() => TextOf(0));
    }

    internal static void Run(Generator shared)
    {
        var test = new TurnsTest(new Generator(shared.Model(), shared.Tokenizer()));
        test.ThreadsGetTheTextsOfSequentialCalls();
        test.AControlEndsTheWait();
        test.StreamsTakeTurnsForTheirSteps();
        test.ALoopKeepsTheTextsOfAnotherRun();
        test.TheEndOfALoopDoesNotWait();
        test.ACallInsideOfACallback();
        test.ADisposeEndsTheWait();
    }
}
