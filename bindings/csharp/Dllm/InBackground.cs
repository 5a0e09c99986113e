using System.Collections.Generic;
using System.Threading.Tasks;

namespace Dllm
{
    /// <summary>Pieces for an asynchronous loop, each taken on the thread pool.</summary>
    internal sealed class InBackground : IAsyncEnumerator<Piece>
    {
        private readonly IEnumerator<Piece> pieces;

        internal InBackground(IEnumerator<Piece> pieces) { this.pieces = pieces; }

        public Piece Current => pieces.Current;

        public ValueTask<bool> MoveNextAsync() => new ValueTask<bool>(Task.Run(() => pieces.MoveNext()));

        public ValueTask DisposeAsync()
        {
            pieces.Dispose();
            return default(ValueTask);
        }
    }
}
