using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;
using Dllm;

/// <summary>The ten points of ../scenario.md, and the hashes of ../tokens.txt.</summary>
internal static class Scenario
{
    private static readonly List<string> hashes = new List<string>();

    private static void Remember(string name, int[] ids)
    {
        ulong hash = 0xcbf29ce484222325;
        foreach (byte part in ids.SelectMany(id => new[] {(byte)id, (byte)(id >> 8), (byte)(id >> 16), (byte)(id >> 24)}))
            hash = unchecked((hash ^ part) * 0x100000001b3);
        hashes.Add(name + " " + hash.ToString("x16"));
    }

    private static void Version(Tiny tiny)
    {
        Check.That(Library.AbiVersion == 1 && Library.Version.Split('.').Length == 3, Library.Version);
        Check.That(Library.Names("objective").Contains("mdlm"), "no objective mdlm");
    }

    private static void Option(Tiny tiny)
    {
        var problem = Check.Throws<DllmException>(() => new Decoder(tiny.Model, new Options {["stepz"] = 4}));
        Check.That(problem.Code == Code.NotFound && problem.Message.Contains("stepz"), problem.ToString());
        Check.That(problem.Hint.Contains("steps"), problem.Hint);
    }

    private static void Load(Tiny tiny)
    {
        string folder = Path.Combine(Path.GetTempPath(), "dllm_" + Guid.NewGuid());
        try
        {
            tiny.Model.Save(folder);
            using (Model loaded = Model.Load(folder, tiny.Engine))
                foreach (string name in loaded.ParamNames)
                    using (Tensor mine = tiny.Model.Param(name), saved = loaded.Param(name))
                        Check.That(mine.Bytes().SequenceEqual(saved.Bytes()), name + " differs");
            var problem = Check.Throws<DllmException>(() => Model.Load(Path.Combine(folder, "nowhere"), tiny.Engine));
            Check.That(problem.Code == Code.NotFound && problem.Message.Contains("nowhere"), problem.ToString());
        }
        finally
        {
            Directory.Delete(folder, true);
        }
    }

    private static void Encode(Tiny tiny)
    {
        const string text = "the cat sat on the möön";
        Check.That(tiny.Tokenizer.Decode(tiny.Tokenizer.Encode(text)) == text, text + " changed");
        Remember("encode", tiny.Tokenizer.Encode("the cat sat on the mat"));
        GrowAnswer(tiny);
    }

    // Shows a text while it is decided, up to a stop text.
    private static void GrowAnswer(Tiny tiny)
    {
        const string text = "the cät sat. User: no";
        int[] ids = tiny.Tokenizer.Encode(text);
        using (var answer = new AnswerText(tiny.Tokenizer, new Options {["stop_texts"] = new[] {". User:"}}))
        {
            var states = new State[ids.Length];
            var end = AnswerEnd.Open;
            string shown = "";
            for (int i = 0; end == AnswerEnd.Open; i++)
            {
                states[i] = State.Final;
                end = answer.Update(ids, states);
                shown += answer.Next();
            }
            Check.That(end == AnswerEnd.StopText && shown == "the cät sat" && answer.Read() == shown, shown);
            answer.Update(ids, Array.ConvertAll(states, state => State.Final));
            Check.That(answer.Cells().Length == ids.Length && string.Concat(answer.Cells()) == text, "cells");
        }
    }

    private static void DecodeTwice(Tiny tiny, string name, double temperature)
    {
        int steps = 0;
        using (Decoder pushed = tiny.Decoder(temperature), pulled = tiny.Decoder(temperature))
        {
            pushed.Run(e =>
            {
                if (e.Kind == EventKind.DecodeStep) steps++;
                return Answer.Continue;
            });
            Check.That(steps > 1 && pulled.Steps().Last() == 0, steps + " steps");
            Check.That(pushed.Ids().SequenceEqual(pulled.Ids()), "Run and Steps differ");
            Remember(name, pushed.Ids());
        }
    }

    private static void Decode(Tiny tiny) => DecodeTwice(tiny, "fresh", 0);

    private static void Train(Tiny tiny)
    {
        var losses = new List<double>();
        using (var objective = new Objective("mdlm"))
        using (var trainer = new Trainer(tiny.Model, objective, new Options {["lr"] = 3e-3}))
            trainer.Run(tiny.Loader, 10, e =>
            {
                if (e.Kind == EventKind.TrainStep) losses.Add(e.Float("loss"));
                return Answer.Continue;
            });
        Check.That(losses.Count == 10 && losses[9] < losses[0], string.Join(" ", losses));
        DecodeTwice(tiny, "trained", 0.8);
    }

    private static void Cancel(Tiny tiny)
    {
        using (var trainer = new Trainer(tiny.NewModel(), new Objective("mdlm")))
        using (var source = new CancellationTokenSource())
        using (var started = new ManualResetEventSlim())
        {
            var other = new Thread(() =>
            {
                started.Wait();
                source.Cancel();
            });
            other.Start();
            var ended = Check.Throws<OperationCanceledException>(() => trainer.Run(tiny.Loader, 1000000, e =>
            {
                started.Set();
                return Answer.Continue;
            }, source.Token));
            other.Join();
            Check.That(ended.CancellationToken == source.Token, "another token");
            Check.That(((DllmException)ended.InnerException).Code == Code.Cancelled, ended.ToString());
            double before = trainer.Metric("step");
            trainer.Run(tiny.Loader, 1);
            Check.That(trainer.Metric("step") == before + 1, "the trainer does not go on");
        }
    }

    private static void Callback(Tiny tiny)
    {
        var mine = new KeyNotFoundException("mine");
        using (Decoder decoder = tiny.Decoder())
        {
            Check.That(Check.Throws<KeyNotFoundException>(() => decoder.Run(e => { throw mine; })) == mine, "another one");
            decoder.Run();
            Check.That(decoder.Metric("open") == 0, "the decoder does not go on");
        }
    }

    private static void Close(Tiny unused)
    {
        var tiny = new Tiny();
        Decoder decoder = tiny.Decoder();
        tiny.Engine.Dispose();
        tiny.Model.Dispose();
        decoder.Run();
        decoder.Dispose();
        decoder.Dispose();
        Check.That(decoder.IsDisposed, "still open");
        Check.Throws<ObjectDisposedException>(() => decoder.Step());
        Check.Throws<ObjectDisposedException>(() => tiny.Decoder());
        Check.Throws<ObjectDisposedException>(() => tiny.Model.ParamNames.Count());
    }

    private static long Resident() =>
        long.Parse(File.ReadAllText("/proc/self/statm").Split(' ')[1]) * Environment.SystemPageSize;

    private static void Thousand(Tiny tiny)
    {
        Action<int> make = count =>
        {
            for (int i = 0; i < count; i++)
            {
                using (var batch = new Batch()) batch.Set("ids", new[] {i % 100, 1, 2}, 1, 3);
                using (new DllmTask()) {}
                using (new Decoder(tiny.Model)) {}
            }
        };
        make(50);
        long before = Resident();
        make(1000);
        Check.That(Resident() - before < 20 << 20, "memory grew by " + (Resident() - before) + " bytes");
    }

    private static int Main()
    {
        var tiny = new Tiny();
        var points = new Action<Tiny>[] {Version, Option, Load, Encode, Decode, Train, Cancel, Callback, Close, Thousand};
        for (int i = 0; i < points.Length; i++)
        {
            points[i](tiny);
            Console.WriteLine("point {0} {1} ok", i + 1, points[i].Method.Name.ToLowerInvariant());
        }
        hashes.ForEach(Console.WriteLine);
        return 0;
    }
}
