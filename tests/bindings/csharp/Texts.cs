using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Dllm;

/// <summary>Text in and text out. The argument is the root of the checkout. The file that DLLM_CASES names has a line a
/// text, as texts.py writes it: name, call, text, what is expected, and settings as NAME=TYPE:VALUE.</summary>
internal static class Texts
{
    private static Generator generator;
    private static string root;

    private static RequestOptions Short() => new RequestOptions {Length = 8, Steps = 4};

    private static string Unescaped(string text) => Uri.UnescapeDataString(text);

    private static object Value(string text)
    {
        string value = Unescaped(text.Substring(2));
        if (text[0] == 'i') return long.Parse(value);
        if (text[0] == 'f') return double.Parse(value, System.Globalization.CultureInfo.InvariantCulture);
        return text[0] == 'l' ? (object)value.Split('\n') : value;
    }

    /// <summary>The texts that every language must generate.</summary>
    private static void GeneratedTexts()
    {
        string[] cases = File.ReadAllLines(Environment.GetEnvironmentVariable("DLLM_CASES"));
        Check.That(cases.Length >= 8, cases.Length + " cases");
        foreach (string[] words in cases.Select(line => line.Split('\t')))
        {
            var settings = new Options();
            foreach (string[] pair in words.Skip(4).Select(word => word.Split('='))) settings[pair[0]] = Value(pair[1]);
            string text = Unescaped(words[2]), expected = Unescaped(words[3]);
            Prompt prompt = words[1] == "infill" ? Prompt.Infill(text) : text;
            Generation made = generator.Generate(prompt, settings);
            Check.That(made.Whole == expected, words[0] + ": " + made.Whole);
            Pieces pieces = generator.Stream(prompt, settings);
            Check.That(string.Concat(pieces.Select(piece => piece.Text)) == made.ToString(), words[0] + ": other pieces");
            Check.That(pieces.Generation.Whole == expected, words[0] + ": " + pieces.Generation.Whole);
        }
    }

    private static void WhatAGenerationHas()
    {
        Generation made = generator.Generate("Once upon a time", new RequestOptions {Length = 8, Steps = 4, Seed = -3});
        Check.That(made.Finish == "full" && made.Policy == "low_confidence" && made.Seed == -3, made.Finish + made.Policy);
        Check.That(made.CompletionTokens == 8 && made.Steps == 4 && made.Nfe == 4 && made.Open == 0, "numbers");
        Check.That(made.Whole == "Once upon a time" + made.Text && made.Ids.Count == made.PromptTokens + 8, made.Whole);
        Check.That(made.Confidence.Count == made.Ids.Count && made.Holes.Count == 0, "positions");
        Check.That(generator.Infill("The<mask:3> was sad. Then<mask:5> came.").Holes.Count == 2, "holes");
    }

    private static void NoRequestIsLeft()
    {
        var problem = Check.Throws<DllmException>(() => generator.Step());
        Check.That(problem.Code == Code.FailedPrecondition, problem.ToString());
    }

    private static void ALoopIsLeftEarly()
    {
        Pieces pieces = generator.Stream("Once upon a time", Short());
        Check.That(pieces.Generation == null, "a generation before the loop");
        foreach (Piece piece in pieces)
        {
            Check.That(piece.Step == 1 && piece.Open == 6 && piece.Canvas.Contains("<mask"), piece.Canvas);
            break;
        }
        Check.That(pieces.Generation.Finish == "open", pieces.Generation.Finish);
        NoRequestIsLeft();
    }

    /// <summary>What `await foreach` of C# 8 does.</summary>
    private static async Task<string> Read(IAsyncEnumerable<Piece> pieces, CancellationToken token)
    {
        string text = "";
        IAsyncEnumerator<Piece> each = pieces.GetAsyncEnumerator(token);
        try
        {
            while (await each.MoveNextAsync()) text += each.Current.Text;
        }
        finally
        {
            await each.DisposeAsync();
        }
        return text;
    }

    private static void AnAsynchronousLoop()
    {
        Pieces pieces = generator.Stream("Once upon a time", Short());
        string text = Read(pieces, CancellationToken.None).GetAwaiter().GetResult();
        Check.That(text == pieces.Generation.Text && text == generator.Generate("Once upon a time", Short()).Text, text);
        var ended = new CancellationTokenSource();
        ended.Cancel();
        Check.Throws<OperationCanceledException>(() => Read(pieces, ended.Token).GetAwaiter().GetResult());
        NoRequestIsLeft();
    }

