using System;
using System.Collections.Generic;

namespace Dllm
{
    /// <summary>Batches of a dataset, in a reproducible order.</summary>
    public sealed class Loader : Noun
    {
        /// <summary>Options of kind "loader": batch (rows), length (tokens), epochs, seed, ... FailedPrecondition for
        /// raw text.</summary>
        public Loader(Dataset data, Options settings = null)
        {
            using (var options = new NativeOptions("loader", settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_loader_new(data.Handle, options.Handle, out made, Failure.Here));
                Adopt(made, p => Library.Api.dllm_loader_release(p));
            }
        }

        /// <summary>The next batch; null at the end of the data.</summary>
        public Batch Next()
        {
            IntPtr made;
            int status = Library.Api.dllm_loader_next(Handle, out made, Failure.Here);
            if (status == Raw.OUT_OF_RANGE) return null;
            Failure.Check(status);
            return new Batch(made);
        }

        /// <summary>The batches to the end of the data. Each is disposed when the loop goes on.</summary>
        public IEnumerable<Batch> Batches()
        {
            while (true)
            {
                using (Batch batch = Next())
                {
                    if (batch == null) yield break;
                    yield return batch;
                }
            }
        }

        /// <summary>Writes what a teacher computes from the rows of one epoch to a folder, and returns the number of new
        /// chunks. Options of kind "anchors".</summary>
        public long WriteAnchors(Model teacher, string path, Options settings = null, Control control = default(Control))
        {
            long chunks = 0;
            using (var options = new NativeOptions("anchors", settings))
                control.Run(task => Library.Api.dllm_loader_write_anchors(
                    Handle, teacher.Handle, Text.Z(path), options.Handle, task, out chunks, Failure.Here));
            return chunks;
        }

        /// <summary>How many rows were read since the start, over all epochs and ranks. A value that is set goes
        /// there; OutOfRange past the end.</summary>
        public long Position
        {
            get { return Library.Api.dllm_loader_position(Open); }
            set { Failure.Check(Library.Api.dllm_loader_seek(Handle, value, Failure.Here)); }
        }
    }
}
