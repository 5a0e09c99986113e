using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Threading;
using Dllm;

namespace UnityEngine
{
    /// <summary>What DecodedText needs of Unity: the frames are the test's.</summary>
    public class MonoBehaviour
    {
        public void Send(string message) =>
            GetType().GetMethod(message, BindingFlags.Instance | BindingFlags.NonPublic).Invoke(this, null);
    }
}

/// <summary>What C# has besides the scenario: tokens, enumerators, finalizers, options, threads, a Unity component.</summary>
internal static class Native
{
    private static readonly Tiny tiny = new Tiny();

    private static void StepsMayBeLeft()
    {
        using (Decoder whole = tiny.Decoder(), left = tiny.Decoder(), sliced = tiny.Decoder())
        {
            whole.Run();
            foreach (int active in left.Steps()) break;
            left.Steps().Count();
            while (sliced.StepFor(TimeSpan.Zero) > 0) {}
            Check.That(left.Ids().SequenceEqual(whole.Ids()) && sliced.Ids().SequenceEqual(whole.Ids()), "other tokens");
            Check.That(whole.States().All(s => s == State.Final || s == State.Fixed), "open positions");
            Check.That(whole.Confidence().Length == whole.Ids().Length, "confidence");
        }
    }

    private static void ATokenEndsACall()
    {
        using (var trainer = new Trainer(tiny.NewModel(), new Objective("mdlm")))
        {
            var late = new CancellationTokenSource(50);
            Check.Throws<OperationCanceledException>(() => trainer.Run(tiny.Loader, 1000000, null, late.Token));
            Check.Throws<OperationCanceledException>(() => trainer.Eval(tiny.Loader, 1, late.Token));
            using (var task = new DllmTask())
            {
                task.SetDeadline(TimeSpan.FromMilliseconds(30));
                var ended = Check.Throws<DllmException>(() => trainer.Run(tiny.Loader, 1000000, null, task));
                Check.That(ended.Code == Code.DeadlineExceeded, ended.ToString());
                long done, total;
                task.Progress(out done, out total);
                Check.That(total == 1000000 && done < total, done + " of " + total);
            }
            Check.That(trainer.Steps(tiny.Loader, 2).All(loss => loss > 0), "a loss");
        }
    }

    private static void EventsEndWithTheirCallback()
    {
        Event kept = null;
        using (Decoder decoder = tiny.Decoder())
        {
            decoder.Run(e =>
            {
                kept = e;
                Check.That(e.Kind != EventKind.DecodeStep || e.Ints("ids").Length == e.Floats("confidence").Length, "ids");
                Check.That(e.Ints("nothing") == null && e.Describe().StartsWith("{"), "keys");
                Check.Throws<DllmException>(() => e.Int("nothing"));
                return Answer.Stop;
            });
            Check.Throws<ObjectDisposedException>(() => kept.Int("step"));
            var deep = Check.Throws<InvalidOperationException>(
                () => decoder.Run(e => { throw new InvalidOperationException("thrown"); }));
            Check.That(deep.StackTrace.Contains("Dispatch"), "the stack of the callback is lost: " + deep.StackTrace);
        }
    }

    private static void DisposeInACallOfItsOwn()
    {
        Decoder decoder = tiny.Decoder();
        decoder.Run(e =>
        {
            decoder.Dispose();
            return Answer.Continue;
        });
        Check.Throws<ObjectDisposedException>(() => decoder.Metric("open"));
    }

    private static void ThreadsShareAModel()
    {
        Decoder one = tiny.Decoder();
        one.Run();
        int[] wanted = one.Ids();
        var problems = new List<Exception>();
        var threads = Enumerable.Range(0, 4).Select(_ => new Thread(() =>
        {
            try
            {
                using (Decoder decoder = tiny.Decoder())
                {
                    decoder.Run();
                    Check.That(decoder.Ids().SequenceEqual(wanted), "other tokens");
                    Check.Throws<DllmException>(() => decoder.Metric("nothing"));
                }
            }
            catch (Exception problem)
            {
                lock (problems) problems.Add(problem);
            }
        })).ToList();
        threads.ForEach(t => t.Start());
        threads.ForEach(t => t.Join());
        Check.That(problems.Count == 0, string.Join("\n", problems));
    }

    private static void TheLogGoesToAFunction()
    {
        var lines = new List<string>();
        // Training widens weights in blocks, and says so.
        Action widened = () =>
        {
            using (Model model = tiny.NewModel(new Options {["dtype"] = "q8_0"}))
            using (var objective = new Objective("mdlm"))
            using (new Trainer(model, objective)) {}
        };
        Log.To((level, line) =>
        {
            lines.Add(level + " " + line);
            throw new InvalidOperationException("dropped");
        }, LogLevel.Warn);
        widened();
        Log.To(LogSink.None);
        widened();
        Check.That(lines.Count == 1 && lines[0].StartsWith("Warn ") && lines[0].Contains("q8_0"), string.Join("\n", lines));
    }

