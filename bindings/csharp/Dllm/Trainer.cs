using System;
using System.Collections.Generic;

namespace Dllm
{
    /// <summary>Changes the weights of a model.</summary>
    public sealed class Trainer : Noun
    {
        /// <summary>Options of kind "trainer". InvalidArgument for an option of another optimizer; NotFound for a
        /// pattern that fits no tensor; ResourceExhausted without memory.</summary>
        public Trainer(Model model, Objective objective, Options settings = null)
        {
            using (var options = new NativeOptions("trainer", settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_trainer_new(model.Handle, objective.Handle, options.Handle, out made,
                                                           Failure.Here));
                Adopt(made, p => Library.Api.dllm_trainer_release(p));
            }
        }

        /// <summary>One optimizer step; the loss before the update, in nats.</summary>
        public double Step(Batch rows, Control control = default(Control))
        {
            double loss = 0;
            control.Run(task => Library.Api.dllm_trainer_step(Handle, rows.Handle, task, out loss, Failure.Here));
            return loss;
        }

        /// <summary>A step per batch of the loader, at most count; the losses.</summary>
        public IEnumerable<double> Steps(Loader loader, int count, Control control = default(Control))
        {
            for (; count > 0; count--)
            {
                using (Batch batch = loader.Next())
                {
                    if (batch == null) yield break;
                    yield return Step(batch, control);
                }
            }
        }

        /// <summary>Adds the gradients of a batch.</summary>
        public void Accumulate(Batch rows, Control control = default(Control)) =>
            control.Run(task => Library.Api.dllm_trainer_accumulate(Handle, rows.Handle, task, Failure.Here));

        /// <summary>Updates with the gradients summed by Accumulate; their mean loss.</summary>
        public double Apply(Control control = default(Control))
        {
            double loss = 0;
            control.Run(task => Library.Api.dllm_trainer_apply(Handle, task, out loss, Failure.Here));
            return loss;
        }

        /// <summary>Brings the weights of the device into the model.</summary>
        public void Sync() => Failure.Check(Library.Api.dllm_trainer_sync(Handle, Failure.Here));

        /// <summary>Takes many steps; the callback gets every event.</summary>
        public void Run(Loader loader, long steps, EventCallback callback = null, Control control = default(Control)) =>
            Session.Run(control, callback, (fn, data, task) => Library.Api.dllm_trainer_run(
                                               Handle, loader.Handle, steps, fn, data, task, Failure.Here));

        /// <summary>The mean loss over batches, in nats; nothing is changed but the loader's position.</summary>
        public double Eval(Loader loader, long maxBatches = 8, Control control = default(Control))
        {
            double loss = 0;
            control.Run(task => Library.Api.dllm_trainer_eval(Handle, loader.Handle, maxBatches, task, out loss,
                                                              Failure.Here));
            return loss;
        }

        /// <summary>A number of the last step: step, loss (nats), lr, grad_norm, tokens, tokens_per_second, mfu,
        /// memory (bytes), input_wait and rank_wait (seconds), ... NotFound; the hint names the nearest.</summary>
        public double Metric(string key)
        {
            double value;
            Failure.Check(Library.Api.dllm_trainer_metric(Handle, Text.Z(key), out value, Failure.Here));
            return value;
        }

        /// <summary>All metrics with their units, the options, the arrays of the optimizer, as JSON.</summary>
        public string Describe() => Written((self, to, error) => Library.Api.dllm_trainer_describe(self, to, error));

        /// <summary>Changes "lr", "weight_decay" or "clip" between steps, also in a callback.</summary>
        public void Set(string key, double value) =>
            Failure.Check(Library.Api.dllm_trainer_set_f64(Handle, Text.Z(key), value, Failure.Here));

        /// <summary>Writes every event to a sink: "jsonl" or "csv" (a file), "tensorboard" (a folder), "console".</summary>
        public void AddSink(string kind, string target = null, Options settings = null)
        {
            using (var options = new NativeOptions("sink", settings))
                Failure.Check(Library.Api.dllm_trainer_add_sink(Handle, Text.Z(kind), Text.Z(target), options.Handle,
                                                                Failure.Here));
        }

        /// <summary>The model of a role: "live", or "ema" where the trainer has one.</summary>
        public Model Model(string role = "live")
        {
            IntPtr made;
            Failure.Check(Library.Api.dllm_trainer_model(Handle, Text.Z(role), out made, Failure.Here));
            return new Model(made);
        }
    }
}
