using System;

namespace Dllm
{
    /// <summary>A request that a loop has added. Its end removes it; of a loop that nothing refers to any more the
    /// collector does so, with the next request.</summary>
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
            if (!generator.IsDisposed) generator.Remove(Number);
        }
    }
}
