using System;

namespace Dllm
{
    /// <summary>Saves and resumes training; an object is weights opened for reading: a checkpoint, a model folder, a
    /// safetensors or GGUF file.</summary>
    public sealed class Checkpoint : Noun
    {
        /// <summary>Opens weights. NotFound; DataLoss for a damaged file.</summary>
        public Checkpoint(string path, Control control = default(Control))
        {
            IntPtr made = IntPtr.Zero;
            control.Run(task => Library.Api.dllm_checkpoint_open_task(Text.Z(path), task, out made, Failure.Here));
            Adopt(made, p => Library.Api.dllm_checkpoint_release(p));
        }

        /// <summary>Saves all that is needed to resume a run bit for bit; the new folder. The loader may be null.</summary>
        public static string Save(Trainer trainer, Loader loader, string root, Options settings = null,
                                  Control control = default(Control))
        {
            using (var options = new NativeOptions("checkpoint", settings))
            using (var buffer = new TextBuffer())
            {
                control.Run(task => Library.Api.dllm_checkpoint_save(trainer.Handle, Optional(loader), Text.Z(root),
                                                                     options.Handle, task, buffer.Handle, Failure.Here));
                return buffer.Read();
            }
        }

        /// <summary>Restores trainer, model and loader, which may be null.</summary>
        public static void Restore(Trainer trainer, Loader loader, string folder, Control control = default(Control)) =>
            control.Run(task => Library.Api.dllm_checkpoint_restore(trainer.Handle, Optional(loader), Text.Z(folder), task,
                                                                    Failure.Here));

        /// <summary>The folder of a run's highest committed checkpoint; null when there is none.</summary>
        public static string Latest(string root, Control control = default(Control))
        {
            using (var buffer = new TextBuffer())
            {
                try
                {
                    control.Run(task => Library.Api.dllm_checkpoint_latest_task(Text.Z(root), task, buffer.Handle,
                                                                                Failure.Here));
                }
                catch (DllmException e) when (e.Code == Code.NotFound)
                {
                    return null;
                }
                return buffer.Read();
            }
        }

        /// <summary>kind, path, step, metadata and tensors (name, dtype, shape, bytes), as JSON.</summary>
        public string Describe() => Written((self, to, error) => Library.Api.dllm_checkpoint_describe(self, to, error));

        /// <summary>Reads one tensor; block formats become f32. NotFound; the hint names the nearest.</summary>
        public Tensor Tensor(string name)
        {
            IntPtr made;
            Failure.Check(Library.Api.dllm_checkpoint_tensor(Handle, Text.Z(name), out made, Failure.Here));
            return new Tensor(made);
        }

        /// <summary>Reads every byte and compares sizes and checksums; DataLoss for a bad file.</summary>
        public void Verify(Control control = default(Control)) =>
            control.Run(task => Library.Api.dllm_checkpoint_verify(Handle, task, Failure.Here));
    }
}
