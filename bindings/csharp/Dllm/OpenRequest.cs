using System;

namespace Dllm
{
    /// <summary>A request that a loop has added. Its end removes the request, without a wait for calls of other threads. The
    /// collector finds a loop that nothing refers to, and the next call removes its request.</summary>
    internal sealed class OpenRequest : IDisposable
    {
        private readonly Generator generator;

        internal OpenRequest(Generator generator, int number)
        {
            this.generator = generator;
            Number = number;
        }

        ~OpenRequest() { generator.Forget(Number); }

        internal int Number { get; }

        public void Dispose()
        {
            GC.SuppressFinalize(this);
            generator.Drop(Number);
        }
    }
}