    private static void OneFailedPromptLeavesTheOthers()
    {
        var prompts = new Prompt[] {"The sun", Prompt.Infill("no hole <mask:x>"), "A cat"};
        IReadOnlyList<Result> results = generator.Batch(prompts, Short().And(new RequestOptions {Seed = 5}));
        Check.That(((DllmException)results[1].Error).Code == Code.InvalidArgument, results[1].Error.ToString());
        for (int i = 0; i < 3; i += 2)
        {
            Generation alone = generator.Generate(prompts[i], Short().And(new RequestOptions {Seed = 5 + i}));
            Check.That(results[i].Error == null && results[i].Generation.Text == alone.Text, alone.Text);
        }
        Check.Throws<FormatException>(
            () => generator.Batch(new[] {"1", "x"}.Select(text => int.Parse(text).ToString()), Short()));
        Check.That(generator.Batch(new string[0]).Count == 0, "no prompts");
        NoRequestIsLeft();
    }

    /// <summary>A request in which no token may be drawn fails in its first step.</summary>
    private static void ARequestThatFailsInAStep()
    {
        var none = new RequestOptions {Suppress = Enumerable.Range(0, generator.Tokenizer().Count).ToArray()};
        int bad = generator.Add("The sun", Short().And(none)), good = generator.Add("The sun", Short());
        int texts = 0, answers = 0;
        generator.Run(e =>
        {
            if (e.Kind == EventKind.Text) texts++;
            if (e.Kind == EventKind.Answer) answers++;
            return Answer.Continue;
        });
        Check.That(texts >= 4 && answers == 2, texts + " texts, " + answers + " answers");
        Check.Throws<DllmException>(() => generator.Generation(bad));
        Check.That(generator.Generation(good).Finish == "full", "the other request");
        generator.Remove(bad);
        generator.Remove(good);
        Check.Throws<DllmException>(() => generator.Stream("The sun", Short().And(none)).Count());
        NoRequestIsLeft();
    }

    private static void MorePromptsThanSlots()
    {
        var small = new Generator(generator.Model(), generator.Tokenizer(), new GeneratorOptions {Slots = 2});
        string[] prompts = {"One", "Two", "Three", "Four", "Five"};
        IReadOnlyList<Result> few = small.Batch(prompts, Short()), many = generator.Batch(prompts, Short());
        for (int i = 0; i < prompts.Length; i++)
            Check.That(few[i].Generation.Text == many[i].Generation.Text, prompts[i]);
        small.Dispose();
        small.Dispose();
        Check.Throws<ObjectDisposedException>(() => small.Generate("One"));
    }

    private static void Settings()
    {
        var wrong = Check.Throws<DllmException>(() => generator.Generate("The sun", new Options {["temprature"] = 1}));
        Check.That(wrong.Code == Code.NotFound && wrong.Hint.Contains("temperature"), wrong.ToString());
        Generation typed = generator.Generate("The sun", Short().And(new ThresholdPolicy {Threshold = 0.5}));
        Generation plain = generator.Generate("The sun", new Options {["length"] = 8, ["steps"] = 4,
                                                                      ["policy"] = "threshold", ["threshold"] = 0.5});
        Check.That(typed.Policy == "threshold" && typed.Text == plain.Text, typed.Text);
        var some = new RequestOptions {Length = 8, Stop = new[] {"\n"}};
        Check.That(some.Length == 8 && some.Steps == null && some.Stop.Count == 1, "properties");
        some.Length = null;
        Check.That(!some.ContainsKey("length"), "a property that is null keeps its default");
        string path = Path.Combine(root, "scripts/recipes/stories.gguf");
        var one = new EngineOptions {Threads = 1};
        foreach (object engine in new object[] {new Engine(one), one})
        {
            Options settings = new ModelOptions {Dtype = "f32"}.And(new GeneratorOptions {Policy = "random"});
            using (Generator loaded = Generator.Load(path, settings.And(new Options {["engine"] = engine})))
                Check.That(loaded.Generate("The sun", Short()).Policy == "random", "the policy of the generator");
        }
        Check.Throws<ArgumentException>(() => Generator.Load(path, new Options {["engine"] = 3}));
        foreach (string[] words in new[] {new[] {"polcy", "did you mean policy?"}, new[] {"dtpe", "did you mean dtype?"},
                                          new[] {"xyz", "dtype, engine, heads"}})
        {
            var settings = new Options {[words[0]] = "random"};
            var unknown = Check.Throws<DllmException>(() => Generator.Load(path, settings));
            Check.That(unknown.Code == Code.NotFound && unknown.Hint.Contains(words[1]), unknown.ToString());
        }
        Check.Throws<ArgumentNullException>(() => generator.Generate((string)null));
    }

