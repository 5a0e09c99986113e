using System;
using System.IO;
using System.Linq;
using Dllm;

/// <summary>LoRA adapters: added, trained, saved, loaded, scaled, merged, removed.</summary>
internal sealed class AdapterTest
{
    /// <summary>Two matrices of 64 x 64.</summary>
    private static readonly AdapterOptions rankTwo =
        new AdapterOptions {Rank = 2, Targets = new[] {"q", "v"}, Layers = new[] {"1"}};

    private readonly Model model;
    private readonly string folder;
    private float[] plain, trained;

    private AdapterTest(Model model, string folder)
    {
        this.model = model;
        this.folder = folder;
    }

    private float[] Logits()
    {
        using (var batch = new Batch())
        {
            batch.Set("ids", new[] {5, 6, 7, 8, 9, 10}, 1, 6);
            using (Batch result = model.Forward(batch)) return result.Read<float>("logits");
        }
    }

    private static float Distance(float[] a, float[] b) => a.Zip(b, (x, y) => Math.Abs(x - y)).Max();

    private string Listed() => string.Join("; ", model.Adapters().Select(each => string.Join(" ", new object[] {
        each.Name, each.Rank, each.Alpha, each.Rslora, each.Scale, each.Modules, each.Params, each.Bytes})));

    private void IsListed(string wanted)
    {
        string listed = Listed();
        Check.That(listed == wanted, listed + " instead of " + wanted);
    }

    private static void Fails(Code code, Action action)
    {
        var problem = Check.Throws<DllmException>(action);
        Check.That(problem.Code == code, code + " instead of " + problem);
    }

    private void AddAndList()
    {
        IsListed("");
        model.AddAdapter("b", rankTwo);
        model.AddAdapter("a", new AdapterOptions {Rank = 3, Alpha = 4.5, Rslora = true, Targets = new[] {"q"}});
        const string both = "b 2 4 False 1 2 512 2048; a 3 4.5 True 1 2 768 3072";
        IsListed(both);
        Fails(Code.AlreadyExists, () => model.AddAdapter("b", rankTwo));
        Fails(Code.NotFound, () => model.AddAdapter("c", new AdapterOptions {Targets = new[] {"no_such"}}));
        Fails(Code.Unimplemented, () => model.AddAdapter("c", new AdapterOptions {Targets = new[] {"embed_tokens"}}));
        Fails(Code.NotFound, () => model.AddAdapter("c", new Options {["rnk"] = 2}));
        Fails(Code.InvalidArgument, () => model.AddAdapter("c/d", rankTwo));
        IsListed(both);
        model.MergeAdapter();
        IsListed("");
    }

    private void Train(Loader loader)
    {
        plain = Logits();
        model.AddAdapter(settings: rankTwo);
        Check.That(Logits().SequenceEqual(plain), "a new adapter changes results");
        using (var objective = new Objective("mdlm"))
        using (var trainer = new Trainer(model, objective, new Options {["lr"] = 0.02, ["warmup"] = 0}))
            trainer.Run(loader, 4);
        trained = Logits();
        Check.That(Distance(trained, plain) > 1e-5, "the training changes nothing");
    }

    private void Save()
    {
        using (var task = new DllmTask())
        {
            model.SaveAdapter(Path.Combine(folder, "adapter"), control: task);
            long done, total;
            task.Progress(out done, out total);
            Check.That(total >= 2048 && done == total, done + " of " + total + " bytes");
        }
        Fails(Code.AlreadyExists, () => model.SaveAdapter(Path.Combine(folder, "adapter")));
    }

    /// <summary>Wrong names and a cancelled task change nothing.</summary>
    private void FailedCalls()
    {
        string before = Listed(), saved = Path.Combine(folder, "adapter"), none = Path.Combine(folder, "none");
        const string wrong = "defautl";
        Fails(Code.NotFound, () => model.SaveAdapter(none, wrong));
        Fails(Code.NotFound, () => model.LoadAdapter(none, "other"));
        Fails(Code.AlreadyExists, () => model.LoadAdapter(saved));
        Fails(Code.NotFound, () => model.MergeAdapter(wrong));
        Fails(Code.NotFound, () => model.MergeAdapter(""));
        Fails(Code.NotFound, () => model.RemoveAdapter(wrong));
        Fails(Code.NotFound, () => model.SetAdapterScale(1, wrong));
        Fails(Code.InvalidArgument, () => model.SetAdapterScale(double.NaN));
        Check.That(Check.Throws<DllmException>(() => model.RemoveAdapter(wrong)).Hint.Contains("default"), "no hint");
        using (var cancelled = new DllmTask())
        {
            cancelled.Cancel();
            Fails(Code.Cancelled, () => model.AddAdapter("other", rankTwo, cancelled));
            Fails(Code.Cancelled, () => model.LoadAdapter(saved, "other", cancelled));
            Fails(Code.Cancelled, () => model.SaveAdapter(none, control: cancelled));
            Fails(Code.Cancelled, () => model.MergeAdapter(control: cancelled));
        }
        IsListed(before);
        Check.That(before == "default 2 4 False 1 2 512 2048" && Logits().SequenceEqual(trained), before);
    }

    private void LoadAndMerge()
    {
        model.RemoveAdapter();
        IsListed("");
        Check.That(Logits().SequenceEqual(plain), "a removed adapter changes results");
        model.AddNetwork(model);
        Fails(Code.AlreadyExists, () => model.AddNetwork(model));
        Check.That(Logits().SequenceEqual(plain), "a teacher changes results");
        model.RemoveNetwork();
        Fails(Code.NotFound, () => model.RemoveNetwork());
        model.LoadAdapter(Path.Combine(folder, "adapter"), "again");
        Check.That(Logits().SequenceEqual(trained), "a loaded adapter is another one");
        model.SetAdapterScale(0.5, "again");
        IsListed("again 2 4 False 0.5 2 512 2048");
        float[] scaled = Logits();
        Check.That(Distance(scaled, plain) > 1e-6 && Distance(scaled, trained) > 1e-6, "the scale changes nothing");
        model.MergeAdapter("again");
        IsListed("");
        Check.That(Distance(Logits(), scaled) < 1e-4, "the merge changes results");
    }

    internal static void Run(Tiny tiny)
    {
        string folder = Path.Combine(Path.GetTempPath(), "dllm_" + Guid.NewGuid());
        Directory.CreateDirectory(folder);
        using (Model model = tiny.NewModel())
        {
            var test = new AdapterTest(model, folder);
            test.AddAndList();
            test.Train(tiny.Loader);
            test.Save();
            test.FailedCalls();
            test.LoadAndMerge();
        }
        Directory.Delete(folder, true);
    }
}
