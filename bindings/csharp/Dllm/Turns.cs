using System;
using System.Collections.Generic;
using System.Threading;

namespace Dllm
{
    /// <summary>The calls of a generator run one after another, in the order in which they came. A call inside of a turn of
    /// its thread, as in a callback, is a part of that turn.</summary>
    internal sealed class Turns
    {
        private const int Pause = 10; // milliseconds between two looks at the control of a call that waits

        private readonly object gate = new object();
        private readonly LinkedList<object> waiting = new LinkedList<object>();
        private readonly Generator generator;
        private readonly Turn turn;
        private Thread owner;
        private int depth; // calls of the owner, each inside of the one before

        internal Turns(Generator generator)
        {
            this.generator = generator;
            turn = new Turn(this);
        }

        /// <summary>Waits for the turn, which the Dispose of the result ends. The control ends the wait as it would end the
        /// call, and so does the Dispose of the generator.</summary>
        internal IDisposable Take(Control control = default(Control))
        {
            lock (gate)
            {
                if (!IsFree) Wait(control);
                if (depth == 0) ThrowIfDisposed();
                Enter();
            }
            return turn;
        }

        /// <summary>Takes the turn and ends it at once, unless another thread has it or waits for it.</summary>
        internal void TryTake()
        {
            if (TryEnter()) turn.Dispose();
        }

        private bool TryEnter()
        {
            lock (gate)
            {
                bool isFree = IsFree;
                if (isFree) Enter();
                return isFree;
            }
        }

        private bool IsFree => owner == Thread.CurrentThread || (owner == null && waiting.Count == 0);

        private void Enter()
        {
            owner = Thread.CurrentThread;
            depth++;
        }

        private void Wait(Control control)
        {
            LinkedListNode<object> place = waiting.AddLast(new object());
            try
            {
                while (owner != null || waiting.First != place)
                {
                    ThrowIfDisposed();
                    control.ThrowIfEnded();
                    Monitor.Wait(gate, Pause);
                }
            }
            finally
            {
                waiting.Remove(place);
                Monitor.PulseAll(gate);
            }
        }

        private void ThrowIfDisposed()
        {
            if (generator.IsDisposed) throw new ObjectDisposedException("Generator");
        }

        private void Leave()
        {
            lock (gate)
            {
                if (--depth > 0) return;
                owner = null;
                Monitor.PulseAll(gate);
            }
        }

        private bool IsOutermost => depth == 1; // of the owner alone

        private sealed class Turn : IDisposable
        {
            private readonly Turns turns;

            internal Turn(Turns turns) { this.turns = turns; }

            /// <summary>Removes the requests of loops that are over, and ends the turn. Then it looks again: a loop that
            /// ended in between found the turn taken.</summary>
            public void Dispose()
            {
                bool isOutermost = turns.IsOutermost;
                do
                {
                    try
                    {
                        if (isOutermost) turns.generator.RemoveForgotten();
                    }
                    finally
                    {
                        turns.Leave();
                    }
                } while (isOutermost && turns.generator.HasForgotten && turns.TryEnter());
            }
        }
    }
}
