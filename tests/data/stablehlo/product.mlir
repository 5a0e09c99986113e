module @step_1 {
  func.func public @main(%0: tensor<2x3xf32>, %1: tensor<4x3xf32>, %2: tensor<2x4xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
    %3 = "stablehlo.transpose"(%1) <{permutation = array<i64: 1, 0>}> : (tensor<4x3xf32>) -> tensor<3x4xf32>
    %4 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
    %5 = "stablehlo.constant"() <{value = dense<0x3F800000> : tensor<f32>}> : () -> tensor<f32>
    %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x4xf32>
    %7 = "stablehlo.add"(%2, %6) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    "func.return"(%4, %7) : (tensor<2x4xf32>, tensor<2x4xf32>) -> ()
  }
}
