using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Threading;
using Dllm;

/// <summary>The nine points of ../run_hub.py.</summary>
internal static class HubTest
{
    private const string Name = "tester/tiny";

    private static string PullWithProgress()
    {
        using (var task = new DllmTask())
        {
            string path = Hub.Pull(Name, new HubOptions {Attempts = 2}, task);
            long done, total;
            task.Progress(out done, out total);
            Check.That(File.Exists(Path.Combine(path, "config.json")), path);
            Check.That(done == total && total > 320000, done + " of " + total + " bytes");
            return path;
        }
    }

    private static void WhatTheCacheHas(string path)
    {
        PullPlan plan = Hub.Describe(Name);
        Check.That(plan.Name == Name && plan.Missing == 0 && plan.Files.Count == 3 && plan.Path == path, plan.Path);
        Check.That(plan.Files[2].IsCached && plan.Files[2].HasWeights && plan.Free > 0, plan.Files[2].Path);
        IReadOnlyList<CachedRepository> all = Hub.List();
        Check.That(all.Count == 1 && all[0].Name == Name && all[0].Kind == "model", all.Count + " repositories");
        CachedSnapshot one = all[0].Snapshots[0];
        Check.That(one.Files == 3 && one.Revisions[0] == "main" && one.Path == path, one.Path);
        Check.That(all[0].Used.Year > 2000, all[0].Used.ToString());
        CacheReport report = Hub.Verify(Name);
        Check.That(report.Files == 3 && report.Checked == 1 && report.Faults.Count == 0, report.Files + " files");
    }

    private static void WhatFails(string path)
    {
        var problem = Check.Throws<DllmException>(() => Hub.Pull("tester/tin"));
        Check.That(problem.Code == Code.NotFound && problem.Message.Contains("the hub has no model tester/tin"),
                   problem.ToString());
        var offline = new HubOptions {Offline = true};
        Check.That(Hub.Pull(Name, offline) == path, "another path offline");
        problem = Check.Throws<DllmException>(() => Hub.Pull("tester/none", offline));
        Check.That(problem.Message.Contains("not in the cache"), problem.ToString());
        problem = Check.Throws<DllmException>(() => Hub.Pull(Name, new Options {["endpoint"] = "http://127.0.0.1:1"}));
        Check.That(problem.Message.Contains("endpoint"), problem.ToString());
    }

    private static void Cancel()
    {
        Stopwatch watch = Stopwatch.StartNew();
        using (var source = new CancellationTokenSource(500))
            Check.Throws<OperationCanceledException>(() => Hub.Pull("tester/slow", null, source.Token));
        Check.That(watch.Elapsed.TotalSeconds < 10, "the cancelled pull took " + watch.Elapsed);
    }

    private static void Remove()
    {
        long freed = Hub.Remove(Name);
        Check.That(freed > 320000, freed + " bytes were freed");
        var problem = Check.Throws<DllmException>(() => Hub.Remove(Name));
        Check.That(problem.Code == Code.NotFound, problem.ToString());
    }

    private static void Main()
    {
        string path = PullWithProgress();
        WhatTheCacheHas(path);
        WhatFails(path);
        Cancel();
        Remove();
    }
}
