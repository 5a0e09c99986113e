using System;

namespace Dllm
{
    /// <summary>How much is masked at time t, and the weight of the loss.</summary>
    public sealed class Schedule : Noun
    {
        /// <summary>name: one of Library.Names("schedule"). NotFound; the hint names the nearest.</summary>
        public Schedule(string name, Options settings = null)
        {
            using (var options = new NativeOptions("schedule:" + name, settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_schedule_new(Text.Z(name), options.Handle, out made, Failure.Here));
                Adopt(made, p => Library.Api.dllm_schedule_release(p));
            }
        }

        /// <summary>A schedule of points; dalpha and weight are derived when they are null.</summary>
        public Schedule(double[] t, double[] alpha, double[] dalpha = null, double[] weight = null)
        {
            foreach (double[] column in new[] {alpha, dalpha ?? alpha, weight ?? alpha})
                if (column.Length != t.Length) throw new ArgumentException("columns of different lengths");
            IntPtr made;
            Failure.Check(Library.Api.dllm_schedule_table(t, alpha, dalpha, weight, t.Length, out made, Failure.Here));
            Adopt(made, p => Library.Api.dllm_schedule_release(p));
        }

        /// <summary>alpha, its derivative and the weight of the loss at some times.</summary>
        public void Eval(double[] t, out double[] alpha, out double[] dalpha, out double[] weight)
        {
            alpha = new double[t.Length];
            dalpha = new double[t.Length];
            weight = new double[t.Length];
            Failure.Check(Library.Api.dllm_schedule_eval(Handle, t, t.Length, alpha, dalpha, weight, Failure.Here));
        }
    }

    /// <summary>How a batch is corrupted and how the loss is computed.</summary>
    public sealed class Objective : Noun
    {
        /// <summary>name: one of Library.Names("objective"). NotFound; the hint names the nearest.</summary>
        public Objective(string name, Schedule schedule = null, Options settings = null)
        {
            using (var options = new NativeOptions("objective:" + name, settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_objective_new(Text.Z(name), Optional(schedule), options.Handle, out made,
                                                             Failure.Here));
                Adopt(made, p => Library.Api.dllm_objective_release(p));
            }
        }

        /// <summary>Draws the noise of one step; with a model its mask token, shift and vocabulary are used.</summary>
        public Batch Prepare(Batch rows, long seed = 0, long step = 0, Model model = null)
        {
            IntPtr made;
            Failure.Check(Library.Api.dllm_objective_prepare(Handle, Optional(model), rows.Handle, seed, step, out made,
                                                             Failure.Here));
            return new Batch(made);
        }

        /// <summary>The loss of one batch in nats; nothing is changed.</summary>
        public double Loss(Model model, Batch rows, long seed = 0, Control control = default(Control))
        {
            double loss = 0;
            control.Run(task => Library.Api.dllm_objective_loss(Handle, model.Handle, rows.Handle, seed, task, out loss,
                                                                Failure.Here));
            return loss;
        }

        /// <summary>The loss of every row: arrays "sums" in nats and "counts" of trained tokens.</summary>
        public Batch RowLosses(Model model, Batch rows, long seed = 0, Control control = default(Control))
        {
            IntPtr made = IntPtr.Zero;
            control.Run(task => Library.Api.dllm_objective_row_losses(Handle, model.Handle, rows.Handle, seed, task, out made,
                                                                      Failure.Here));
            return new Batch(made);
        }
    }
}