    private static void ArraysAndOptions()
    {
        using (var batch = new Batch())
        {
            batch.Set("ids", new[] {1, 2, 3, 4, 5, 6}, 2, 3);
            Check.That(batch.Read<int>("ids").Sum() == 21 && batch.Array("ids").Shape.SequenceEqual(new long[] {2, 3}), "ids");
            Check.That(batch.Names.Single() == "ids", "names");
            Check.Throws<ArgumentException>(() => batch.Set("ids", new[] {1, 2}, 3, 3));
            Check.Throws<ArgumentException>(() => batch.Set("ids", new[] {'a'}));
            using (Batch logits = tiny.Model.Forward(batch)) Check.That(logits.Read<float>("logits").Length > 6, "logits");
        }
        using (Tensor numbers = Tensor.Of(new[] {1.5f, 2.5f})) Check.That(numbers.Read<double>()[1] == 2.5, "numbers");
        double[] alpha, dalpha, weight;
        new Schedule("linear").Eval(new[] {0.25}, out alpha, out dalpha, out weight);
        Check.That(Math.Abs(alpha[0] - 0.75) < 1e-6, "alpha");
        new Schedule(new[] {0.0, 1.0}, new[] {1.0, 0.0}).Eval(new[] {0.25}, out alpha, out dalpha, out weight);
        Check.That(Math.Abs(alpha[0] - 0.75) < 1e-6, "alpha of a table");
        string all = new Options {["steps"] = 3, ["temperature"] = 0.1f}.Effective("decoder");
        Check.That(all.Contains("\"steps\":3") || all.Contains("\"steps\": 3"), all);
        Check.Throws<ArgumentException>(() => tiny.Tokenizer.Id("a\0b"));
        foreach (string policy in Library.Names("policy").Except(new[] { "cola", "diffusion_gemma", "editflow", "embedding", "latent" }))
            using (var decoder = new Decoder(tiny.Model, new Options {["policy"] = policy, ["gen_length"] = 4}))
                decoder.Start(new[] {1, 2});
    }

    private static void AdaptersOfAModel() => AdapterTest.Run(tiny);

    private static void ScriptsSeeObjects()
    {
        if (!Library.HasFeature("lua")) return;
        using (var lua = new Lua())
        {
            lua.Set("n", new Options {["a"] = new[] {1, 2, 3}});
            lua.Set("words", Dataset.Of(new[] {"one", "two"}));
            Check.That(lua.RunText("return n.a[3], words:size()").Replace(" ", "") == "[3,2]", "values");
            var problem = Check.Throws<DllmException>(() => lua.RunText("error 'no'", "mine"));
            Check.That(problem.Code == Code.ScriptFailed && problem.Message.Contains("mine"), problem.ToString());
        }
    }

    private static long Resident() =>
        long.Parse(File.ReadAllText("/proc/self/statm").Split(' ')[1]) * Environment.SystemPageSize;

    private static void FinalizersRelease()
    {
        long before = 0;
        for (int round = 0; round < 40; round++)
        {
            for (int i = 0; i < 20; i++) Tensor.Of(new float[100000]); // 8 MB that only finalizers release
            GC.Collect();
            GC.WaitForPendingFinalizers();
            if (round == 5) before = Resident();
        }
        Check.That(Resident() - before < 100 << 20, "memory grew by " + (Resident() - before) + " bytes");
    }

    private static void AComponentOfAGame()
    {
        string folder = Path.Combine(Path.GetTempPath(), "dllm_" + Guid.NewGuid());
        tiny.Model.SetTokenizer(tiny.Tokenizer);
        tiny.Model.Save(folder);
        var text = new DecodedText {modelPath = folder, budget = 0.05f, steps = 12, length = 24};
        string finished = null;
        text.Finished += final => finished = final;
        text.Send("Awake");
        text.Say("the cat", 7);
        int frames = 0;
        for (; text.IsBusy; frames++) text.Send("Update");
        text.Send("Update");
        text.Send("OnDestroy");
        Directory.Delete(folder, true);
        using (var decoder = new Decoder(tiny.Model, new Options {["steps"] = 12, ["gen_length"] = 24}))
        {
            int[] prompt = tiny.Tokenizer.Encode("the cat");
            decoder.Start(prompt, 7);
            decoder.Run();
            string wanted = tiny.Tokenizer.Decode(decoder.Ids().Skip(prompt.Length).ToArray());
            Check.That(frames > 1 && finished == wanted && text.Text == wanted, frames + " frames: " + finished);
        }
    }

    private static void Overhead()
    {
        const int calls = 200000;
        Library.AbiVersion.ToString();
        using (Decoder decoder = tiny.Decoder())
        {
            decoder.Metric("open");
            Stopwatch clock = Stopwatch.StartNew();
            for (int i = 0; i < calls; i++) Check.That(Library.AbiVersion == 1, "ABI");
            double version = clock.Elapsed.TotalMilliseconds * 1e6 / calls;
            clock.Restart();
            for (int i = 0; i < calls; i++) decoder.Metric("open");
            double metric = clock.Elapsed.TotalMilliseconds * 1e6 / calls;
            Console.WriteLine("ns per call: AbiVersion {0:0}, Decoder.Metric {1:0}", version, metric);
        }
    }

    private static int Main()
    {
        var tests = new Action[] {StepsMayBeLeft, ATokenEndsACall, EventsEndWithTheirCallback, DisposeInACallOfItsOwn,
                                  ThreadsShareAModel, TheLogGoesToAFunction, ArraysAndOptions, AdaptersOfAModel,
                                  ScriptsSeeObjects, FinalizersRelease, AComponentOfAGame, Overhead};
        foreach (Action test in tests)
        {
            test();
            Console.WriteLine("ok " + test.Method.Name);
        }
        return 0;
    }
}