    private static void Refused(string message, Prompt prompt, Options settings = null)
    {
        var problem = Check.Throws<DllmException>(() => generator.Generate(prompt, settings));
        Check.That(problem.Code == Code.InvalidArgument && problem.Message == message, problem.ToString());
    }

    private static void WhatJsonCannotHoldIsNamed()
    {
        const string half = "a\U0001F600b\ud800";
        Refused("temperature is NaN: write a finite number", "a", new RequestOptions {Temperature = double.NaN});
        Refused("top_p is -Infinity: write a finite number", "a", new Options {["top_p"] = float.NegativeInfinity});
        Refused("stop, item 2: a lone surrogate at character 4", "a", new RequestOptions {Stop = new[] {"x", half}});
        Refused("variables, a, item 2 is NaN: write a finite number", "a",
                new Options {["variables"] = new Options {["a"] = new[] {1, double.NaN}}});
        Refused("prompt: a lone surrogate at character 4", half);
        Refused("message 2, content: a lone surrogate at character 4", new[] {new Message("user", "Hi"), new Message("user", half)});
        var config = new Options {["dllm"] = new Options {["shift"] = double.NaN}};
        var wrong = Check.Throws<DllmException>(() => Model.Create(config));
        Check.That(wrong.Message == "dllm, shift is NaN: write a finite number", wrong.ToString());
        NoRequestIsLeft();
    }

    /// <summary>On a thread of its own no register refers to the loop any more.</summary>
    private static void LeaveALoop()
    {
        var thread = new Thread(() => generator.Stream("Once", Short()).GetEnumerator().MoveNext());
        thread.Start();
        thread.Join();
    }

    private static void ALoopThatIsForgotten()
    {
        for (int i = 0; i < 8; i++) LeaveALoop();
        GC.Collect();
        GC.WaitForPendingFinalizers();
        generator.Generate("Mia", Short()); // removes what the collector found
        string left = generator.Describe();
        Check.That(left.Contains("\"requests\": 0") || left.Contains("\"requests\":0"), left);
    }

    private static void Conversations()
    {
        var hello = new[] {new Message("user", "Hi \"you\"")};
        var refused = Check.Throws<DllmException>(() => generator.Generate(hello));
        Check.That(refused.Code == Code.FailedPrecondition, refused.ToString());
        const string template = "{% for m in messages %}{{ m.content }}{% endfor %}";
        Generation made = generator.Generate(hello, Short().And(new RequestOptions {Template = template}));
        Check.That(made.Whole.StartsWith("Hi \"you\""), made.Whole);
    }

    private static void ATokenCancels()
    {
        var source = new CancellationTokenSource();
        var pieces = new List<Piece>();
        Check.Throws<OperationCanceledException>(() =>
        {
            foreach (Piece piece in generator.Stream("Once", new RequestOptions {Length = 64}, source.Token))
            {
                pieces.Add(piece);
                source.Cancel();
            }
        });
        Check.That(pieces.Count == 1, pieces.Count + " pieces");
        foreach (Result result in generator.Batch(new[] {"a", "b"}, Short(), source.Token))
            Check.That(result.Error is OperationCanceledException, "a batch is cancelled");
        NoRequestIsLeft();
        Check.Throws<DllmException>(() => generator.Decoder().Start(new[] {1}));
    }

    private static void CallsOfManyThreads() => TurnsTest.Run(generator);

    private static void RequestsOfManyThreads() => QueueTest.Run(generator, root);

    private static int Main(string[] words)
    {
        root = words[0];
        generator = Generator.Load(Path.Combine(root, "scripts/recipes/stories.gguf"));
        var tests = new Action[] {GeneratedTexts, WhatAGenerationHas, ALoopIsLeftEarly, AnAsynchronousLoop,
                                  OneFailedPromptLeavesTheOthers, ARequestThatFailsInAStep, MorePromptsThanSlots, Settings,
                                  Conversations, ATokenCancels, WhatJsonCannotHoldIsNamed, ALoopThatIsForgotten,
                                  RequestsOfManyThreads, CallsOfManyThreads};
        foreach (Action test in tests)
        {
            test();
            Console.WriteLine("ok " + test.Method.Name);
        }
        return 0;
    }
}
