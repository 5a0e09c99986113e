using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Dllm;

/// <summary>Requests of many threads on one queue.</summary>
internal sealed class QueueTest
{
    private static readonly RequestOptions longest = new RequestOptions {Length = 200, Steps = 200}; // outlives a test

    private readonly Queue queue;
    private readonly Generator generator;

    private QueueTest(Generator generator)
    {
        this.generator = generator;
        queue = new Queue(generator.Model(), generator.Tokenizer(), new QueueOptions {Slots = 3});
    }

    private static Options Short(int seed = 0) =>
        new RequestOptions {Length = 8, Steps = 4, Temperature = 0.8, Seed = seed};

    private static int NumberIn(string json, string key)
    {
        string compact = json.Replace(" ", "");
        int at = compact.IndexOf("\"" + key + "\":", StringComparison.Ordinal) + key.Length + 3;
        return int.Parse(new string(compact.Skip(at).TakeWhile(char.IsDigit).ToArray()));
    }

    private void NoRequestIsLeft()
    {
        string about = queue.Describe();
        Check.That(NumberIn(about, "waiting") + NumberIn(about, "decoding") + NumberIn(about, "over") == 0, about);
    }

    private static Code CodeOf(Action action) => Check.Throws<DllmException>(action).Code;

    private void ThreadsGetTheTextsOfAGenerator()
    {
        string[] wanted = Enumerable.Range(0, 12).Select(seed => generator.Generate("Mia", Short(seed)).Text).ToArray();
        var texts = new string[wanted.Length];
        List<Thread> threads = Enumerable.Range(0, wanted.Length).Select(seed => new Thread(() =>
        {
            Options settings = Short(seed).And(new SubmissionOptions {Client = "c" + seed % 3, Priority = seed % 2});
            texts[seed] = queue.Generate("Mia", settings).Text;
        })).ToList();
        threads.ForEach(each => each.Start());
        threads.ForEach(each => each.Join());
        Check.That(texts.SequenceEqual(wanted), string.Join("|", texts) + " instead of " + string.Join("|", wanted));
        Ticket[] tickets = Enumerable.Range(0, 4).Select(seed => queue.Submit("Mia", Short(seed))).ToArray();
        Generation[] made = Task.WhenAll(tickets.Select(ticket => ticket.GenerationAsync())).Result;
        Check.That(made.Select(each => each.Text).SequenceEqual(wanted.Take(4)), "texts of tasks");
        foreach (Ticket ticket in tickets) ticket.Dispose();
    }

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

    private void PiecesAreTheText()
    {
        string wanted = generator.Generate("Mia", Short(3)).Text;
        Ticket ticket = queue.Submit("Mia", Short(3));
        Check.That(string.Concat(ticket.Select(piece => piece.Text)) == wanted, "other pieces");
        Check.That(ticket.Generation().Text == wanted && ticket.Wait() && !ticket.Any(), "after the pieces");
        Check.That(Read(queue.Submit("Mia", Short(3)), CancellationToken.None).Result == wanted, "other pieces of await");
        var late = new CancellationTokenSource(20);
        Check.Throws<OperationCanceledException>(
            () => Read(queue.Submit("Mia", longest), late.Token).GetAwaiter().GetResult());
        foreach (Piece piece in queue.Submit("Mia", longest))
        {
            Check.That(piece.Canvas.Contains("<mask"), piece.Canvas);
            break;
        }
        NoRequestIsLeft();
    }

    private void ACancelEndsOneRequest()
    {
        using (Ticket ticket = queue.Submit("Mia", longest), other = queue.Submit("Mia", Short()))
        {
            using (new Timer(_ => ticket.Cancel(), null, 20, Timeout.Infinite))
                Check.That(CodeOf(() => ticket.Generation()) == Code.Cancelled, "a cancel");
            Check.That(CodeOf(() => ticket.Count()) == Code.Cancelled, "a loop over a cancelled request");
            Check.That(other.Generation().Text == generator.Generate("Mia", Short()).Text, "the other request");
        }
        NoRequestIsLeft();
    }

