using System;
using System.Runtime.InteropServices;
using System.Threading;

namespace Dllm
{
    /// <summary>Cancels and shows the progress of a long call, from any thread. A cancelled task stays cancelled.</summary>
    public sealed class DllmTask : Noun
    {
        private volatile bool wasCancelled;

        /// <summary>A task that is not cancelled and has no deadline.</summary>
        public DllmTask() { Adopt(Library.Api.dllm_task_new(), p => Library.Api.dllm_task_release(p)); }

        internal override string Kind => "task";

        /// <summary>Calls that use the task throw Cancelled within milliseconds. Every object stays usable.</summary>
        public void Cancel()
        {
            wasCancelled = true;
            Library.Api.dllm_task_cancel(Open);
        }

        /// <summary>Whether the task was cancelled, or its deadline has passed.</summary>
        public bool IsCancelled => Library.Api.dllm_task_is_cancelled(Open) != 0;

        /// <summary>Throws what a call with the task would throw now.</summary>
        internal void ThrowIfEnded()
        {
            if (!IsCancelled) return;
            if (wasCancelled) throw new DllmException(Code.Cancelled, "the task was cancelled", "");
            throw new DllmException(Code.DeadlineExceeded, "the task's deadline has passed", "");
        }

        /// <summary>The calls end after this time from now; zero and less: at once; null removes the deadline.</summary>
        public void SetDeadline(TimeSpan? after) =>
            Library.Api.dllm_task_set_deadline(
                Open, after == null ? -1 : System.Math.Max(0, (long)after.Value.TotalMilliseconds));

        /// <summary>What the running call has done, and of how much; total 0: not known yet.</summary>
        public void Progress(out long done, out long total) => Library.Api.dllm_task_progress(Open, out done, out total);
    }

    /// <summary>Ends and watches a long call: a CancellationToken, a DllmTask, or both.</summary>
    public struct Control
    {
        private readonly CancellationToken token;
        private readonly DllmTask task;

        /// <summary>A token and a task together; either may be absent.</summary>
        public Control(CancellationToken token, DllmTask task)
        {
            this.token = token;
            this.task = task;
        }

        /// <summary>A long call takes either.</summary>
        public static implicit operator Control(CancellationToken token) => new Control(token, null);

        /// <summary>A long call takes either.</summary>
        public static implicit operator Control(DllmTask task) => new Control(CancellationToken.None, task);

        /// <summary>Throws what a call would throw that the token or the task ends.</summary>
        internal void ThrowIfEnded()
        {
            token.ThrowIfCancellationRequested();
            if (task != null) task.ThrowIfEnded();
        }

        /// <summary>Calls a function with the task; OperationCanceledException when the token ended it.</summary>
        internal void Run(Func<SafeHandle, int> function)
        {
            token.ThrowIfCancellationRequested();
            DllmTask own = task == null && token.CanBeCanceled ? new DllmTask() : null;
            DllmTask used = task ?? own;
            int status;
            using (own)
            using (used == null ? default(CancellationTokenRegistration) : token.Register(used.Cancel))
                status = function(Noun.Optional(used));
            if (status == Raw.OK) return;
            DllmException problem = Failure.Read(status);
            if (problem.Code == Code.Cancelled && token.IsCancellationRequested)
                throw new OperationCanceledException(problem.Message, problem, token);
            throw problem;
        }
    }
}