    private void AControlEndsTheWaitAlone()
    {
        using (Ticket ticket = queue.Submit("Mia", longest))
        {
            var late = new CancellationTokenSource(10);
            Check.Throws<OperationCanceledException>(() => ticket.Generation(late.Token));
            Check.That(!ticket.Wait(TimeSpan.Zero) && !ticket.Wait(TimeSpan.FromMilliseconds(5)), "it goes on");
        }
        Options soon = longest.And(new SubmissionOptions {Timeout = 0.01});
        Check.That(CodeOf(() => queue.Generate("Mia", soon)) == Code.DeadlineExceeded, "a timeout");
        NoRequestIsLeft();
    }

    private void AnErrorOfOneRequest()
    {
        var none = new RequestOptions {Suppress = Enumerable.Range(0, generator.Tokenizer().Count).ToArray()};
        using (Ticket good = queue.Submit("Mia", Short()))
        {
            Check.That(CodeOf(() => queue.Generate("Mia", Short().And(none))) != Code.Cancelled, "a request that fails");
            Check.That(good.Generation().Finish == "full", "the other request");
        }
        Check.That(CodeOf(() => queue.Submit("Mia", new Options {["temprature"] = 1})) == Code.NotFound, "temprature");
        Check.That(CodeOf(() => queue.Submit("Mia", new Options {["priority"] = 2000})) == Code.InvalidArgument, "priority");
        NoRequestIsLeft();
    }

    private void LimitsDrainAndDispose()
    {
        var small = new Queue(queue.Model(), queue.Tokenizer(), new QueueOptions {Slots = 1, Waiting = 1});
        Ticket first = small.Submit("Mia", longest);
        for (long seen = 0; NumberIn(small.Describe(), "decoding") == 0;) seen = small.Wait(seen, TimeSpan.FromSeconds(1));
        Ticket second = small.Submit("Mia", Short());
        Check.That(CodeOf(() => small.Submit("Mia")) == Code.ResourceExhausted, "a limit");
        first.Dispose();
        first.Dispose();
        small.Drain();
        Check.That(second.Wait(TimeSpan.Zero), "it is over");
        Check.That(CodeOf(() => small.Submit("Mia")) == Code.Unavailable, "it is drained");
        small.Dispose();
        Check.Throws<ObjectDisposedException>(() => second.Generation());
        second.Dispose();
    }

    private void ALoad(string root)
    {
        string path = Path.Combine(root, "scripts/recipes/stories.gguf");
        var settings = new Options {["engine"] = new EngineOptions {Threads = 1}, ["slots"] = 2, ["dtype"] = "f32"};
        using (Queue loaded = Queue.Load(path, settings)) Check.That(NumberIn(loaded.Describe(), "slots") == 2, "slots");
        var unknown = Check.Throws<DllmException>(() => Queue.Load(path, new Options {["slot"] = 2}));
        Check.That(unknown.Hint.Contains("did you mean slots?"), unknown.ToString());
    }

    /// <summary>On a thread of its own no register refers to the ticket any more.</summary>
    private void ATicketThatIsForgotten()
    {
        var thread = new Thread(() => queue.Submit("Mia", longest));
        thread.Start();
        thread.Join();
        GC.Collect();
        GC.WaitForPendingFinalizers();
        NoRequestIsLeft();
    }

    internal static void Run(Generator generator, string root)
    {
        var test = new QueueTest(generator);
        test.ThreadsGetTheTextsOfAGenerator();
        test.PiecesAreTheText();
        test.ACancelEndsOneRequest();
        test.AControlEndsTheWaitAlone();
        test.AnErrorOfOneRequest();
        test.LimitsDrainAndDispose();
        test.ALoad(root);
        test.ATicketThatIsForgotten();
    }
}
